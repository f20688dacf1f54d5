"""Computed views and the ways to read them: a snapshot, SQL, Spark, Python.

Also the text, JSON and CSV in which rows are shown. Imports `verify`, `lag`, `tables`.
"""
