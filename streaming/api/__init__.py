"""The HTTP API: JSON about groups, lag and events, and the addresses of Burrow's API.

Imports `http`, `served` and the packages below them.
"""
