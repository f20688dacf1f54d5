"""Lag and status of groups, from the tables and from offset samples of user topics.

Imports `tables` and `kafka`.
"""
