"""Reload of log partitions: its reasons, requests for it, and its first step.

Imports `tables` and `kafka`.
"""
