"""Tables with a member that comes and goes, a deploy, and a group of many members."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path

from streaming.tables.schemas import LOAD_PROGRESS
from tests.support.tables.dashboard_tables import HOSTILE
from tests.support.tables.event_rows import (
    BEGIN,
    assigned,
    by_member,
    in_log_order,
    joined,
    left,
    rebalance,
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


def _loop() -> Iterator[Row]:
    """Every four seconds a new member joins, and leaves again after two."""
    of = {"group_id": LOOPING}
    for number in range(20):
        member, at_s, epoch = f"search-consumer-{number:04}", 4 * number, 2 * number + 1
        two, alone = {"member_count": 2, **of}, {"member_count": 1, **of}
        yield rebalance(at_s, epoch + 1, **two)
        yield joined(member, at_s, **two)
        yield assigned(_STEADY, at_s, [0, 1], [0], **two)
        yield assigned(member, at_s, [], [1], **two)
        yield rebalance(at_s + 2, epoch + 2, **alone)
        yield left(member, at_s + 2, **alone)
        yield assigned(_STEADY, at_s + 2, [0], [0, 1], **alone)


def _deploy() -> Iterator[Row]:
    """Two members are replaced; for three seconds both are away."""
    of = {"group_id": DEPLOYED}
    steps = (
        (80, left, "search-consumer-old0"),
        (90, left, "search-consumer-old1"),
        (93, joined, "search-consumer-new0"),
        (95, joined, "search-consumer-new1"),
    )
    for epoch, (at, event, member) in enumerate(steps, 1):
        yield rebalance(at, epoch, **of)
        yield event(member, at, **of)
    for at, member, before, after in (
        (80, "old1", [1], [0, 1]),
        (93, "new0", [], [0, 1]),
        (95, "new0", [0, 1], [0]),
        (95, "new1", [], [1]),
    ):
        yield assigned(f"search-consumer-{member}", at, before, after, **of)
