"""Simulated logs where others can use them: in files, in tables, in a broker's topic."""
