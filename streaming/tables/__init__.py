"""The Delta tables: schemas, the folder, writes and reads with delta-rs, upkeep, migration.

Imports only the core; not `kafka`.
"""
