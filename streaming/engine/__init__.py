"""The work of `foreachBatch`: a micro-batch is planned, and written table by table.

Imports `tables` and `kafka`; not `source`, `reload` or `lag`.
"""
