"""Prometheus metrics of the tables, and the HTTP server for them and the dashboard.

Imports `alerts` and the packages below it.
"""
