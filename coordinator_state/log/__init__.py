"""The log: record batches and message sets, and their records as log rows.

`log_decoder` is the reference decoder; `kernel` is the compiled decoder with the same results.
Imports `records` and `wire`.
"""
