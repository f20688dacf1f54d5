"""Migration of the tables of an earlier release to the current format version.

The format version of a folder is a property of `load_progress`. Release 0.1.0 wrote version 9.
Each later version added:

* 10: `group_lag`, `group_status` and `status_changes`, which `run` fills with its first evaluation.
* 11: `epoch_entries` of `load_progress` and `topic_progress`.
* 12: `clock_skew_ms` of `load_progress`, `usual_commit_ms` and `usual_move_ms` of `group_lag`,
  `condition_ended_at` of `alerts`.
* 13: `is_lag_lower_bound` and `is_status_older` of `group_lag` and `group_status`;
  `uncommitted_since`, `recreated_at` and `gone_since` of `group_lag`, whose rows without a
  committed offset have no `commit_timestamp`.
* 14: `cause` of `group_lag` and `group_status`.

A migration reads nothing from Kafka. It adds missing tables and columns without values.

The version is set last, and each step is idempotent: an interrupted migration is repeated.
"""

from __future__ import annotations

import logging
from typing import Final

from deltalake import DeltaTable, Schema

from streaming.tables.creation import set_properties
from streaming.tables.reader import TableReader
from streaming.tables.schemas import (
    ALL_TABLES,
    FORMAT_VERSION,
    GROUP_LAG,
    LOAD_PROGRESS,
    PROPERTY_FORMAT_VERSION,
    Table,
)
from streaming.tables.unfinished import pin
from streaming.tables.writer import Writer
from streaming.tables.writer_epoch import WriterEpoch, committed

logger = logging.getLogger(__name__)

_WITH_UNCOMMITTED: Final = 13


def migrate(writer: Writer, format_version: str) -> None:
    """Migrate all tables of a folder. All exist and have no unfinished micro-batch.

    Args:
        writer: the folder's writer.
        format_version: the format version of the tables.

    Raises:
        WriterFenced: a newer writer has taken over.
        TablesUnavailable: a table cannot be read or written.
    """
    add_columns(writer.epoch)
    if int(format_version) < _WITH_UNCOMMITTED:
        # Columns that were never null may be null now.
        rows = TableReader(writer.tables, any_format=True).read(GROUP_LAG.name)
        writer.overwrite(GROUP_LAG, rows, replaces_schema=True)
    pin(writer)
    set_properties(writer.epoch, LOAD_PROGRESS, {PROPERTY_FORMAT_VERSION: FORMAT_VERSION})
    logger.info(
        "%(tables)s: migrated from format version %(from_version)s to %(to_version)s",
        {"tables": writer.tables, "from_version": format_version, "to_version": FORMAT_VERSION},
    )


def add_columns(epoch: WriterEpoch) -> None:
    """Add the columns that the tables lack.

    Raises:
        WriterFenced: a newer writer has taken over.
        TablesUnavailable: a table cannot be read or written.
    """
    for table in ALL_TABLES:
        add_columns_of(epoch, table)


def add_columns_of(epoch: WriterEpoch, table: Table) -> None:
    """Add the columns that one table lacks.

    Raises:
        WriterFenced: a newer writer has taken over.
        TablesUnavailable: the table cannot be read or written.
    """

    def add(opened: DeltaTable) -> None:
        known = {field.name for field in opened.schema().fields}
        wanted = Schema.from_arrow(table.schema).fields
        missing = [field for field in wanted if field.name not in known]
        if missing:
            opened.alter.add_columns(missing, commit_properties=epoch.maintenance(opened))

    committed(epoch.tables, table, add)
