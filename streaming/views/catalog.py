"""The tables in a Spark catalog, for a Thrift server, a notebook or a BI tool."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from deltalake import DeltaTable

from streaming.errors import ConfigurationError, first_line
from streaming.tables.reader import TableReader
from streaming.tables.schemas import ALERTS, ALL_TABLES, Table
from streaming.views.definitions import SELECTS, in_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def schema_location(session: SparkSession, schema: str) -> str:
    """The location of a schema `CATALOG.SCHEMA`, which is created if it is missing.

    Raises:
        ConfigurationError: the catalog fails, or the schema has no location.
    """
    from pyspark.errors import PySparkException

    try:
        _create_database(session, schema)
        location: str | None = session.catalog.getDatabase(schema).locationUri
    except PySparkException as error:
        raise ConfigurationError(
            f"--tables {schema}: {first_line(error)}; for a folder of this name, pass ./{schema}"
        ) from error
    if not location:
        raise ConfigurationError(
            f"--tables {schema}: the catalog has no location for this schema: create the schema "
            "with one, or pass a folder and --catalog"
        )
    return location


def register(session: SparkSession, tables: str, database: str) -> str:
    """Register every table, and each view that is a SELECT, in a database of Spark's catalog.

    The catalog stores only the address of each table; no data moves. It cannot hold computed views
    (docs/sql.md): a session creates them with `create_views`.

    Args:
        session: a session with the catalog: Hive's metastore, or another one that is configured.
        tables: the tables folder.
        database: `DATABASE` or `CATALOG.DATABASE`; created if it is missing.

    Returns:
        The database with its catalog, as in a statement of SQL.

    Raises:
        ConfigurationError: the catalog fails, or the database has tables of another folder.
    """
    from pyspark.errors import PySparkException

    try:
        _create_database(session, database)
        with _using(session, _name(database)):
            catalog = session.catalog.currentCatalog()
            for table in ALL_TABLES:
                # A temporary view of `create_views` would hide the table.
                session.catalog.dropTempView(table.name)
                _register_table(session, table, tables)
            if DeltaTable.is_deltatable(ALERTS.path(tables)):
                _register_table(session, ALERTS, tables)
            retention_ms = TableReader(tables).offsets_retention_ms
            for view, select in SELECTS.items():
                text = in_spark(select, retention_ms)
                session.sql(f"CREATE OR REPLACE VIEW {view} AS {text}")
    except PySparkException as error:
        raise ConfigurationError(
            f"cannot register the tables in {database}: {first_line(error)}"
        ) from error
    return _name(f"{catalog}.{database.rpartition('.')[2]}")


def _create_database(session: SparkSession, database: str) -> None:
    # Without this check Hive's metastore logs an error for an existing database.
    if not session.catalog.databaseExists(database):
        session.sql(f"CREATE DATABASE IF NOT EXISTS {_name(database)}")


@contextmanager
def _using(session: SparkSession, database: str) -> Iterator[None]:
    """Make a database the current one: a view stores the current database for its tables."""
    catalog = _quoted(session.catalog.currentCatalog())
    before = f"{catalog}.{_quoted(session.catalog.currentDatabase())}"
    session.sql(f"USE {database}")
    try:
        yield
    finally:
        session.sql(f"USE {before}")


def _register_table(session: SparkSession, table: Table, tables: str) -> None:
    path = table.path(tables)
    session.sql(f"CREATE TABLE IF NOT EXISTS {table.name} USING delta LOCATION {_literal(path)}")
    (registered, location), (own, _) = (
        session.sql(f"DESCRIBE DETAIL {which}").select("id", "location").collect()[0]
        for which in (table.name, f"delta.{_quoted(path)}")
    )
    if registered != own:
        raise ConfigurationError(
            f"table {table.name} in the catalog is already registered at {location}, not at "
            f"{path}: choose another database, or drop that table"
        )


def _name(database: str) -> str:
    return ".".join(_quoted(part) for part in database.split("."))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
