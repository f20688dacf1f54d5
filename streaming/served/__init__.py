"""Snapshots of the tables of clusters, each computed once for all requests of the page and the API.

Imports `alerts` and the packages below it.
"""
