"""The plan of a micro-batch against a replay record by record: any logs, any cut.

The tables are dictionaries here, changed by the conditions of the MERGEs; `test_apply.py` does the
same with the tables themselves. A micro-batch has several log partitions, which are independent:
each is compared with its own replay, though all have the same groups.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator_state.apply.counts import by_log_partition
from coordinator_state.apply.groups import ReplayWarning
from coordinator_state.errors import DecodeError, UnknownRecordType
from coordinator_state.insight.group_events import (
    EventName,
    GroupEvent,
    GroupEventReplay,
    Partitions,
)
from coordinator_state.log.record import read_control_key
from coordinator_state.log.record_batch import RecordBatch, read_record_batches
from coordinator_state.records.record_types import GROUP_METADATA_TYPE, OFFSET_COMMIT_TYPES
from coordinator_state.records.serde import decode_key, decode_value
from coordinator_state.replay.group_replay import GroupRecord, GroupReplay, described, name_of
from coordinator_state.replay.groups import Group
from coordinator_state.replay.loader import LoadWarning, ReferenceLoader
from coordinator_state.replay.offsets import CONTROL_TYPE_COMMIT, OffsetKey, Outcome, Semantics
from coordinator_state.replay.releases import Release
from coordinator_state.wire.primitives import uuid_text
from tests.support.logs.log_rows import SAMPLED, Row
from tests.support.logs.logs import BASE_TIMESTAMP_MS, Event, segment
from tests.support.logs.random_logs import TOPICS, logs
from tests.support.tables.plan_tables import OFFSET_VALUES, RETENTION_MS, PlanTables

Client = tuple[str, str]
"""Client id and client host."""


@dataclass
class RecordByRecord:
    """The loader, and what happened between each record and the next.

    `clients` has the client of every commit that was pending once, by its record offset. `outcomes`
    has the outcome of every offset record that is not pending, and the record that decided it.
    """

    loader: ReferenceLoader
    event_replay: GroupEventReplay
    topic_names: Mapping[str, str]
    retention_ms: int
    events: list[GroupEvent] = field(default_factory=list)
    clients: dict[int, Client | None] = field(default_factory=dict)
    outcomes: dict[int, tuple[Outcome, int]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        buffer: bytes,
        semantics: Semantics,
        release: Release,
        topic_names: Mapping[str, str],
        retention_ms: int,
    ) -> RecordByRecord:
        """Replay batches of one record each."""
        loader = ReferenceLoader(semantics, release=release)
        event_replay = GroupEventReplay(GroupReplay(release=release))
        replayed = cls(loader, event_replay, topic_names, retention_ms)
        for batch in read_record_batches(buffer):
            assert isinstance(batch, RecordBatch)
            replayed._replay(batch)
        return replayed

    def _replay(self, batch: RecordBatch) -> None:
        loader = self.loader
        self._replay_group_record(batch)
        groups, offsets, pending = dict(loader.groups), dict(loader.offsets), self._pending()
        loader.load([batch])
        (record,) = batch.records
        for key in offsets.keys() | loader.offsets.keys():
            before, after = offsets.get(key), loader.offsets.get(key)
            if after is None and before is not None:
                event: GroupEvent | None = self.event_replay.replay_tombstone(
                    key,
                    before,
                    record.record_offset,
                    timestamp_ms=record.timestamp_ms,
                    retention_ms=self.retention_ms,
                )
                self._add(event)
            elif after is not None and after != before:
                self._add(
                    self.event_replay.replay_commit(
                        key, before, after, record.record_offset, lambda _ids: self.topic_names
                    )
                )
        still_pending = self._pending()
        for record_offset in still_pending.keys() - pending.keys():
            key = still_pending[record_offset]
            self.clients[record_offset] = self._owner(groups.get(key.group_id), key)
        for record_offset in pending.keys() - still_pending.keys():
            self.outcomes[record_offset] = (_outcome_of_pending(batch), record.record_offset)
        is_offset = (decoded := _decoded(batch)) and decoded.record_type in OFFSET_COMMIT_TYPES
        if is_offset and record.record_offset not in still_pending:
            self.outcomes[record.record_offset] = (Outcome.COMMITTED, record.record_offset)

    # --- events

    def _replay_group_record(self, batch: RecordBatch) -> None:
        record = _decoded(batch)
        if record is None:
            return
        if record.record_type in OFFSET_COMMIT_TYPES:
            if record.value is not None:
                self.event_replay.groups.replay_offset_commit(record.group_id)
        elif self._is_known(record):
            for event in self.event_replay.replay_record(record):
                self._add(event)

    def _is_known(self, record: GroupRecord) -> bool:
        is_scala = self.loader.semantics is Semantics.SCALA
        return not is_scala or record.record_type == GROUP_METADATA_TYPE

    def _add(self, event: GroupEvent | None) -> None:
        if event is not None:
            before, after = map(self._named, (event.assignment_before, event.assignment_after))
            self.events.append(event._replace(assignment_before=before, assignment_after=after))

    def _named(self, partitions: Partitions) -> Partitions:
        if partitions is None:
            return None
        return tuple(
            replace(assigned, topic=assigned.topic or self.topic_names.get(assigned.topic_id or ""))
            for assigned in partitions
        )

    # --- clients

    def _pending(self) -> dict[int, OffsetKey]:
        """The key of each pending offset, by its record offset."""
        return {
            commit.record_offset: key
            for commits in self.loader.pending.values()
            for key, commit in commits.items()
        }

    def _owner(self, group: Group | None, key: OffsetKey) -> Client | None:
        for member in () if group is None else group.members:
            for assigned in member.assignment or ():
                topic = self.topic_names.get(assigned.topic_id or "", assigned.topic)
                if (topic, assigned.partition) == (key.topic, key.partition):
                    return member.client_id, member.client_host
        return None


def _outcome_of_pending(batch: RecordBatch) -> Outcome:
    """The outcome of commits that the only record of a batch resolves."""
    (record,) = batch.records
    if batch.is_control:
        _, control_type = read_control_key(record.key or b"")
        return Outcome.COMMITTED if control_type == CONTROL_TYPE_COMMIT else Outcome.ABORTED
    return Outcome.CLEARED if record.value is None else Outcome.SUPERSEDED


def _decoded(batch: RecordBatch) -> GroupRecord | None:
    """The only record of a batch, if it can be decoded."""
    (record,) = batch.records
    if batch.is_control or record.key is None:
        return None
    try:
        key = decode_key(record.key)
        value = None if record.value is None else decode_value(key.record_type, record.value).fields
    except (DecodeError, UnknownRecordType):
        return None
    name = name_of(key.fields)
    return GroupRecord(key.record_type.id, key.group_id, name, value, record.record_offset)


NAMES = {uuid_text(topic_id): name for topic_id, name in TOPICS}
LOG_PARTITIONS = (3, 7, 8)
Replays = Mapping[int, RecordByRecord]


@pytest.mark.parametrize(
    "semantics",
    [Semantics.COORDINATOR, pytest.param(Semantics.SCALA, marks=pytest.mark.long)],
)
@settings(max_examples=70)
@given(
    drawn=st.tuples(*[logs()] * len(LOG_PARTITIONS)),
    order=st.permutations(range(len(LOG_PARTITIONS))),
    cuts=st.lists(st.tuples(*[st.integers(0, 60)] * len(LOG_PARTITIONS)), max_size=5),
    release=st.sampled_from(Release),
    topic_names=st.sampled_from([{}, NAMES]),
    is_sampled=st.booleans(),
    with_history=st.sampled_from([True, True, True, False]),
    crashed_and_redelivered=st.lists(st.booleans(), min_size=12, max_size=12),
)
def test_any_cut_gives_what_a_replay_record_by_record_gives(
    semantics: Semantics,
    drawn: tuple[list[Event], ...],
    order: list[int],
    cuts: list[tuple[int, ...]],
    release: Release,
    topic_names: dict[str, str],
    is_sampled: bool,
    with_history: bool,
    crashed_and_redelivered: list[bool],
) -> None:
    segments = {LOG_PARTITIONS[index]: segment(drawn[index]) for index in order}
    cuts_of = dict(zip(LOG_PARTITIONS, map(sorted, zip(*cuts, strict=True)), strict=False))
    tables = PlanTables(semantics, release, with_history=with_history, topic_names=topic_names)
    for number in range(len(cuts) + 1):
        tables.load(
            {
                p: (buffer, min([end, *cuts_of.get(p, [])[number : number + 1]]))
                for p, (buffer, end) in segments.items()
            },
            sampling=SAMPLED if is_sampled else None,
            is_crashed=crashed_and_redelivered.pop(),
            is_redelivered=crashed_and_redelivered.pop(),
        )
        _assert_accounted(tables)

    expected = {
        p: RecordByRecord.of(buffer, semantics, release, topic_names, RETENTION_MS)
        for p, (buffer, _) in segments.items()
    }
    _assert_state(tables, expected)
    begin = datetime.fromtimestamp(BASE_TIMESTAMP_MS / 1000, timezone.utc)
    assert tables.newest_timestamps == {
        p: begin + timedelta(milliseconds=end - 1) for p, (_, end) in segments.items() if end
    }
    assert sorted(_refusal(w.log_partition, w) for w in tables.warnings) == sorted(
        _refusal(p, warning)
        for p, replay in expected.items()
        for warning in replay.loader.replay_warnings
        # The loader alone checks the version of a value.
        if not warning.reason.endswith("for 0 type")
    )
    if not with_history:
        assert (tables.history, tables.events) == ({}, [])
    else:
        _assert_events(tables, expected, is_sampled=is_sampled)
        if not is_sampled:
            _assert_outcomes(tables, expected)
            # One micro-batch gives the same history and events, and the same numbers of events.
            uncut = PlanTables(semantics, release, topic_names=topic_names)
            uncut.load(segments)
            assert sorted(tables.events, key=_place) == sorted(uncut.events, key=_place)
            assert tables.history == uncut.history


def _refusal(log_partition: int, warning: ReplayWarning | LoadWarning) -> tuple[int, int, str]:
    return log_partition, warning.record_offset, warning.reason


def _assert_accounted(tables: PlanTables) -> None:
    counts, pending = tables.counts, by_log_partition(tables.pending)
    for p, rows in counts.rows.items():
        outcomes = (counts.applied, counts.superseded, counts.ignored, counts.quarantined)
        assert sum(counter.get(p, 0) for counter in outcomes) + pending.get(p, 0) == rows


def _assert_state(tables: PlanTables, expected: Replays) -> None:
    assert {place: _values(row) for place, row in tables.offsets.items()} == {
        (p, key): _values(asdict(offset))
        for p, replay in expected.items()
        for key, offset in replay.loader.offsets.items()
    }
    waiting = {
        (p, producer_id, key): (
            _values(asdict(commit)),
            replay.clients[commit.record_offset] or (None, None),
        )
        for p, replay in expected.items()
        for producer_id, commits in replay.loader.pending.items()
        for key, commit in commits.items()
    }
    assert waiting == {
        (
            *(row["log_partition"], row["producer_id"]),
            OffsetKey(*(row[name] for name in OffsetKey._fields)),
        ): (_values(row), (row["client_id"], row["client_host"]))
        for row in tables.pending.to_pylist()
    }
    groups = {place: described(state) for place, state in tables.groups.items()}
    assert groups == {
        (p, group_id): group
        for p, replay in expected.items()
        for group_id, group in replay.loader.groups.items()
    }
    assert set(tables.members) == {
        (*place, member.member_id) for place, group in groups.items() for member in group.members
    }


def _values(row: Row) -> Row:
    return {name: row[name] for name in OFFSET_VALUES}


def _assert_outcomes(tables: PlanTables, expected: Replays) -> None:
    assert {
        place: (row["outcome"], row["outcome_record_offset"], row["outcome_timestamp_ms"])
        for place, row in tables.history.items()
    } == {
        (p, record_offset): (outcome.value, decided_by, BASE_TIMESTAMP_MS + decided_by)
        for p, replay in expected.items()
        for record_offset, (outcome, decided_by) in replay.outcomes.items()
    }


def _assert_events(tables: PlanTables, expected: Replays, *, is_sampled: bool) -> None:
    for p, replay in expected.items():
        rows = [
            row
            for row in tables.events
            if row["log_partition"] == p and row["event"] != EventName.TRANSACTION_HUNG.value
        ]
        assert _comparable(rows, is_sampled=is_sampled) == _comparable(
            map(_columns, replay.events), is_sampled=is_sampled
        )
    assert len(set(map(_place, tables.events))) == len(tables.events)


def _comparable(rows: Iterable[Row], *, is_sampled: bool) -> list[str]:
    compared = ({name: row[name] for name in GroupEvent._fields} for row in rows)
    return sorted(
        json.dumps(event, sort_keys=True)
        for event in compared
        if not (is_sampled and _is_reset_forward(event))
    )


def _columns(event: GroupEvent) -> Row:
    return {
        name: [asdict(partition) for partition in value] if isinstance(value, tuple) else value
        for name, value in event._asdict().items()
    }


def _is_reset_forward(event: Row) -> bool:
    """What the commits that follow in its micro-batch may hide, as docs/events.md says."""
    if event["event"] != EventName.OFFSET_RESET.value:
        return False
    before, after = event["offset_before"], event["offset_after"]
    return before is None or after >= before


def _place(event: Row) -> tuple[int, int, int]:
    return event["log_partition"], event["record_offset"], event["event_number"]
