"""Simulated logs, written to files, to tables or to a cluster's topic."""
