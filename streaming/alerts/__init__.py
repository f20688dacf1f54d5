"""Alerts: rules in YAML over the tables, and notices to those who are to know."""
