"""Conclusions from replayed state: lag, status rules (ours and Burrow's), events.

Imports `replay` and the packages below it.
"""
