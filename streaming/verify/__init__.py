"""The broker's answers beside those of the tables, and the comparison of both.

Imports `tables` and `kafka`.
"""
