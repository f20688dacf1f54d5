"""Tables held against reference loaders of the same log."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from coordinator_state.groups import Group
from coordinator_state.loader import ReferenceLoader
from coordinator_state.member_json import assignment_json, subscription_json
from streaming.tables.reader import TableReader
from streaming.tables.schemas import GONE, LOST, TABLES
from tests.plan_tables import OFFSET_VALUES

Row = dict[str, Any]


def _offset_row(log_partition: int, key: Any, record: Any, names: tuple[str, ...]) -> Row:
    values = asdict(record)
    return {"log_partition": log_partition, **key._asdict(), **{n: values[n] for n in names}}


def in_ms(row: Row, names: tuple[str, ...]) -> Row:
    """Some columns of a row, timestamps as milliseconds."""
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


_KEY = ("log_partition", "group_id", "topic", "partition")
_GROUP = (
    "group_type",
    "state",
    "protocol_type",
    "protocol",
    "leader",
    "group_epoch",
    "assignment_epoch",
    "generation",
    "state_timestamp_ms",
    "record_offset",
    "created_record_offset",
    "replay_warning",
)
_MEMBER = (
    "member_id",
    "group_instance_id",
    "client_id",
    "client_host",
    "rack_id",
    "session_timeout_ms",
    "rebalance_timeout_ms",
    "subscribed_regex",
    "member_epoch",
    "member_state",
    "created_record_offset",
)
_STRUCTS = ("assignment", "target_assignment", "pending_revocation", "tasks", "target_tasks")


def _json_text(found: dict[str, Any] | None) -> str | None:
    return None if found is None else json.dumps(found, ensure_ascii=False)


def _member_rows(log_partition: int, group: Group) -> list[Row]:
    return [
        {
            "log_partition": log_partition,
            "group_id": group.group_id,
            **{name: getattr(member, name) for name in _MEMBER},
            "subscribed_topics": (
                None if member.subscribed_topics is None else list(member.subscribed_topics)
            ),
            **{name: _structs(getattr(member, name)) for name in _STRUCTS},
            "subscription_bytes": member.subscription_bytes,
            "assignment_bytes": member.assignment_bytes,
            "subscription_json": _json_text(
                subscription_json(group.protocol_type, group.protocol, member.subscription_bytes)
            ),
            "assignment_json": _json_text(
                assignment_json(group.protocol_type, group.protocol, member.assignment_bytes)
            ),
        }
        for member in group.members
    ]


def _structs(entries: Any) -> list[Row] | None:
    return None if entries is None else [asdict(entry) for entry in entries]


def rows_of(reader: TableReader) -> dict[str, list[Row]]:
    """The rows of every table of a snapshot."""
    return {table.name: reader.read(table.name).to_pylist() for table in TABLES}


def assert_equal(found: Mapping[str, list[Row]], loaders: Mapping[int, ReferenceLoader]) -> None:
    """The tables are what loaders of their log partitions say, each up to the same record."""
    same(
        [in_ms(row, (*_KEY, *OFFSET_VALUES)) for row in found["group_offsets"]],
        [
            _offset_row(p, key, record, OFFSET_VALUES)
            for p, loader in loaders.items()
            for key, record in loader.offsets.items()
        ],
    )
    same(
        [in_ms(row, (*_KEY, *OFFSET_VALUES, "producer_epoch")) for row in found["pending_offsets"]],
        [
            _offset_row(p, key, record, (*OFFSET_VALUES, "producer_epoch"))
            for p, loader in loaders.items()
            for waiting in loader.pending.values()
            for key, record in waiting.items()
        ],
    )
    same(
        [
            in_ms(row, ("log_partition", "group_id", *_GROUP, "member_count", "subscribed_topics"))
            for row in found["groups"]
        ],
        [
            {
                "log_partition": p,
                "group_id": group_id,
                **{name: getattr(group, name) for name in _GROUP},
                "member_count": len(group.members),
                "subscribed_topics": (
                    None if group.subscribed_topics is None else list(group.subscribed_topics)
                ),
            }
            for p, loader in loaders.items()
            for group_id, group in loader.groups.items()
        ],
    )
    members = [
        row
        for p, loader in loaders.items()
        for g in loader.groups.values()
        for row in _member_rows(p, g)
    ]
    names = tuple(members[0]) if members else ()
    same([{name: row[name] for name in names} for row in found["group_members"]], members)
    for row in found["load_progress"]:
        assert row["records_read"] == sum(
            row[f"records_{what}"]
            for what in ("applied", "superseded", "ignored", "quarantined", "pending")
        )
    in_log = [row for row in found["offset_commits"] if row["outcome"] != LOST]
    places = [(row["log_partition"], row["record_offset"]) for row in in_log]
    assert len(set(places)) == len(places), "history has a record twice"
    undecodable = [(p, w.record_offset) for p, load in loaders.items() for w in load.warnings]
    quarantined = [
        (row["log_partition"], row["record_offset"])
        for row in found["quarantine"]
        if not row["reason"].startswith(GONE)
    ]
    assert sorted(quarantined) == sorted(undecodable)


def same(found: list[Row], expected: list[Row]) -> None:
    """The same rows, in whatever order."""
    missing = [row for row in expected if row not in found]
    surplus = [row for row in found if row not in expected]
    assert (missing, surplus) == ([], [])
    assert len(found) == len(expected)
