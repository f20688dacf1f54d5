"""Migration of the tables of an earlier release to the current format version.

The format version of a folder is a property of `load_progress`. Each version added:

* 2: complete groups of every type, replayed by new rules;
* 3: `subscription_json` and `assignment_json` of `group_members`;
* 4: `group_events`; soon after it `end_markers` of `log_offsets`;
* 5: `records_unaccounted` of `load_progress`, and its columns about reloads;
* 6: `writer_epoch` of `load_progress`. Releases before it do not check the epoch.
* 7: `client_id` and `client_host` of `pending_offsets`, and `group_records`.
* 8: `kafka_release` of `load_progress`.
* 9: `transactions`, `transaction_events`, `share_partitions`, `topic_progress`, and `log_topic` of
  `quarantine`.
* 10: `group_lag`, `group_status` and `status_changes`, which `run` fills with its first evaluation.
* 11: `epoch_entries` of `load_progress` and `topic_progress`.
* 12: `clock_skew_ms` of `load_progress`, `usual_commit_ms` and `usual_move_ms` of `group_lag`,
  `condition_ended_at` of `alerts`.
* 13: `is_lag_lower_bound` and `is_status_older` of `group_lag` and `group_status`;
  `uncommitted_since`, `recreated_at` and `gone_since` of `group_lag`, whose rows without a
  committed offset have no `commit_timestamp`.

A migration from version 2 or later reads nothing from Kafka. It adds missing tables and columns
without values, fills the JSON columns from the columns of bytes, and fills `log_topic`. Tables of
history begin with the migration that adds them.

The version is set last, and each step is idempotent: an interrupted migration is repeated.
"""

from __future__ import annotations

import logging
from typing import Final

import pyarrow as pa
from deltalake import DeltaTable, Schema

from coordinator_state.records.member_json import member_json_columns
from coordinator_state.replay.partitioner import OFFSETS_TOPIC
from streaming.tables.creation import properties_of, set_properties
from streaming.tables.reader import TableReader
from streaming.tables.schemas import (
    ALL_TABLES,
    DEFAULT_OFFSETS_RETENTION_MS,
    FORMAT_VERSION,
    GROUP_LAG,
    GROUP_MEMBERS,
    GROUPS,
    LOAD_PROGRESS,
    PROPERTY_FORMAT_VERSION,
    PROPERTY_OFFSETS_RETENTION_MS,
    QUARANTINE,
    Table,
)
from streaming.tables.unfinished import pin
from streaming.tables.writer import Writer
from streaming.tables.writer_epoch import WriterEpoch, committed

logger = logging.getLogger(__name__)

_WITH_MEMBER_JSON: Final = 3
_WITH_LOG_TOPIC: Final = 9
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
    if int(format_version) < _WITH_MEMBER_JSON:
        _write_member_json(writer)
    if int(format_version) < _WITH_LOG_TOPIC:
        _write_log_topic(writer)
    if int(format_version) < _WITH_UNCOMMITTED:
        # Columns that were never null may be null now.
        rows = TableReader(writer.tables, any_format=True).read(GROUP_LAG.name)
        writer.overwrite(GROUP_LAG, rows, replaces_schema=True)
    pin(writer)
    known = properties_of(writer.tables, LOAD_PROGRESS)
    retention_ms = str(DEFAULT_OFFSETS_RETENTION_MS)
    set_properties(
        writer.epoch,
        LOAD_PROGRESS,
        {
            PROPERTY_OFFSETS_RETENTION_MS: known.get(PROPERTY_OFFSETS_RETENTION_MS, retention_ms),
            PROPERTY_FORMAT_VERSION: FORMAT_VERSION,
        },
    )
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


def _write_log_topic(writer: Writer) -> None:
    """Fill the column `log_topic` of `quarantine`: all its records are of one topic."""
    rows = TableReader(writer.tables, any_format=True).read(QUARANTINE.name)
    if rows.num_rows:
        place = rows.schema.get_field_index("log_topic")
        topics = pa.repeat(pa.scalar(OFFSETS_TOPIC), rows.num_rows)
        writer.overwrite(QUARANTINE, rows.set_column(place, rows.schema.field(place), topics))


def _write_member_json(writer: Writer) -> None:
    """Fill the JSON columns of `group_members` from its columns of bytes."""
    reader = TableReader(writer.tables, any_format=True)
    groups = reader.read(GROUPS.name, ["log_partition", "group_id", "protocol_type"])
    protocol_types = {
        (row["log_partition"], row["group_id"]): row["protocol_type"] for row in groups.to_pylist()
    }
    members = [
        {
            **row,
            **member_json_columns(
                protocol_types[row["log_partition"], row["group_id"]],
                row["subscription_bytes"],
                row["assignment_bytes"],
            ),
        }
        for row in reader.read(GROUP_MEMBERS.name).to_pylist()
    ]
    writer.overwrite(GROUP_MEMBERS, pa.Table.from_pylist(members, schema=GROUP_MEMBERS.schema))
