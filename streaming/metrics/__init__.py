"""Prometheus metrics of the tables, and the HTTP server that serves them and the page.

Imports `alerts` and the packages below it.
"""
