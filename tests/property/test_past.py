"""Tables of a past moment against the reference loader: any log, any cut, any base, any moment."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator_state.apply.columns import columns_of, nullable, schema_of
from coordinator_state.apply.group_rows import group_rows, member_rows
from coordinator_state.apply.groups import GroupChange
from coordinator_state.apply.past import Base, HistoryAfter, PastTables, cut_at, rebuilt
from coordinator_state.apply.rows import (
    COORDINATOR_RECORD_ROW,
    GROUP_RECORD_ROW,
    HISTORY_SCHEMA,
    OFFSET_CHANGE_SCHEMA,
    CommittedOffsetRow,
    CoordinatorRecordRow,
    GroupRecordRow,
    GroupRow,
    MemberRow,
    OffsetCommitRow,
    PendingOffsetRow,
)
from coordinator_state.apply.timeline import Timeline
from coordinator_state.log.log_decoder import decode_record_set
from coordinator_state.log.record_batch import read_record_batches
from coordinator_state.replay.group_replay import described
from coordinator_state.replay.loader import ReferenceLoader
from coordinator_state.replay.offsets import Semantics
from coordinator_state.replay.releases import Release
from tests.support.logs.logs import BASE_TIMESTAMP_MS, segment
from tests.support.logs.random_logs import logs
from tests.support.tables.loader_tables import differences_of_state
from tests.support.tables.plan_tables import LOG_PARTITION, PlanTables

FIRST = datetime.fromtimestamp(BASE_TIMESTAMP_MS / 1000, timezone.utc)


@pytest.mark.parametrize("semantics", list(Semantics))
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_any_moment_equals_the_loader(semantics: Semantics, data: st.DataObject) -> None:
    buffer, end = segment(data.draw(logs()))
    tables, bases, _ = _loaded(buffer, end, semantics, data, compact=False)
    base = data.draw(st.sampled_from(bases))
    next_offset = data.draw(st.integers(base.next_offsets[LOG_PARTITION], end))

    _assert_equal(_at(next_offset, base, tables), next_offset, buffer, tables)


@pytest.mark.parametrize("semantics", list(Semantics))
@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_moments_in_any_order_equal_the_loader(semantics: Semantics, data: st.DataObject) -> None:
    buffer, end = segment(data.draw(logs()))
    tables, bases, _ = _loaded(buffer, end, semantics, data, compact=False)
    base = data.draw(st.sampled_from(bases))
    history = _history(tables)
    timeline = Timeline(base, history, semantics, tables.release, {})
    offsets = st.integers(base.next_offsets[LOG_PARTITION], end)
    for next_offset in data.draw(st.lists(offsets, min_size=1, max_size=6)):
        found = timeline.at(_moment(next_offset))
        _assert_equal(found, next_offset, buffer, tables)
        cut = cut_at(base, history, _moment(next_offset))
        assert found.next_offsets == {**history.ends(base.next_offsets), **cut}


@pytest.mark.parametrize("semantics", list(Semantics))
@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_the_end_of_a_micro_batch_equals_the_loader_with_sampled_history(
    semantics: Semantics, data: st.DataObject
) -> None:
    buffer, end = segment(data.draw(logs()))
    tables, bases, cuts = _loaded(buffer, end, semantics, data, compact=True)
    base = data.draw(st.sampled_from(bases))
    later = [cut for cut in cuts if cut >= base.next_offsets[LOG_PARTITION]]
    next_offset = data.draw(st.sampled_from(later))

    _assert_equal(_at(next_offset, base, tables), next_offset, buffer, tables)


def _loaded(
    buffer: bytes, end: int, semantics: Semantics, data: st.DataObject, *, compact: bool
) -> tuple[PlanTables, list[Base], list[int]]:
    """The tables after all micro-batches, a base after each, and the end of each."""
    cuts = sorted(data.draw(st.sets(st.integers(0, end), max_size=6)) | {end})
    tables = PlanTables(semantics, data.draw(st.sampled_from(Release)))
    bases, start = [_base(tables)], 0
    for cut in cuts:
        decoded = decode_record_set(
            buffer, log_partition=LOG_PARTITION, from_offset=start, to_offset=cut, compact=compact
        )
        rows = pa.Table.from_batches([decoded.rows])
        tables.apply(rows, cut, decoded.records_superseded)
        bases.append(_base(tables))
        start = cut
    return tables, bases, cuts


def _at(next_offset: int, base: Base, tables: PlanTables) -> PastTables:
    """The tables at the moment of the last record before a record offset."""
    history = _history(tables)
    cut = cut_at(base, history, _moment(next_offset))
    assert all(offset >= next_offset for offset in cut.values())
    return rebuilt(base, history, cut, tables.semantics, tables.release, {})


def _moment(next_offset: int) -> datetime:
    """The time of the last record before a record offset."""
    return FIRST + timedelta(milliseconds=next_offset - 1)


def _history(tables: PlanTables) -> HistoryAfter:
    return HistoryAfter(
        commits=_rows([*tables.history.values()], HISTORY_SCHEMA, OffsetCommitRow),
        group_records=_rows(tables.group_records, GROUP_RECORD_ROW, GroupRecordRow),
        pending=columns_of(tables.pending, schema_of(PendingOffsetRow)),
    )


def _base(tables: PlanTables) -> Base:
    groups = {group: described(state) for group, state in tables.groups.items()}
    changes = {group: GroupChange(group=s, guard_offset=0) for group, s in tables.groups.items()}
    return Base(
        group_offsets=_rows([*tables.offsets.values()], OFFSET_CHANGE_SCHEMA, CommittedOffsetRow),
        pending_offsets=columns_of(tables.pending, schema_of(PendingOffsetRow)),
        groups=columns_of(group_rows(changes, groups), schema_of(GroupRow)),
        group_members=columns_of(member_rows(changes, groups, {}), schema_of(MemberRow)),
        coordinator_records=_rows(
            [*tables.records.values()], COORDINATOR_RECORD_ROW, CoordinatorRecordRow
        ),
        next_offsets={LOG_PARTITION: tables.next_offset},
    )


def _rows(rows: list[dict[str, Any]], schema: pa.Schema, row: type) -> pa.Table:
    found = pa.Table.from_pylist(rows, schema=schema)
    return columns_of(found, nullable(schema_of(row))).cast(schema_of(row))


def _assert_equal(found: PastTables, next_offset: int, buffer: bytes, expected: PlanTables) -> None:
    loader = ReferenceLoader(expected.semantics, release=expected.release)
    batches = read_record_batches(buffer)
    loader.load(batch for batch in batches if batch.base_offset < next_offset)
    rows = {
        name: getattr(found, name).to_pylist()
        for name in ("group_offsets", "pending_offsets", "groups", "group_members")
    }
    assert differences_of_state(rows, {LOG_PARTITION: loader}) == []
