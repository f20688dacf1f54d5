"""Prometheus metrics of the tables.

Imports `http` and the packages below it.
"""
