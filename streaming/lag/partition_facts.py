"""The facts about each row of `group_lag` that its status depends on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.apply.columns import (
    NOWHERE,
    TIMESTAMP,
    positions,
    with_columns,
    with_matches,
)
from coordinator_state.insight.group_events import EventName
from coordinator_state.insight.group_status import StatusRules
from coordinator_state.insight.lag import GONE, UNKNOWN
from coordinator_state.insight.lag_text import OLD_SAMPLE_MS
from coordinator_state.insight.partition_facts import PartitionFacts
from coordinator_state.replay.groups import EMPTY, NO_RECORD_OFFSET, SHARE
from coordinator_state.replay.offsets import Outcome
from coordinator_state.replay.transactions import (
    ONGOING,
    OPEN_STATES,
    TWO_PHASE_COMMIT_TIMEOUT_MS,
)
from streaming.lag.absences import absences_of
from streaming.lag.deleted_topics import KnownTopics, without_first_in_new_topics
from streaming.lag.expiries import expiries
from streaming.lag.offset_samples import Logs, to_ms
from streaming.lag.open_transactions import open_transactions, pending_owners
from streaming.lag.paces import HOLDS, KnownPaces, holds_of, paces_of
from streaming.lag.recent_commits import (
    ATTEMPTS,
    COMMITS_WITHIN,
    KEY,
    commit_windows,
    recent_commits,
)
from streaming.lag.rests import LateKeys, rests_in_turn_of, rests_of
from streaming.lag.sample_runs import MAX_SAMPLE_AGE
from streaming.tables.clock import moment_ms
from streaming.tables.filters import Filters, of_groups
from streaming.tables.reader import TableReader
from streaming.tables.schemas import GROUP_EVENTS, GROUP_MEMBERS, GROUPS, TRANSACTIONS

_USUAL: Final = (
    *("usual_commit_ms", "usual_move_ms", "longest_move_ms", "usual_move_records"),
    "usual_hold_ms",
)
_GETS_ON_MS: Final = 60_000
_CLOCK_ERROR_MS: Final = 10_000
"""The brokers' clocks differ, and `clock_skew` is measured."""
_RESTS: Final = timedelta(minutes=1) + MAX_SAMPLE_AGE
_RESTS_AND_ABSENCES: Final = (
    *("rest_ms", "move_rest_ms", "only_rest_ms", "only_move_rest_ms", "rest_in_turn_ms"),
    *("ended_at_ms", "usual_return_ms"),
)
FACTS: Final = tuple(field.name for field in fields(PartitionFacts))
_KEY_TYPES: Final = [(name, pa.int32() if name == "partition" else pa.string()) for name in KEY]


def partition_facts(
    reader: TableReader,
    now: datetime,
    group_ids: Collection[str] | None,
    rules: StatusRules,
    lags: pa.Table,
    known: KnownPaces,
) -> pa.Table:
    """The columns of `PartitionFacts`, and `is_well`, for each row of `group_lag`.

    `is_well` says that `well_status` has the verdict: no fact is beyond a limit. The facts about
    recent commits are those of groups that are not well, or whose commits were aborted.
    """
    shares = pc.unique(lags["group_id"].filter(pc.equal(lags["group_type"], SHARE)))
    rewinds = _of_others(_rewinds(reader, now, group_ids, known.logs.topics), shares)
    lag_rows = with_matches(lags, rewinds, KEY)
    lag_rows = with_matches(
        lag_rows, _of_others(_expiries(reader, now, group_ids, rules), shares), KEY
    )
    now_ms = moment_ms(now)
    known_ms = to_ms(lag_rows["known_until"])
    at_ms = pc.coalesce(known_ms, now_ms)
    behind_ms = pc.subtract(now_ms, known_ms)

    def age(name: str) -> Any:
        """The age of a time at the time of the tables."""
        return pc.max_element_wise(pc.subtract(at_ms, to_ms(lag_rows[name])), 0, skip_nulls=False)

    def at_tables(name: str) -> Any:
        """An age of `group_lag` at the time of the tables."""
        value = pc.subtract(lag_rows[name], pc.coalesce(behind_ms, 0))
        return pc.max_element_wise(value, 0, skip_nulls=False)

    groups = reader.own(GROUPS.name, _GROUP_COLUMNS, group_ids)
    uncommitted_ms = age("uncommitted_since")
    commit_age_ms = pc.coalesce(uncommitted_ms, at_tables("commit_age_ms"))
    pending_since = to_ms(reader.own_times(lag_rows["pending_since"]))
    is_held = pc.is_valid(pending_since)
    columns = {
        **{name: lag_rows[name] for name in lag_rows.column_names if name in FACTS},
        "at_ms": at_ms,
        "behind_ms": behind_ms,
        "has_members": pc.not_equal(lag_rows["group_state"], EMPTY),
        **_members_of(lag_rows, groups),
        "uncommitted_ms": uncommitted_ms,
        "gone_at_ms": to_ms(lag_rows["gone_since"]),
        "recreated_at_ms": to_ms(lag_rows["recreated_at"]),
        "is_lag_lower_bound": lag_rows["is_lag_lower_bound"].fill_null(False),
        "sample_age_ms": pc.subtract(now_ms, to_ms(lag_rows["sampled_at"])),
        "time_lag_ms": at_tables("time_lag_ms"),
        "time_lag_at_least_ms": at_tables("time_lag_at_least_ms"),
        "commit_age_ms": commit_age_ms,
        # An offset past the log end was never read, so nothing is read again.
        "rewound_from": pc.if_else(
            pc.greater(lag_rows["rewound_from"], lag_rows["log_end_offset"]).fill_null(False),
            None,
            lag_rows["rewound_from"],
        ),
        "read_before_to": _read_before_to(reader, now, lag_rows),
        "rewind_ago_ms": pc.max_element_wise(
            pc.subtract(now_ms, to_ms(lag_rows["rewind_at"])), 0, skip_nulls=False
        ),
        "is_reset": pc.equal(lag_rows["rewind_event"], EventName.OFFSET_RESET.value).fill_null(
            False
        ),
        # The owner, if Kafka did not record who committed.
        "pending_client_id": pc.coalesce(lag_rows["pending_client_id"], lag_rows["client_id"]),
        "expires_in_ms": pc.subtract(lag_rows["expires_at_ms"], moment_ms(now + reader.clock_skew)),
        "is_out_of_range": pc.and_not(
            pc.fill_null(
                pc.greater(lag_rows["committed_offset"], lag_rows["log_end_offset"]), False
            ),
            pc.equal(lag_rows["group_type"], SHARE),
        ),
    }
    is_well = pc.and_not(_is_well(columns, rules), is_held)
    # The pace of a partition without a committed offset is that of the others of its group.
    is_uncommitted = pc.is_valid(lag_rows["uncommitted_since"])
    uncommitted = pc.unique(lag_rows["group_id"].filter(is_uncommitted))
    suspects = lag_rows.filter(
        pc.or_(pc.invert(is_well), pc.is_in(lag_rows["group_id"], uncommitted))
    )
    commits = _commits(reader, now, group_ids, pc.unique(suspects["group_id"]))
    lag_rows = with_matches(lag_rows, _of_others(commit_windows(commits), shares), KEY)
    # A group without a committed offset may have had one before it was deleted.
    last = pc.coalesce(suspects["uncommitted_since"], suspects["commit_timestamp"])
    keys = suspects.select(KEY).append_column("commit_timestamp", last)
    keys = _of_others(keys, shares)
    lag_rows = with_matches(lag_rows, paces_of(reader, commits, keys, now, known), KEY)
    lag_rows = _with_pace_of_group(lag_rows, is_uncommitted)
    late = LateKeys.of(lag_rows, now, rules)
    in_turn = rests_in_turn_of(reader, commits, late.rows, lag_rows, now)
    lag_rows = with_matches(lag_rows, rests_of(reader, late, now, known), KEY)
    lag_rows = with_matches(
        lag_rows, _of_others(absences_of(reader, late, now, rules, known), shares), KEY
    )
    lag_rows = with_matches(lag_rows, _of_others(in_turn, shares), KEY)
    lag_rows = _with_holds(reader, lag_rows, now, rules, known)
    columns["present_rate_per_s"] = pc.if_else(
        _rests(reader, lag_rows, now, pc.invert(is_well)), 0.0, lag_rows["produce_rate_per_s"]
    )
    columns["unsubscribed_expires_in_ms"] = _unsubscribed(reader, lag_rows, now_ms, groups)
    has_commits = pc.greater(pc.coalesce(lag_rows["commits"], 0), 0)
    held_since = pc.min_element_wise(pending_since, to_ms(lag_rows["first_superseded"]))
    held_since = _held_since(reader, lag_rows, held_since, pc.and_not(is_held, has_commits))
    columns |= _owners(reader, lag_rows, now)
    columns |= {
        "commits": pc.if_else(has_commits, lag_rows["commits"], 1),
        "commits_from_ms": pc.if_else(has_commits, age("first_commit"), commit_age_ms),
        **{name: lag_rows[name] for name in _USUAL},
        **{name: lag_rows[name].fill_null(0) for name in ("commit_waits", "move_waits", "holds")},
        **{name: lag_rows[name] for name in _RESTS_AND_ABSENCES},
        "max_poll_ms": _max_poll_ms(reader, lag_rows, is_uncommitted),
        "is_often_held": lag_rows["is_often_held"].fill_null(False),
        "is_hold_two_phase_commit": _is_hold_two_phase_commit(reader, lag_rows),
        "same_commits": pc.if_else(has_commits, lag_rows["same_commits"], 1),
        "moved_at_ms": to_ms(lag_rows["moved_at"]),
        "is_member_busy": _is_member_busy(lag_rows, at_ms, rules),
        "aborted": pc.coalesce(lag_rows["aborted"], 0),
        "aborted_from_ms": age("first_aborted"),
        "aborted_ago_ms": age("last_aborted"),
        "held_ms": pc.if_else(
            is_held,
            pc.max_element_wise(pc.subtract(at_ms, held_since), 0, skip_nulls=False),
            pa.scalar(None, pa.int64()),
        ),
    }
    facts = pa.table([columns[name] for name in FACTS], names=list(FACTS))
    return facts.append_column("is_well", pc.and_(is_well, pc.equal(facts["aborted"], 0)))


def _with_pace_of_group(lag_rows: pa.Table, is_uncommitted: Any) -> pa.Table:
    """The rows, with the longest pace of the group where the partition has no committed offset."""
    if not pc.any(is_uncommitted).as_py():
        return lag_rows
    paces = lag_rows.group_by("group_id").aggregate([("usual_commit_ms", "max")])
    place = positions(lag_rows.select(["group_id"]), paces.select(["group_id"]))
    longest = paces["usual_commit_ms_max"].take(pa.array(place))
    usual = pc.if_else(is_uncommitted, longest, lag_rows["usual_commit_ms"])
    return with_columns(lag_rows, {"usual_commit_ms": usual})


def _max_poll_ms(reader: TableReader, lag_rows: pa.Table, is_uncommitted: Any) -> Any:
    """The longest time between two polls that a member of each group may take.

    Clients send their `max.poll.interval.ms` as the rebalance timeout. It is null for a partition
    with a committed offset.
    """
    group_ids = pc.unique(lag_rows["group_id"].filter(is_uncommitted)).to_pylist()
    if not group_ids:
        return pa.nulls(lag_rows.num_rows, pa.int64())
    members = reader.own(GROUP_MEMBERS.name, ["rebalance_timeout_ms"], group_ids)
    longest = members.group_by("group_id").aggregate([("rebalance_timeout_ms", "max")])
    place = pc.index_in(lag_rows["group_id"], longest["group_id"].combine_chunks())
    timeout_ms = longest["rebalance_timeout_ms_max"].cast(pa.int64()).take(place)
    return pc.if_else(is_uncommitted, timeout_ms, None)


def _of_others(evidence: pa.Table, shares: pa.Array) -> pa.Table:
    """The evidence without that of share groups: it is about an earlier group of their name."""
    if not len(shares):
        return evidence
    return evidence.filter(pc.invert(pc.is_in(evidence["group_id"], shares)))


_GROUP_COLUMNS: Final = ["record_offset", "member_count", "subscribed_topics"]


def _unsubscribed(reader: TableReader, lag_rows: pa.Table, now_ms: int, groups: pa.Table) -> Any:
    """The time until offsets of topics expire that no member subscribes to; null for others.

    Source: `ConsumerGroupMember.subscribedTopicNames`, `ClassicGroup.isSubscribedToTopic` and
    `OffsetMetadataManager.cleanupExpiredOffsets` at 4.2.0.
    """
    is_known = pc.and_(
        pc.is_valid(groups["subscribed_topics"]), pc.greater(groups["member_count"], 0)
    )
    groups = groups.filter(is_known).select(["group_id", "subscribed_topics"]).combine_chunks()
    topics = groups["subscribed_topics"].combine_chunks()
    subscribed = pa.table(
        {
            "group_id": groups["group_id"].take(pc.list_parent_indices(topics)),
            "topic": pc.list_flatten(topics),
        }
    )
    places = lag_rows.select(["group_id", "topic"])
    is_known_group = pc.is_in(places["group_id"], groups["group_id"].combine_chunks())
    is_subscribed = pa.array(positions(places, subscribed.cast(places.schema)) != NOWHERE)
    is_assigned = pc.is_valid(lag_rows["member_id"])
    is_read = pc.or_(pc.or_(is_subscribed, is_assigned), pc.equal(lag_rows["group_type"], SHARE))
    is_unsubscribed = pc.and_not(is_known_group, is_read)
    expires_at_ms = pc.add(
        to_ms(reader.own_times(lag_rows["commit_timestamp"])), reader.offsets_retention_ms
    )
    return pc.if_else(
        is_unsubscribed, pc.subtract(expires_at_ms, now_ms), pa.scalar(None, pa.int64())
    )


def _members_of(lag_rows: pa.Table, groups: pa.Table) -> dict[str, Any]:
    """The facts about the members of each partition."""
    simple = groups.filter(pc.equal(groups["record_offset"], NO_RECORD_OFFSET))
    is_assigned = pc.is_valid(lag_rows["member_id"])
    is_share = pc.equal(lag_rows["group_type"], SHARE)
    with_members = pc.unique(lag_rows["group_id"].filter(is_assigned))
    others_have = pc.is_in(lag_rows["group_id"], with_members)
    return {
        "is_simple": pc.is_in(lag_rows["group_id"], simple["group_id"].combine_chunks()),
        # The members of a share group share partitions.
        "has_member": pc.or_(is_assigned, is_share),
        "is_left_out": pc.and_not(others_have, pc.or_(is_assigned, is_share)),
    }


def _rests(reader: TableReader, lag_rows: pa.Table, now: datetime, is_wanted: Any) -> pa.Array:
    """Whether the log of each wanted row did not grow in the last minute; false for others."""
    rests = np.zeros(lag_rows.num_rows, np.bool_)
    is_growing = pc.greater(lag_rows["produce_rate_per_s"], 0).fill_null(False)
    numbers = np.flatnonzero(pc.and_(is_growing, is_wanted).to_numpy())
    if numbers.size:
        logs = Logs.of(lag_rows.take(pa.array(numbers)))
        histories = logs.histories(reader, since=now - _RESTS, until=now, of_all=False)
        before_ms = np.full(numbers.size, moment_ms(now - timedelta(minutes=1)))
        before = histories.log_ends_at(logs.of_rows, before_ms)
        end = histories.newest.log_end_offset[logs.of_rows]
        rests[numbers] = (before == end) & (end != UNKNOWN)
    return pa.array(rests)


def _is_member_busy(lag_rows: pa.Table, at_ms: Any, rules: StatusRules) -> Any:
    """Whether the member of each row gets on in another partition in which it is behind."""
    rests_ms = pc.subtract(at_ms, to_ms(lag_rows["moved_at"]))
    is_behind = pc.greater(lag_rows["time_lag_at_least_ms"], rules.slow_after_ms)
    gets_on = pc.and_(is_behind, pc.less(rests_ms, _GETS_ON_MS))
    rows = pa.table(
        {
            "group_id": lag_rows["group_id"],
            # A consumer with `assign()` is no member.
            "member_id": lag_rows["member_id"].fill_null(""),
            "gets_on": pc.cast(gets_on.fill_null(False), pa.int64()),
        }
    ).combine_chunks()
    key = ["group_id", "member_id"]
    totals = rows.group_by(key).aggregate([("gets_on", "sum")])
    sums = totals["gets_on_sum"].take(pa.array(positions(rows.select(key), totals.select(key))))
    return pc.greater(pc.subtract(sums, rows["gets_on"]), 0)


def _with_holds(
    reader: TableReader, lag_rows: pa.Table, now: datetime, rules: StatusRules, known: KnownPaces
) -> pa.Table:
    """The rows with the columns `HOLDS`, null if no transaction keeps records from the group."""
    is_held = pc.and_(
        pc.and_(pc.greater(lag_rows["lag"], 0), pc.equal(lag_rows["lag_to_last_stable"], 0)),
        pc.greater(lag_rows["time_lag_at_least_ms"], rules.pending_after_ms),
    )
    holds = holds_of(reader, lag_rows.filter(is_held.fill_null(False)), now, known)
    place = positions(lag_rows.select(HOLDS.names[:2]), holds.select(HOLDS.names[:2]))
    held = holds.take(pa.array(place, mask=place == NOWHERE))
    return with_columns(lag_rows, {name: held[name] for name in HOLDS.names[2:]})


def _owners(reader: TableReader, lag_rows: pa.Table, now: datetime) -> dict[str, pa.Array]:
    """The facts about the transaction that holds commits, by `__transaction_state`."""
    names: list[str | None] = [None] * lag_rows.num_rows
    is_lost = [False] * lag_rows.num_rows
    is_two_phase_commit = [False] * lag_rows.num_rows
    overdue_ms: list[int | None] = [None] * lag_rows.num_rows
    numbers = np.flatnonzero(pc.is_valid(lag_rows["pending_producer_id"]).to_numpy())
    if numbers.size:
        held = lag_rows.select(["group_id", "pending_producer_id"]).take(pa.array(numbers))
        group_ids, producer_ids = (column.to_pylist() for column in held.columns)
        owners = {
            (group_id, producer_id): owner
            for (_, group_id, producer_id), owner in pending_owners(
                reader, set(producer_ids)
            ).items()
        }
        for number, *key in zip(numbers, group_ids, producer_ids, strict=True):
            owner = owners.get(tuple(key))
            if owner is not None:
                names[number] = owner.transactional_id
                is_lost[number] = owner.is_marker_lost is True
                is_two_phase_commit[number] = owner.is_two_phase_commit
                if owner.abort_timestamp is not None:
                    due = owner.abort_timestamp - reader.clock_skew
                    overdue_ms[number] = moment_ms(now) - moment_ms(due)
    return {
        "pending_transactional_id": pa.array(names, pa.string()),
        "is_marker_lost": pa.array(is_lost, pa.bool_()),
        "overdue_ms": pa.array(overdue_ms, pa.int64()),
        "is_two_phase_commit": pa.array(is_two_phase_commit, pa.bool_()),
    }


def _is_hold_two_phase_commit(reader: TableReader, lag_rows: pa.Table) -> pa.Array:
    """Whether a transaction of a two-phase commit holds the last stable offset of each log.

    Only a transaction that began before the hold can have caused it. If another one did, too, that
    one may be the cause. False where `HOLDS` are null.
    """
    is_two_phase_commit = np.zeros(lag_rows.num_rows, np.bool_)
    numbers = np.flatnonzero(pc.is_valid(lag_rows["hold_began_by_ms"]).to_numpy())
    begun = _begun_transactions(reader) if numbers.size else {}
    places = lag_rows.select(["topic", "partition", "hold_began_by_ms"]).take(pa.array(numbers))
    for number, place in zip(numbers, places.to_pylist(), strict=True):
        holders = [
            transaction.is_two_phase_commit
            for transaction in begun.get((place["topic"], place["partition"]), ())
            if transaction.began_ms <= place["hold_began_by_ms"] + _CLOCK_ERROR_MS
        ]
        is_two_phase_commit[number] = bool(holders) and all(holders)
    return pa.array(is_two_phase_commit)


class _Begun(NamedTuple):
    """An open transaction, and when it began, in ms since the epoch."""

    began_ms: int
    is_two_phase_commit: bool


def _begun_transactions(reader: TableReader) -> Mapping[tuple[str, int], Sequence[_Begun]]:
    """The open transactions in each partition, by `__transaction_state`."""
    names = ["state", "timeout_ms", "start_timestamp", "topic_partitions"]
    rows = reader.read(TRANSACTIONS.name, names, [("state", "in", list(OPEN_STATES))])
    rows = with_columns(rows, {"start_timestamp": reader.own_times(rows["start_timestamp"])})
    begun: dict[tuple[str, int], list[_Begun]] = defaultdict(list)
    for row in rows.to_pylist():
        if row["start_timestamp"] is None:
            continue
        is_two_phase_commit = (row["state"], row["timeout_ms"]) == (
            ONGOING,
            TWO_PHASE_COMMIT_TIMEOUT_MS,
        )
        transaction = _Begun(moment_ms(row["start_timestamp"]), is_two_phase_commit)
        for place in row["topic_partitions"]:
            begun[place["topic"], place["partition"]].append(transaction)
    return begun


def _held_since(reader: TableReader, lag_rows: pa.Table, since: Any, is_long: Any) -> Any:
    """Times in ms, with the begin of the transaction for keys without a recent applied commit.

    A transaction that supersedes its commits again and again has only recent ones in the evidence.
    """
    numbers = np.flatnonzero(is_long.to_numpy())
    if not numbers.size:
        return since
    places = (
        lag_rows.select(["group_id", "pending_producer_id"]).take(pa.array(numbers)).to_pylist()
    )
    group_ids = sorted({row["group_id"] for row in places})
    begun = {
        (rows[0]["group_id"], transaction.producer_id): transaction.since
        for transaction, rows in open_transactions(reader, [("group_id", "in", group_ids)])
    }
    began: list[datetime | None] = [None] * lag_rows.num_rows
    for number, row in zip(numbers, places, strict=True):
        began[number] = begun.get((row["group_id"], row["pending_producer_id"]))
    return pc.min_element_wise(since, to_ms(reader.own_times(pa.array(began, TIMESTAMP))))


def _is_well(facts: Mapping[str, Any], rules: StatusRules) -> Any:
    """Whether no fact is beyond a limit, but for held and aborted commits."""
    oldest_ms = min(
        *(rules.pending_after_ms, rules.hanging_after_ms, rules.slow_after_ms),
        *(rules.stop_after_ms, rules.pace_unknown_after_ms, rules.stop_unknown_after_ms),
    )
    fresh_ms = min(rules.stale_after_ms, OLD_SAMPLE_MS)
    limits = {
        **{"data_lost": 0, "behind_ms": rules.stale_after_ms},
        **{"sample_age_ms": fresh_ms, "time_lag_ms": oldest_ms},
    }
    is_used = pc.or_(
        pc.greater(facts["lag"], 0),
        pc.or_(facts["has_members"], pc.less_equal(facts["commit_age_ms"], rules.idle_after_ms)),
    )
    is_well = pc.and_not(is_used, pc.equal(facts["topic_state"], GONE))
    for name, limit in limits.items():
        is_well = pc.and_(is_well, pc.less_equal(facts[name], limit))
    for name in ("expires_in_ms", "rewound_from"):
        is_well = pc.and_(is_well, pc.is_null(facts[name]))
    is_unread = pc.and_(pc.is_valid(facts["uncommitted_ms"]), pc.not_equal(facts["lag"], 0))
    is_well = pc.and_not(is_well, is_unread)
    is_well = pc.and_not(is_well, facts["is_out_of_range"])
    # An unknown fact needs a rule.
    return pc.coalesce(is_well, False)


def _commits(
    reader: TableReader, now: datetime, group_ids: Collection[str] | None, suspects: pa.Array
) -> pa.Table:
    """The recent commits of suspects, and of groups whose commits were aborted."""
    commits = recent_commits(reader, now - COMMITS_WITHIN, now, of_groups(group_ids), ATTEMPTS)
    is_aborted = pc.equal(commits["outcome"], Outcome.ABORTED.value)
    aborted = pc.unique(commits["group_id"].filter(is_aborted))
    chosen = pc.unique(pa.concat_arrays([aborted.cast(pa.string()), suspects.cast(pa.string())]))
    return commits.filter(pc.is_in(commits["group_id"], chosen))


def _expiries(
    reader: TableReader, now: datetime, group_ids: Collection[str] | None, rules: StatusRules
) -> pa.Table:
    until = now + timedelta(milliseconds=rules.expiring_within_ms)
    offsets = expiries(reader, until, group_ids=group_ids)
    # An orphan in another log partition may expire, too.
    offsets = offsets.group_by(KEY).aggregate([("expires_at_ms", "max")])
    return offsets.rename_columns([*KEY, "expires_at_ms"])


_MOVE_COLUMNS: Final = ("offset_before", "offset_after", "record_timestamp", "event")
_MOVES_WITHIN: Final = timedelta(days=1)
_REWINDS: Final = pa.schema(
    [
        *_KEY_TYPES,
        ("rewound_from", pa.int64()),
        ("rewind_from", pa.int64()),
        ("rewind_to", pa.int64()),
        ("rewind_at", TIMESTAMP),
        ("rewind_event", pa.string()),
    ]
)


def _moves_between(since: datetime, until: datetime) -> Filters:
    """The moves of offsets that are events, by the brokers' time."""
    names = [EventName.OFFSET_REWIND.value, EventName.OFFSET_RESET.value]
    return [
        *(("day", ">=", since.date()), ("record_timestamp", ">=", since)),
        *(("record_timestamp", "<=", until), ("event", "in", names)),
    ]


def _rewinds(
    reader: TableReader, now: datetime, group_ids: Collection[str] | None, known: KnownTopics
) -> pa.Table:
    """The last move back of each committed offset, and the greatest offset that one left.

    The first commit in a topic that was created again is none.
    """
    # Events have times of the brokers.
    until = now + reader.clock_skew
    events = reader.read(
        GROUP_EVENTS.name,
        [*KEY, "record_offset", *_MOVE_COLUMNS],
        _moves_between(until - COMMITS_WITHIN, until),
    )
    wanted = of_groups(group_ids)
    events = events if wanted is None else events.filter(wanted)
    events = events.filter(pc.less(events["offset_after"], events["offset_before"]))
    events = without_first_in_new_topics(reader, now, events.sort_by("record_offset"), known)
    rewinds = events.group_by(KEY, use_threads=False).aggregate(
        [
            *(("offset_before", function) for function in ("max", "last")),
            *((name, "last") for name in _MOVE_COLUMNS[1:]),
        ]
    )
    rewinds = rewinds.rename_columns(_REWINDS.names).cast(_REWINDS)
    return with_columns(rewinds, {"rewind_at": reader.own_times(rewinds["rewind_at"])})


def _read_before_to(reader: TableReader, now: datetime, lag_rows: pa.Table) -> pa.Array:
    """The offset up to which each group that lost records had read before it went back.

    Nobody reads the records that a reset to a later offset skips, unless it ends where the group
    has already been. Null for other groups.
    """
    read_to: list[int | None] = [None] * lag_rows.num_rows
    is_wanted = pc.and_(pc.greater(lag_rows["data_lost"], 0), pc.is_valid(lag_rows["rewound_from"]))
    numbers = np.flatnonzero(is_wanted.fill_null(False).to_numpy())
    if not numbers.size:
        return pa.array(read_to, pa.int64())
    keys = lag_rows.select(KEY).take(pa.array(numbers))
    until = now + reader.clock_skew
    group_ids = pc.unique(keys["group_id"]).to_pylist()
    moves = reader.read(
        GROUP_EVENTS.name,
        [*KEY, "record_offset", *_MOVE_COLUMNS],
        [*_moves_between(until - _MOVES_WITHIN, until), ("group_id", "in", group_ids)],
    )
    moves_by_key: dict[tuple[Any, ...], list[Mapping[str, Any]]] = defaultdict(list)
    for move in moves.sort_by("record_offset").to_pylist():
        moves_by_key[tuple(move[name] for name in KEY)].append(move)
    for number, key in zip(numbers, keys.to_pylist(), strict=True):
        read_to[number] = _read_to(moves_by_key[tuple(key.values())], until - COMMITS_WITHIN)
    return pa.array(read_to, pa.int64())


def _read_to(moves: Sequence[Mapping[str, Any]], since: datetime) -> int | None:
    """The greatest offset up to which a key was read before its moves back since a time."""
    read_to = skipped_from = None
    reached = 0
    for move in moves:
        before = move["offset_before"]
        before = before if skipped_from is None else min(before, skipped_from)
        reached = max(reached, before)
        if move["offset_after"] > reached:
            skipped_from = reached if skipped_from is None else skipped_from
            continue
        skipped_from = None
        if move["record_timestamp"] >= since and move["offset_after"] < move["offset_before"]:
            read_to = before if read_to is None else max(read_to, before)
    return read_to
