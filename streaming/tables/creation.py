"""Creation of the tables, and their table properties."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import CommitFailedError

from streaming.tables import deletion_vectors, delta
from streaming.tables.properties import LOG_RETENTION, snapshot_retention
from streaming.tables.schemas import (
    ALL_TABLES,
    DEFAULT_SNAPSHOT_RETENTION,
    LOAD_PROGRESS,
    Table,
)
from streaming.tables.writer_epoch import WriterEpoch, committed

_PROPERTIES = {
    # Readers of the plain protocol do not support deletion vectors.
    deletion_vectors.PROPERTY: "false",
    # Each entry after the last checkpoint costs every reader and writer 0.3 ms; a checkpoint takes
    # about 5 ms.
    "delta.checkpointInterval": "10",
}
_REMOVED_FILES_LISTED = timedelta(hours=1)
"""Checkpoints of the Delta log list a removed file for this time; maintenance deletes it sooner."""


def retention_properties(retention: timedelta) -> dict[str, str]:
    """The table properties that keep old versions for a retention."""
    listed = max(retention, _REMOVED_FILES_LISTED)
    return {
        # Maintenance cleans the log instead: it knows the files of the newest snapshot.
        "delta.enableExpiredLogCleanup": "false",
        "delta.deletedFileRetentionDuration": _interval(listed),
        LOG_RETENTION: _interval(retention),
    }


def _interval(duration: timedelta) -> str:
    return f"interval {round(duration.total_seconds())} seconds"


def create_tables(
    tables: str,
    properties: Mapping[str, str],
    *,
    snapshot_retention: timedelta = DEFAULT_SNAPSHOT_RETENTION,
    change_data_feed: bool = False,
) -> None:
    """Create the tables that do not exist; `properties` go to `load_progress`.

    `load_progress` is created last: a folder that has it has every table.
    """
    for table in ALL_TABLES:
        own = dict(properties) if table.name == LOAD_PROGRESS.name else {}
        if change_data_feed:
            own[delta.CHANGE_DATA_FEED] = "true"
        create_table(tables, table, {**retention_properties(snapshot_retention), **own})


def create_missing(tables: str) -> None:
    """Create the tables that a folder with `load_progress` lacks; later releases have more tables.

    Raises:
        TablesUnavailable: a table cannot be created.
    """
    known = properties_of(tables, LOAD_PROGRESS)
    create_tables(
        tables,
        {},
        snapshot_retention=snapshot_retention(known) or DEFAULT_SNAPSHOT_RETENTION,
        change_data_feed=known.get(delta.CHANGE_DATA_FEED) == "true",
    )


def create_table(tables: str, table: Table, properties: Mapping[str, str]) -> None:
    """Create a table unless it exists; another process may create it at the same time.

    Raises:
        TablesUnavailable: the table cannot be created.
    """
    path = table.path(tables)
    with delta.writing(path):
        try:
            DeltaTable.create(
                path,
                schema=table.schema,
                mode="ignore",
                partition_by=list(table.partition_by) or None,
                configuration={**_PROPERTIES, **properties},
                # With retries, delta-rs writes a second version 0 over that of the other process.
                commit_properties=CommitProperties(max_commit_retries=0),
                raise_if_key_not_exists=False,
            )
        except CommitFailedError:
            if not DeltaTable.is_deltatable(path):
                raise


def properties_of(tables: str, table: Table) -> dict[str, str]:
    """The properties of a table.

    Raises:
        TablesUnavailable: the table cannot be read.
    """
    return dict(delta.open_table(tables, table).metadata().configuration)


def set_properties(epoch: WriterEpoch, table: Table, wanted: Mapping[str, str]) -> int:
    """Set the table properties that have another value; return the version of the table.

    Raises:
        WriterFenced: a newer writer has taken over.
        TablesUnavailable: the table cannot be written.
    """

    def action(opened: DeltaTable) -> None:
        known = opened.metadata().configuration
        changed = {name: value for name, value in wanted.items() if known.get(name) != value}
        if changed:
            opened.alter.set_table_properties(
                changed, raise_if_not_exists=False, commit_properties=epoch.maintenance(opened)
            )

    return committed(epoch.tables, table, action).version()


def keep_snapshots(epoch: WriterEpoch, retention: timedelta) -> None:
    """Set the retention of old versions in all tables.

    Raises:
        ConfigurationError: there are no tables, or they cannot be written.
    """
    for table in ALL_TABLES:
        set_properties(epoch, table, retention_properties(retention))
