"""Reload of log partitions: its reasons, its requests and its first step.

Imports `tables` and `kafka`.
"""
