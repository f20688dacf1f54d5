"""Plans for offsets that Kafka's own tool executes: resets, clones, cleanups and backups.

A plan is computed from the tables; nothing here connects to Kafka. Imports `views`, `lag` and the
packages below them.
"""
