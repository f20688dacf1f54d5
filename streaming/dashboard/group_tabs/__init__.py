"""The tables of a group's page, one module for each tab."""
