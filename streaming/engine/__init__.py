"""The work of `foreachBatch`: one micro-batch planned and written, table by table.

Imports `tables` and `kafka`; not `source`, `reload` or `lag`.
"""
