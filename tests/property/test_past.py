"""Tables of a past moment against the reference loader: any logs, cut, base and moment."""

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
from coordinator_state.apply.past import HistoryAfter, PastTables, Timeline
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
from coordinator_state.log.record_batch import read_record_batches
from coordinator_state.replay.group_replay import described
from coordinator_state.replay.loader import ReferenceLoader
from coordinator_state.replay.offsets import Semantics
from coordinator_state.replay.releases import Release
from tests.support.logs.log_rows import SAMPLED
from tests.support.logs.logs import BASE_TIMESTAMP_MS, Event, segment
from tests.support.logs.random_logs import logs
from tests.support.tables.loader_tables import differences_of_state
from tests.support.tables.plan_tables import PlanTables

FIRST = datetime.fromtimestamp(BASE_TIMESTAMP_MS / 1000, timezone.utc)
LOG_PARTITIONS = (3, 7, 8)
Segments = dict[int, tuple[bytes, int]]
"""The records of each log partition, and its end."""


@pytest.mark.parametrize(
    "semantics", [Semantics.COORDINATOR, pytest.param(Semantics.SCALA, marks=pytest.mark.long)]
)
@settings(max_examples=45)
@given(
    data=st.data(),
    drawn=st.tuples(*[logs()] * len(LOG_PARTITIONS)),
    is_sampled=st.booleans(),
    release=st.sampled_from(Release),
)
def test_moments_in_any_order_equal_the_loader(
    semantics: Semantics,
    data: st.DataObject,
    drawn: tuple[list[Event], ...],
    is_sampled: bool,
    release: Release,
) -> None:
    """With sampled history the end of any micro-batch, otherwise any moment.

    Records of all log partitions with the same offset have the same time.
    """
    segments = dict(zip(LOG_PARTITIONS, map(segment, drawn), strict=True))
    tables = PlanTables(semantics, release)
    end = max(end for _, end in segments.values())
    cuts = sorted(data.draw(st.sets(st.integers(0, end), max_size=5)) | {end})
    base_number = data.draw(st.integers(0, len(cuts)))
    base = _base(tables)
    for number, cut in enumerate(cuts, start=1):
        ranges = {p: (buffer, min(cut, end_of_log)) for p, (buffer, end_of_log) in segments.items()}
        tables.load(ranges, sampling=SAMPLED if is_sampled else None)
        if number == base_number:
            base = _base(tables)

    start = max(base.next_offsets.values())
    ends = [cut for cut in cuts if cut >= start]
    offsets = st.sampled_from(ends) if is_sampled else st.integers(start, end)
    moments = data.draw(st.lists(offsets, min_size=1, max_size=3))
    history = HistoryAfter(
        commits=_rows([*tables.history.values()], HISTORY_SCHEMA, OffsetCommitRow),
        group_records=_rows(tables.group_records, GROUP_RECORD_ROW, GroupRecordRow),
        pending=columns_of(tables.pending, schema_of(PendingOffsetRow)),
    )
    timeline = Timeline(base, history, semantics, release, {})
    for next_offset in [*moments, moments[0]]:
        # The time of the last record before the record offset.
        past = timeline.at(FIRST + timedelta(milliseconds=next_offset - 1))
        _assert_equal(past, next_offset, segments, tables)
        for log_partition, last in history.ends(base.next_offsets).items():
            assert min(next_offset, last) <= past.next_offsets[log_partition] <= last


def _base(tables: PlanTables) -> PastTables:
    groups = {group: described(state) for group, state in tables.groups.items()}
    changes = {group: GroupChange(group=s, guard_offset=0) for group, s in tables.groups.items()}
    return PastTables(
        group_offsets=_rows([*tables.offsets.values()], OFFSET_CHANGE_SCHEMA, CommittedOffsetRow),
        pending_offsets=columns_of(tables.pending, schema_of(PendingOffsetRow)),
        groups=columns_of(group_rows(changes, groups), schema_of(GroupRow)),
        group_members=columns_of(member_rows(changes, groups, {}), schema_of(MemberRow)),
        coordinator_records=_rows(
            [*tables.records.values()], COORDINATOR_RECORD_ROW, CoordinatorRecordRow
        ),
        next_offsets={p: tables.next_offsets.get(p, 0) for p in LOG_PARTITIONS},
    )


def _rows(rows: list[dict[str, Any]], schema: pa.Schema, row: type) -> pa.Table:
    table = pa.Table.from_pylist(rows, schema=schema)
    return columns_of(table, nullable(schema_of(row))).cast(schema_of(row))


def _assert_equal(
    past: PastTables, next_offset: int, segments: Segments, tables: PlanTables
) -> None:
    loaders = {}
    for p, (buffer, _) in segments.items():
        loaders[p] = ReferenceLoader(tables.semantics, release=tables.release)
        batches = read_record_batches(buffer)
        loaders[p].load(batch for batch in batches if batch.base_offset < next_offset)
    rows = {
        name: getattr(past, name).to_pylist()
        for name in ("group_offsets", "pending_offsets", "groups", "group_members")
    }
    assert differences_of_state(rows, loaders) == []
