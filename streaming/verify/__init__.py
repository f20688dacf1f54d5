"""Compares the answers of the coordinators with those of the tables.

Imports `tables` and `kafka`.
"""
