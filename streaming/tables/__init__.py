"""The Delta tables: schemas, folder, reads and writes with delta-rs, maintenance, migration.

Imports only the core; not `kafka`.
"""
