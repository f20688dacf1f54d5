"""The tables by the reference loader: what of its state their rows must be."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields
from typing import Any

from coordinator_state.records.member_json import assignment_json, subscription_json
from coordinator_state.replay.groups import Group, GroupMember
from coordinator_state.replay.loader import ReferenceLoader
from coordinator_state.replay.offsets import OffsetKey
from streaming.tables.reader import TableReader
from streaming.tables.schemas import LOST, LOST_REASON_PREFIX, TABLES
from tests.support.tables.plan_tables import OFFSET_VALUES

Row = dict[str, Any]

_KEY = ("log_partition", *OffsetKey._fields)
_GROUP = tuple(field.name for field in fields(Group) if field.name != "members")
_MEMBER = tuple(field.name for field in fields(GroupMember))
_PLACE = ("log_partition", "record_offset")
_ACCOUNTS = ("applied", "superseded", "ignored", "quarantined", "pending")


def rows_of(reader: TableReader) -> dict[str, list[Row]]:
    """The rows of every table of a snapshot."""
    return {table.name: reader.read(table.name).to_pylist() for table in TABLES}


def differences(
    rows_by_table: Mapping[str, list[Row]], loaders: Mapping[int, ReferenceLoader]
) -> list[str]:
    """Where tables differ from the loaders by log partition: a line for each row, none where equal.

    A place of the log that has two rows of history is a difference, too.
    """
    return [
        *_differences_of_offsets(rows_by_table, loaders),
        *_differences_of_groups(rows_by_table, loaders),
        *(
            f"load_progress: {row['records_read']} records read are not accounted for: {row}"
            for row in rows_by_table["load_progress"]
            if row["records_read"] != sum(row[f"records_{account}"] for account in _ACCOUNTS)
        ),
        *differing(
            "quarantine",
            [
                {name: row[name] for name in _PLACE}
                for row in rows_by_table["quarantine"]
                if not row["reason"].startswith(LOST_REASON_PREFIX)
            ],
            [
                {"log_partition": p, "record_offset": warning.record_offset}
                for p, loader in loaders.items()
                for warning in loader.warnings
            ],
        ),
        *_doubled("offset_commits", rows_by_table["offset_commits"], _PLACE),
        *_doubled("group_events", rows_by_table["group_events"], (*_PLACE, "event_number")),
    ]


def differences_of_state(
    rows_by_table: Mapping[str, list[Row]], loaders: Mapping[int, ReferenceLoader]
) -> list[str]:
    """The same, of the tables of offsets, groups and members only."""
    return [
        *_differences_of_offsets(rows_by_table, loaders),
        *_differences_of_groups(rows_by_table, loaders),
    ]


def differing(table: str, actual: list[Row], expected: list[Row]) -> list[str]:
    """Rows that are missing and rows that are too many."""
    there, wanted = Counter(map(_hashable, actual)), Counter(map(_hashable, expected))
    return [
        f"{table}: {difference} {row}"
        for difference, rows in (
            ("missing or different", wanted - there),
            ("too many or different", there - wanted),
        )
        for row in rows.elements()
    ]


def in_ms(row: Row, names: tuple[str, ...]) -> Row:
    """Columns of a row; of a name that ends so, the milliseconds of a timestamp."""
    return {
        name: (
            None
            if row[name.removesuffix("_ms")] is None
            else round(row[name.removesuffix("_ms")].timestamp() * 1000)
        )
        if name.endswith("_timestamp_ms")
        else row[name]
        for name in names
    }


def _differences_of_offsets(
    rows_by_table: Mapping[str, list[Row]], loaders: Mapping[int, ReferenceLoader]
) -> Iterator[str]:
    yield from differing(
        "group_offsets",
        [in_ms(row, (*_KEY, *OFFSET_VALUES)) for row in rows_by_table["group_offsets"]],
        [
            _offset_row(p, key, record, OFFSET_VALUES)
            for p, loader in loaders.items()
            for key, record in loader.offsets.items()
        ],
    )
    names = (*OFFSET_VALUES, "producer_epoch")
    yield from differing(
        "pending_offsets",
        [in_ms(row, (*_KEY, *names)) for row in rows_by_table["pending_offsets"]],
        [
            _offset_row(p, key, record, names)
            for p, loader in loaders.items()
            for waiting in loader.pending.values()
            for key, record in waiting.items()
        ],
    )


def _differences_of_groups(
    rows_by_table: Mapping[str, list[Row]], loaders: Mapping[int, ReferenceLoader]
) -> Iterator[str]:
    names = ("log_partition", *_GROUP, "member_count")
    yield from differing(
        "groups",
        [in_ms(row, names) for row in rows_by_table["groups"]],
        [
            {"log_partition": p, **_values(group, _GROUP), "member_count": len(group.members)}
            for p, loader in loaders.items()
            for group in loader.groups.values()
        ],
    )
    members = [
        row
        for p, loader in loaders.items()
        for group in loader.groups.values()
        for row in _member_rows(p, group)
    ]
    stored = [
        {name: value for name, value in row.items() if name != "record_offset"}
        for row in rows_by_table["group_members"]
    ]
    yield from differing("group_members", stored, members)


def _doubled(table: str, rows: list[Row], key: tuple[str, ...]) -> Iterator[str]:
    in_log = (row for row in rows if row["outcome"] != LOST)
    places = Counter(tuple(row[name] for name in key) for row in in_log)
    return (f"{table}: {n} rows of {place}" for place, n in places.items() if n > 1)


def _offset_row(log_partition: int, key: Any, record: Any, names: tuple[str, ...]) -> Row:
    values = asdict(record)
    return {"log_partition": log_partition, **key._asdict(), **{n: values[n] for n in names}}


def _json_text(document: dict[str, Any] | None) -> str | None:
    return None if document is None else json.dumps(document, ensure_ascii=False)


def _member_rows(log_partition: int, group: Group) -> list[Row]:
    protocol_type = group.protocol_type
    return [
        {
            "log_partition": log_partition,
            "group_id": group.group_id,
            **_values(member, _MEMBER),
            "subscription_json": _json_text(
                subscription_json(protocol_type, member.subscription_bytes)
            ),
            "assignment_json": _json_text(assignment_json(protocol_type, member.assignment_bytes)),
        }
        for member in group.members
    ]


def _values(state: Group | GroupMember, names: tuple[str, ...]) -> Row:
    """The columns of a group or member."""
    values = {name: getattr(state, name) for name in names}
    for name, value in values.items():
        if isinstance(value, tuple):
            values[name] = [each if isinstance(each, str) else asdict(each) for each in value]
    return values


def _hashable(value: Any) -> Any:
    if isinstance(value, dict):
        return tuple((name, _hashable(value[name])) for name in sorted(value))
    if isinstance(value, list | tuple):
        return tuple(map(_hashable, value))
    return value
