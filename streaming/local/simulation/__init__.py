"""Simulated logs for others to use: in files, in tables, in a broker's topic."""
