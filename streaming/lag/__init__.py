"""Lag and status of groups, from the tables and from samples of the logs of user topics.

Imports `tables` and `kafka`.
"""
