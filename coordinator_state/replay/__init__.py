"""The loader's rules: offsets, all group types, expiry, and the reference loader of a whole log.

Imports `log`, `records` and `wire`.
"""
