"""The verdicts about groups themselves: loops of rebalances, and groups without offsets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.apply.columns import NOWHERE, nullable, positions
from coordinator_state.apply.group_placement import of_own_log_partition
from coordinator_state.insight.group_events import EventName
from coordinator_state.insight.group_status import (
    LOOP_WINDOWS,
    ClientChanges,
    SilentMembers,
    Status,
    StatusRules,
    Verdict,
    count_text,
    rebalancing_loop,
    silent_verdict,
)
from coordinator_state.records.internal_topics import OFFSETS_TOPIC, SHARE_STATE_TOPIC
from coordinator_state.replay.groups import SHARE, STREAMS
from streaming.lag.group_lag import tables_known_until
from streaming.lag.owners import owners
from streaming.lag.recent_commits import KEY
from streaming.lag.topic_loads import topic_loads
from streaming.lag.uncommitted import assigned_at
from streaming.tables.clock import moment_ms
from streaming.tables.filters import of_groups
from streaming.tables.reader import TableReader
from streaming.tables.schemas import GROUP_EVENTS, GROUP_MEMBERS

Row = dict[str, Any]


def group_verdicts(
    reader: TableReader,
    now: datetime,
    group_ids: Collection[str] | None,
    rules: StatusRules,
    partitions: pa.Table,
    *,
    is_stale: bool,
) -> tuple[pa.Table, dict[str, list[Verdict]]]:
    """The groups, and the verdicts about groups themselves; see `rows_of_groups`."""
    groups = reader.own("groups", ["group_type", "state", "member_count"], group_ids)
    loops = {} if is_stale else _loops(reader, now, rules)
    silent = silent_members(reader, now, group_ids, partitions)
    if silent:
        shares = set(groups.filter(pc.equal(groups["group_type"], SHARE))["group_id"].to_pylist())
        if shares & silent.keys():
            load = topic_loads(reader).get(SHARE_STATE_TOPIC)
            if load is None or not load.is_loaded:
                # The acknowledgements of their members are unknown.
                silent = {group: rows for group, rows in silent.items() if group not in shares}
    named = pc.unique(partitions["group_id"])
    others = groups.filter(pc.invert(pc.is_in(groups["group_id"], named)))
    unread = set(groups.filter(_is_unread(reader, now, groups, rules))["group_id"].to_pylist())
    verdicts = {group: [loop] for group, loop in loops.items() if group not in unread}
    for group in others.to_pylist():
        group_id = group["group_id"]
        if group_id in unread:
            # Commits may follow in the records that are not read.
            verdict = Verdict(Status.UNKNOWN, f"the tables are behind {OFFSETS_TOPIC}")
        elif group_id in silent:
            verdict = silent_verdict(silent_facts(silent[group_id]), rules)
        else:
            verdict = _without_offsets(group)
        verdicts.setdefault(group_id, []).append(verdict)
    # Newest tables are no snapshot: a group may have been deleted between two reads.
    gone = set(named.to_pylist()) - set(groups["group_id"].to_pylist())
    groups = groups.cast(nullable(groups.schema))
    deleted = [{"group_id": group, "state": "Dead", "member_count": 0} for group in gone]
    groups = pa.concat_tables([groups, pa.Table.from_pylist(deleted, groups.schema)])
    return groups, verdicts


def _is_unread(
    reader: TableReader, now: datetime, groups: pa.Table, rules: StatusRules
) -> pa.Array:
    """Whether the log partition of each group was not read to its end for too long."""
    known = tables_known_until(reader, now)
    since = now - timedelta(milliseconds=rules.stale_after_ms)
    is_read = pc.greater_equal(known["known_until"], since).fill_null(False)
    read = known["log_partition"].filter(is_read).combine_chunks()
    return pc.invert(pc.is_in(groups["log_partition"], read))


def _without_offsets(group: Row) -> Verdict:
    """The verdict for a group without rows of `group_lag` and without assigned partitions."""
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


# --- members with assigned partitions that have no row in `group_lag`


def silent_members(
    reader: TableReader, now: datetime, group_ids: Collection[str] | None, lags: pa.Table
) -> dict[str, list[Row]]:
    """The assigned partitions of each group that are not in `group_lag`, with their members.

    `lags` has `KEY` and `member_id` of the rows of `group_lag`. A row has `topic`, `partition`,
    `member_id` and `assigned_ms`, see `SilentMembers`.
    """
    wanted = of_groups(group_ids)
    assignments = reader.read("group_members", ["assignment"], wanted)["assignment"]
    with_member = len(lags) - lags["member_id"].null_count
    if with_member == (pc.sum(pc.list_value_length(assignments)).as_py() or 0):
        return {}
    assigned = owners(reader, wanted)
    is_silent = positions(assigned.select(KEY), lags.select(KEY)) == NOWHERE
    silent = assigned.filter(pa.array(is_silent))
    silent = of_own_log_partition(silent, reader.log_partitions).combine_chunks()
    if not silent.num_rows:
        return {}
    changed = assigned_at(reader, pc.unique(silent["group_id"]).to_pylist())
    now_ms = moment_ms(now + reader.clock_skew)
    rows_by_group: dict[str, list[Row]] = defaultdict(list)
    for row in silent.select([*KEY, "member_id"]).to_pylist():
        group_id = row.pop("group_id")
        at = changed.get(group_id)
        assigned_ms = None if at is None else max(now_ms - moment_ms(at), 0)
        rows_by_group[group_id].append({**row, "assigned_ms": assigned_ms})
    return rows_by_group


def silent_facts(partitions: Sequence[Row]) -> SilentMembers:
    """The facts about partitions of one group."""
    assigned = [row["assigned_ms"] for row in partitions if row["assigned_ms"] is not None]
    return SilentMembers(
        members=len({row["member_id"] for row in partitions}),
        partitions=len(partitions),
        assigned_ms=min(assigned, default=None),
    )


# --- loops of rebalances


def _loops(reader: TableReader, now: datetime, rules: StatusRules) -> dict[str, Verdict]:
    """Groups in a loop of rebalances."""
    # Events have times of the brokers.
    now += reader.clock_skew
    since = now - timedelta(milliseconds=rules.rebalances_within_ms)
    during: list[tuple[str, str, Any]]
    during = [
        *(("day", ">=", since.date()), ("record_timestamp", ">=", since)),
        ("record_timestamp", "<=", now),
    ]
    columns = ["group_id", "group_type", "record_timestamp", "epoch_after"]
    rebalance_filters = [*during, ("event", "=", EventName.REBALANCE.value)]
    rebalances = reader.read(GROUP_EVENTS.name, columns, rebalance_filters)
    rebalances = rebalances.group_by("group_id").aggregate(
        [
            *(("epoch_after", "count"), ("record_timestamp", "max"), ("epoch_after", "max")),
            ("group_type", "max"),
        ]
    )
    is_many = pc.greater_equal(rebalances["epoch_after_count"], rules.rebalances)
    rows = rebalances.filter(is_many).to_pylist()
    clients = _clients(reader, [row["group_id"] for row in rows], since, now) if rows else {}
    verdicts = {
        row["group_id"]: rebalancing_loop(
            row["epoch_after_count"],
            clients.get(row["group_id"], ()),
            max(round((now - row["record_timestamp_max"]).total_seconds() * 1000), 0),
            row["epoch_after_max"],
            row["group_type_max"],
            rules,
        )
        for row in rows
    }
    return {group: verdict for group, verdict in verdicts.items() if verdict is not None}


def _clients(
    reader: TableReader, group_ids: Sequence[str], since: datetime, now: datetime
) -> dict[str, list[ClientChanges]]:
    """The changes of the members of each group, by client.

    Those since a moment, and those of a longer time.
    """
    key = ["group_id", "group_instance_id", "client_id", "client_host"]
    begin = now - LOOP_WINDOWS * (now - since)
    names = [event.value for event in (EventName.MEMBER_JOINED, EventName.MEMBER_LEFT)]
    filters: list[tuple[str, str, Any]] = [
        *(("day", ">=", begin.date()), ("record_timestamp", ">=", begin)),
        *(("record_timestamp", "<=", now), ("group_id", "in", group_ids), ("event", "in", names)),
    ]
    columns = [*key, "event", "record_timestamp"]
    events = reader.read(GROUP_EVENTS.name, columns, filters).select(columns)
    members = reader.own(GROUP_MEMBERS.name, key[1:], group_ids).select(key)
    rows = pa.concat_tables([events, members], promote_options="permissive").to_pylist()
    changes_by_client: dict[tuple[str, ...], list[tuple[str | None, bool]]] = defaultdict(list)
    for row in rows:
        at = row["record_timestamp"]
        is_recent = at is not None and at >= since
        changes_by_client[tuple(row[name] for name in key)].append((row["event"], is_recent))
    by_group: dict[str, list[ClientChanges]] = defaultdict(list)
    for (group_id, *_), changes in changes_by_client.items():
        kinds = [event for event, _ in changes]
        recent = sum(is_recent for _, is_recent in changes)
        left, members_now = kinds.count(EventName.MEMBER_LEFT.value), kinds.count(None)
        by_group[group_id].append(ClientChanges(recent, left, members_now))
    return by_group
