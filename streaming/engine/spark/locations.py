"""The tables folder as Spark names it."""

from __future__ import annotations

from streaming.tables.locations import local_path


def spark_location(tables: str) -> str:
    """The address of a tables folder for Spark, which would look for a path on its own store."""
    path = local_path(tables)
    # Not `as_uri`: Hadoop takes an address literally, without percent-encoding.
    return tables.rstrip("/") if path is None else f"file://{path}"
