"""Tables with a member that comes and goes, a deploy, and a group of many members."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from streaming.tables.schemas import LOAD_PROGRESS
from tests.support.tables.dashboard_tables import HOSTILE
from tests.support.tables.event_rows import (
    BEGIN,
    by_member,
    event_row,
    in_log_order,
    partitions_of_orders,
)
from tests.support.tables.sample_rows import member_row
from tests.support.tables.tables_folder import Row, apply_micro_batch, backdate, create_tables

LOOPING = "search"
DEPLOYED = "returns"
MANY = "everything"
_STEADY = "search-consumer-aaaa51f4"


@dataclass(frozen=True)
class TimelineTables:
    """`at` is when they were written; the events are of the two minutes before it."""

    folder: str
    at: datetime


def create_timeline_tables(in_folder: Path) -> TimelineTables:
    """Tables that begin ten minutes ago."""
    folder = create_tables(in_folder)
    now = datetime.now(timezone.utc)
    progress = [{"next_offset": 1, "high_watermark": 1, "updated_at": now}]
    many = [f"many-{number:02}" for number in range(70)]
    members = [
        _member(LOOPING, _STEADY, 0, 1),
        _member(DEPLOYED, "search-consumer-old0", 0),
        _member(DEPLOYED, "search-consumer-old1", 1),
        *(_member(MANY, name, number) for number, name in enumerate(many)),
        _member(HOSTILE, f"{HOSTILE}-1", 0, topic=HOSTILE),
    ]
    groups = [
        {"group_id": name, "group_type": "classic", "state": "Stable", "member_count": 1}
        for name in (LOOPING, DEPLOYED, MANY, HOSTILE)
    ]
    offsets = [
        {"group_id": of["group_id"], "committed_offset": 1, "commit_timestamp": now}
        | {"topic": place["topic"], "partition": place["partition"]}
        for of in members
        for place in of["assignment"]
    ]
    state = {"groups": groups, "group_members": members, "group_offsets": offsets}
    apply_micro_batch(folder, progress=progress, **state)
    backdate(folder, LOAD_PROGRESS, now - timedelta(minutes=10))
    rows = in_log_order([*_loop(), *_deploy()])
    for row in rows:
        at = now - timedelta(minutes=2) + (row["record_timestamp"] - BEGIN)
        row |= {"record_timestamp": at, "day": at.date()}
    apply_micro_batch(folder, progress=progress, group_events=rows)
    return TimelineTables(folder, now)


def _member(group_id: str, member_id: str, *partitions: int, topic: str = "orders") -> Row:
    client = "search-consumer" if member_id.startswith("search") else member_id
    return member_row(group_id, topic=topic, partitions=partitions, **by_member(member_id, client))


def _changed(member_id: str, at_s: float, before: Any, after: Any, **fields: Any) -> Row:
    sides = {
        "assignment_before": partitions_of_orders(*before),
        "assignment_after": partitions_of_orders(*after),
    }
    return event_row("assignment_changed", at_s, **by_member(member_id), **sides, **fields)


def _loop() -> Iterator[Row]:
    """Every four seconds a new member joins, and leaves again after two."""
    of = {"group_id": LOOPING}
    for number in range(20):
        member, at_s, epoch = f"search-consumer-{number:04}", 4 * number, 2 * number + 1
        for event, after_s, alone in (("member_joined", 0, False), ("member_left", 2, True)):
            epochs = {"epoch_before": epoch + alone, "epoch_after": epoch + 1 + alone}
            count = {"member_count": 1 if alone else 2}
            at = at_s + after_s
            yield event_row("rebalance", at, **epochs, **count, **of)
            yield event_row(event, at, **by_member(member), **count, **of)
            before, after = ([0], [0, 1]) if alone else ([0, 1], [0])
            yield _changed(_STEADY, at, before, after, **count, **of)
            if not alone:
                yield _changed(member, at, [], [1], **count, **of)


def _deploy() -> Iterator[Row]:
    """Two members are replaced; for three seconds both are away."""
    of = {"group_id": DEPLOYED}
    steps = (
        (80, "member_left", "search-consumer-old0"),
        (90, "member_left", "search-consumer-old1"),
        (93, "member_joined", "search-consumer-new0"),
        (95, "member_joined", "search-consumer-new1"),
    )
    for epoch, (at, event, member) in enumerate(steps):
        yield event_row("rebalance", at, epoch_before=epoch, epoch_after=epoch + 1, **of)
        yield event_row(event, at, **by_member(member), **of)
    for at, member, before, after in (
        (80, "old1", [1], [0, 1]),
        (93, "new0", [], [0, 1]),
        (95, "new0", [0, 1], [0]),
        (95, "new1", [], [1]),
    ):
        yield _changed(f"search-consumer-{member}", at, before, after, **of)
