"""The statuses of groups and of their partitions, from the facts in the tables."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.apply.columns import nullable
from coordinator_state.insight.group_events import EventName
from coordinator_state.insight.group_status import (
    Status,
    StatusRules,
    Verdict,
    count_text,
    rebalancing_loop,
    silent_verdict,
)
from coordinator_state.records.internal_topics import SHARE_STATE_TOPIC
from coordinator_state.replay.groups import SHARE, STREAMS
from streaming.lag.freshness import Freshness
from streaming.lag.judged_groups import JudgedGroups
from streaming.lag.judged_partitions import JudgedPartitions
from streaming.lag.partition_facts import partition_facts
from streaming.lag.silent_members import silent_facts, silent_members
from streaming.lag.topic_loads import topic_loads
from streaming.tables.reader import TableReader
from streaming.tables.schemas import GROUP_EVENTS

Row = dict[str, Any]


def judged_partitions(
    reader: TableReader,
    now: datetime,
    group_ids: Collection[str] | None,
    rules: StatusRules,
    lags: pa.Table,
) -> JudgedPartitions:
    """The status of each row of `group_lag`."""
    stale = Freshness.of(reader, now).verdict(rules)
    facts = partition_facts(reader, now, group_ids, rules, lags)
    return JudgedPartitions(lags, facts, rules, stale)


def judged_groups(
    reader: TableReader,
    now: datetime,
    group_ids: Collection[str] | None,
    rules: StatusRules,
    of_partitions: JudgedPartitions,
) -> JudgedGroups:
    """The status of each group, from those of its partitions."""
    groups = reader.own("groups", ["group_type", "state", "member_count"], group_ids)
    stale = of_partitions.stale
    verdicts = {} if stale else {key: [loop] for key, loop in _loops(reader, now, rules).items()}
    silent = silent_members(reader, now, group_ids, of_partitions.columns)
    if silent:
        shares = set(groups.filter(pc.equal(groups["group_type"], SHARE))["group_id"].to_pylist())
        if shares & silent.keys():
            load = topic_loads(reader).get(SHARE_STATE_TOPIC)
            if load is None or not load.is_loaded:
                # The acknowledgements of their members are unknown.
                silent = {group: rows for group, rows in silent.items() if group not in shares}
    named = pc.unique(of_partitions.columns["group_id"])
    others = groups.filter(pc.invert(pc.is_in(groups["group_id"], named)))
    with_offsets = set(named.to_pylist())
    without_offsets = {row["group_id"]: row for row in others.to_pylist()}
    for group_id in silent.keys() | without_offsets.keys():
        of_silent = silent.get(group_id, [])
        if group_id in with_offsets:
            # Without new records there is nothing to commit.
            of_silent = [row for row in of_silent if row["records"]]
        if of_silent:
            verdict = silent_verdict(silent_facts(of_silent), rules)
        elif group_id in without_offsets:
            verdict = _without_offsets(without_offsets[group_id])
        else:
            continue
        verdicts.setdefault(group_id, []).append(verdict)
    # Newest tables are no snapshot: a group may have been deleted between two reads.
    gone = with_offsets - set(groups["group_id"].to_pylist())
    groups = groups.cast(nullable(groups.schema))
    deleted = [{"group_id": group, "state": "Dead", "member_count": 0} for group in gone]
    groups = pa.concat_tables([groups, pa.Table.from_pylist(deleted, groups.schema)])
    return JudgedGroups(groups, of_partitions, verdicts)


def _without_offsets(group: Row) -> Verdict:
    """The verdict for a group without offsets and without assigned partitions."""
    if not group["member_count"]:
        return Verdict(Status.IDLE, "the group has no members and no offsets")
    members = count_text(group["member_count"], "member")
    if group["group_type"] == SHARE:
        return Verdict(
            Status.UNKNOWN,
            f"{members}; no progress of the share group is known from {SHARE_STATE_TOPIC}",
        )
    if group["group_type"] == STREAMS:
        return Verdict(Status.UNKNOWN, f"no commit yet from {members}; the tasks name no topics")
    return Verdict(Status.OK, f"no commit yet; {members} without a partition")


def _loops(reader: TableReader, now: datetime, rules: StatusRules) -> dict[str, Verdict]:
    """Groups in a loop of rebalances."""
    since = now - timedelta(milliseconds=rules.rebalances_within_ms)
    during = [
        *(("day", ">=", since.date()), ("record_timestamp", ">=", since)),
        *(("record_timestamp", "<=", now), ("event", "=", EventName.REBALANCE.value)),
    ]
    columns = ["group_id", "group_type", "record_timestamp", "epoch_after"]
    events = reader.read(GROUP_EVENTS.name, columns, during)
    rebalances = events.group_by("group_id").aggregate(
        [
            *(("epoch_after", "count"), ("record_timestamp", "max"), ("epoch_after", "max")),
            ("group_type", "max"),
        ]
    )
    verdicts = {
        row["group_id"]: rebalancing_loop(
            row["epoch_after_count"],
            max(round((now - row["record_timestamp_max"]).total_seconds() * 1000), 0),
            row["epoch_after_max"],
            row["group_type_max"],
            rules,
        )
        for row in rebalances.to_pylist()
        if row["epoch_after_count"] >= rules.rebalances
    }
    return {group: verdict for group, verdict in verdicts.items() if verdict is not None}
