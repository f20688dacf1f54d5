"""Computed views, and access to tables and views in SQL, Spark and Python.

Also formats rows as text, JSON and CSV. Imports `verify`, `lag` and the packages below them.
"""
