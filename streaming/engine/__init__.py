"""Applies micro-batches to the tables, for `foreachBatch`.

An engine executes a micro-batch: `driver` in this process, `spark` on Spark's executors.
Imports `tables`; not `source`, `reload` or `lag`.
"""
