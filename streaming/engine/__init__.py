"""Applies micro-batches to the tables, for `foreachBatch`.

Imports `tables`; not `source`, `reload` or `lag`.
"""
