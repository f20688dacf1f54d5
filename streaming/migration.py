"""Tables of an earlier release, made what this one reads and writes.

A folder says its format version in a property of `load_progress`. What came with each:

* 2: groups of every type whole, replayed by other rules than before;
* 3: `subscription_json` and `assignment_json` of `group_members`;
* 4: `group_events`; `end_markers` of `log_offsets` soon after it;
* 5: `records_unaccounted` and what tells of reloads of `load_progress`.

From 2 on nothing has to be read again: tables and columns that are missing are added, empty, and
what the JSON columns say follows from the bytes beside them. `group_events` begins with the
migration.

The version is set last, and each step ends alike however often it is done: a migration that was
ended in the middle is done again.
"""

from __future__ import annotations

import logging
from typing import Final

import pyarrow as pa
from deltalake import DeltaTable, Schema

from streaming.apply.group_rows import member_json
from streaming.tables import delta
from streaming.tables.creation import create_tables, properties, set_properties, snapshot_retention
from streaming.tables.format_version import require_migratable
from streaming.tables.reader import TableReader
from streaming.tables.schemas import (
    ALL_TABLES,
    DEFAULT_OFFSETS_RETENTION_MS,
    DEFAULT_SNAPSHOT_RETENTION,
    FORMAT_VERSION,
    GROUP_MEMBERS,
    GROUPS,
    LOAD_PROGRESS,
    PROPERTY_FORMAT_VERSION,
    PROPERTY_OFFSETS_RETENTION_MS,
    Table,
)

logger = logging.getLogger(__name__)

_WITH_MEMBER_JSON: Final = 3


def migrate(tables: str) -> None:
    """Make the tables of a folder what this program writes; nothing where there is none, or need.

    No one else may be writing to them.

    Raises:
        ConfigurationError: they cannot be migrated, are of a later release, or cannot be written.
    """
    if not DeltaTable.is_deltatable(LOAD_PROGRESS.path(tables)):
        return
    found = TableReader(tables, any_format=True).format_version
    if found == FORMAT_VERSION:
        return
    require_migratable(tables, found)
    known = properties(tables, LOAD_PROGRESS)
    create_tables(
        tables,
        {},
        snapshot_retention=snapshot_retention(known) or DEFAULT_SNAPSHOT_RETENTION,
        change_data_feed=known.get(delta.CHANGE_DATA_FEED) == "true",
    )
    for table in ALL_TABLES:
        _add_columns(tables, table)
    if int(found) < _WITH_MEMBER_JSON:
        _write_member_json(tables)
    retention_ms = str(DEFAULT_OFFSETS_RETENTION_MS)
    set_properties(
        tables,
        LOAD_PROGRESS,
        {
            PROPERTY_OFFSETS_RETENTION_MS: known.get(PROPERTY_OFFSETS_RETENTION_MS, retention_ms),
            PROPERTY_FORMAT_VERSION: FORMAT_VERSION,
        },
    )
    logger.info(
        "%(tables)s is migrated from format version %(from_version)s to %(to_version)s",
        {"tables": tables, "from_version": found, "to_version": FORMAT_VERSION},
    )


def _add_columns(tables: str, table: Table) -> None:
    path = table.path(tables)
    with delta.writing(path):
        opened = DeltaTable(path)
        known = {field.name for field in opened.schema().fields}
        wanted = Schema.from_arrow(table.schema).fields
        missing = [field for field in wanted if field.name not in known]
        if missing:
            opened.alter.add_columns(missing)


def _write_member_json(tables: str) -> None:
    """As of the newest snapshot: what an unfinished micro-batch wrote comes again."""
    reader = TableReader(tables, any_format=True)
    groups = reader.read(GROUPS.name, ["log_partition", "group_id", "protocol_type", "protocol"])
    protocols = {
        (row["log_partition"], row["group_id"]): (row["protocol_type"], row["protocol"])
        for row in groups.to_pylist()
    }
    members = [
        {
            **row,
            **member_json(
                *protocols[row["log_partition"], row["group_id"]],
                row["subscription_bytes"],
                row["assignment_bytes"],
            ),
        }
        for row in reader.read(GROUP_MEMBERS.name).to_pylist()
    ]
    written = pa.Table.from_pylist(members, schema=GROUP_MEMBERS.schema)
    version = delta.overwrite(tables, GROUP_MEMBERS, written)
    progress = reader.read(LOAD_PROGRESS.name).to_pylist(maps_as_pydicts="strict")
    for row in progress:
        named = {**row["table_versions"], GROUP_MEMBERS.name: version}
        row["table_versions"] = sorted(named.items())
    rows = pa.Table.from_pylist(progress, schema=LOAD_PROGRESS.schema)
    delta.overwrite(tables, LOAD_PROGRESS, rows)
