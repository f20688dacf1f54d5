"""The log: record batches and message sets, and their records as log rows.

`log_decoder` is the readable decoder, `kernel` its compiled twin. Imports `records` and `wire`.
"""
