"""The loader's rules: offsets, every group type, expiry, and the reference loader of a whole log.

Imports `log`, `records` and `wire`.
"""
