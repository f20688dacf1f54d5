"""The plan of a micro-batch against the reference loader: any log, any cut, with redelivery.

The tables are dictionaries here, changed by the conditions of the MERGEs; `tests/spark` does the
same with the tables themselves.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator_state.group_replay import GroupState, described
from coordinator_state.loader import ReferenceLoader
from coordinator_state.log_decoder import decode_record_set
from coordinator_state.offsets import OffsetKey, Semantics
from coordinator_state.record_batch import read_record_batches
from coordinator_state.record_types import GROUP_METADATA_TYPE
from streaming.apply.exact_replay import PendingOffset, RecordCounts
from streaming.apply.group_rows import (
    GROUP_CHANGE_SCHEMA,
    group_rows,
    member_rows,
    read_groups,
)
from streaming.apply.groups import (
    RECORD_SCHEMA,
    GroupChange,
    plan_groups,
    plan_records,
    records_table,
)
from streaming.apply.offsets import plan_offsets
from streaming.tables.schemas import GROUP_MEMBERS
from tests.logs import Event, segment
from tests.random_logs import logs

LOG_PARTITION = 7
GroupId = tuple[int, str]


@dataclass
class _Tables:
    """What the plan is applied to, with the rules of the MERGEs."""

    semantics: Semantics
    offsets: dict[OffsetKey, dict[str, Any]] = field(default_factory=dict)
    groups: dict[GroupId, GroupState] = field(default_factory=dict)
    records: dict[tuple[Any, ...], dict[str, Any]] = field(default_factory=dict)
    pending: list[PendingOffset] = field(default_factory=list)
    history: dict[int, dict[str, Any]] = field(default_factory=dict)
    counts: RecordCounts = field(default_factory=RecordCounts)
    read: int = 0
    next_offset: int = 0

    def apply(self, rows: pa.Table, end: int, superseded: int, *, crash_after: str = "") -> None:
        """One micro-batch; `crash_after` names the last write that still happens."""
        keep = [offset >= self.next_offset for offset in rows["record_offset"].to_pylist()]
        rows = rows.filter(pa.array(keep, pa.bool_()))
        counts = RecordCounts()
        plan = plan_offsets(rows, self.pending, self.semantics, counts)
        changed = [
            (row["log_partition"], row["group_id"], row["topic"], row["partition"])
            for row in plan.changes.to_pylist()
        ]
        assert len(set(changed)) == len(changed), "a MERGE takes one source row per key"
        for change in plan.changes.to_pylist():
            self._merge_offset(change)
        records = plan_records(rows, counts)
        changes = plan_groups(
            rows,
            records,
            self._read_back(),
            self.semantics,
            plan,
            _Merged(self.offsets, [*self.records.values(), *records_table(records).to_pylist()]),
            always=True,
        )
        if crash_after == "group_offsets":
            return
        for row in plan.history.to_pylist():
            previous = self.history.setdefault(row["record_offset"], row)
            assert previous == row, "two outcomes of one record"
        groups = dict(self.groups)
        for identity, change in changes.items():
            stored = groups.get(identity)
            if stored is not None and change.position < stored.record_offset:
                continue
            if change.group is None:
                groups.pop(identity, None)
            else:
                groups[identity] = change.group
        if crash_after == "groups":
            # The next attempt plans from the pinned version, not from what was written.
            return
        self.groups = groups
        for row in records_table(records).to_pylist():
            self.records[row["group_id"], row["record_type"], row["record_key"]] = row
        self.pending = plan.pending
        counts.quarantined.update(
            p
            for p, kind in zip(
                rows["log_partition"].to_pylist(), rows["row_kind"].to_pylist(), strict=True
            )
            if kind == "undecodable"
        )
        for mine, new in (
            (self.counts.applied, counts.applied),
            (self.counts.superseded, counts.superseded),
            (self.counts.ignored, counts.ignored),
            (self.counts.quarantined, counts.quarantined),
        ):
            mine.update(new)
        self.counts.superseded[LOG_PARTITION] += superseded
        self.read += rows.num_rows + superseded
        self.next_offset = max(self.next_offset, end)

    def _read_back(self) -> dict[GroupId, GroupState]:
        """What a restarted query knows of the groups."""
        groups = {identity: described(state) for identity, state in self.groups.items()}
        changes = {i: GroupChange(group=state, position=0) for i, state in self.groups.items()}
        found = {
            "group_members": pa.Table.from_pylist(member_rows(groups), GROUP_MEMBERS.schema),
            "coordinator_records": pa.Table.from_pylist([*self.records.values()], RECORD_SCHEMA),
        }
        return read_groups(
            pa.Table.from_pylist(group_rows(changes, groups), GROUP_CHANGE_SCHEMA),
            lambda name, columns: found[name].select(columns),
        )

    def _merge_offset(self, change: dict[str, Any]) -> None:
        key = OffsetKey(change["group_id"], change["topic"], change["partition"])
        stored = self.offsets.get(key)
        if stored is not None and change["position"] < stored["record_offset"]:
            return
        if change["is_tombstone"]:
            self.offsets.pop(key, None)
        else:
            self.offsets[key] = change


@dataclass
class _Merged:
    """The tables about groups with a micro-batch's offsets and records merged."""

    offsets: dict[OffsetKey, dict[str, Any]]
    records: list[dict[str, Any]]

    def with_offsets(self, groups: set[GroupId]) -> set[GroupId]:
        return {group for group in groups if any(key.group_id == group[1] for key in self.offsets)}

    def tombstones(self, groups: set[GroupId]) -> dict[GroupId, int]:
        last = {
            row["group_id"]: row
            for row in self.records
            if row["record_type"] == GROUP_METADATA_TYPE
        }
        return {
            (p, g): last[g]["record_offset"]
            for p, g in groups
            if g in last and last[g]["is_tombstone"]
        }


def _loaded(buffer: bytes, semantics: Semantics) -> ReferenceLoader:
    loader = ReferenceLoader(semantics)
    loader.load(read_record_batches(buffer))
    return loader


def _assert_equal(tables: _Tables, loader: ReferenceLoader) -> None:
    assert set(tables.offsets) == set(loader.offsets)
    for key, expected in loader.offsets.items():
        row = tables.offsets[key]
        for name in (
            "committed_offset",
            "leader_epoch",
            "metadata",
            "commit_timestamp_ms",
            "expire_timestamp_ms",
            "topic_id",
            "record_offset",
            "producer_id",
        ):
            assert row[name] == getattr(expected, name), (key, name)
    waiting = {(entry.record.producer_id, entry.key): entry.record for entry in tables.pending}
    assert waiting == {
        (producer_id, key): record
        for producer_id, records in loader.pending.items()
        for key, record in records.items()
    }
    groups = {group_id: described(state) for (_, group_id), state in tables.groups.items()}
    assert groups == loader.groups


@pytest.mark.parametrize("semantics", list(Semantics))
@settings(max_examples=400)
@given(data=st.data())
def test_any_cut_gives_the_loaders_state(semantics: Semantics, data: st.DataObject) -> None:
    events: list[Event] = data.draw(logs())
    buffer, end = segment(events)
    cuts = sorted(data.draw(st.sets(st.integers(0, end), max_size=6)) | {end})
    tables = _Tables(semantics)
    start = 0
    for cut in cuts:
        compact = data.draw(st.booleans())
        decoded = decode_record_set(
            buffer, log_partition=LOG_PARTITION, from_offset=start, to_offset=cut, compact=compact
        )
        rows = pa.Table.from_batches([decoded.rows])
        crash = data.draw(st.sampled_from(["", "", "group_offsets", "groups"]))
        if crash:
            tables.apply(rows, cut, decoded.records_superseded, crash_after=crash)
        tables.apply(rows, cut, decoded.records_superseded)
        if data.draw(st.booleans()):
            tables.apply(rows, cut, 0)
        start = cut
        _assert_accounted(tables)
    _assert_equal(tables, _loaded(buffer, semantics))


def _assert_accounted(tables: _Tables) -> None:
    counts = tables.counts
    accounted = sum(
        counter[LOG_PARTITION]
        for counter in (counts.applied, counts.superseded, counts.ignored, counts.quarantined)
    )
    assert accounted + len(tables.pending) == tables.read


@pytest.mark.parametrize("semantics", list(Semantics))
@settings(max_examples=200)
@given(events=logs())
def test_history_has_every_offset_record_once(semantics: Semantics, events: list[Event]) -> None:
    buffer, end = segment(events)
    decoded = decode_record_set(buffer, log_partition=LOG_PARTITION, from_offset=0, to_offset=end)
    rows = pa.Table.from_batches([decoded.rows])
    tables = _Tables(semantics)
    tables.apply(rows, end, 0)
    offset_rows = Counter(
        row["record_offset"] for row in rows.to_pylist() if row["row_kind"] == "offset"
    )
    told = Counter(tables.history.keys())
    told.update(entry.record.record_offset for entry in tables.pending)
    assert told == offset_rows
