"""Scenarios: clusters that a YAML file describes, played in virtual time."""
