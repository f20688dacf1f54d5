"""The plan of a micro-batch against the reference loader: any log, any cut, with redelivery.

The tables are dictionaries here, changed by the conditions of the MERGEs; `tests/spark` does the
same with the tables themselves.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator_state.log.log_decoder import decode_record_set
from coordinator_state.log.record_batch import read_record_batches
from coordinator_state.replay.group_replay import described
from coordinator_state.replay.loader import ReferenceLoader
from coordinator_state.replay.offsets import Semantics
from coordinator_state.replay.releases import Release
from tests.support.logs.logs import Event, segment
from tests.support.logs.random_logs import logs
from tests.support.tables.plan_tables import LOG_PARTITION, OFFSET_VALUES, PlanTables


def _loaded(buffer: bytes, semantics: Semantics, release: Release) -> ReferenceLoader:
    loader = ReferenceLoader(semantics, release=release)
    loader.load(read_record_batches(buffer))
    return loader


def _assert_equal(tables: PlanTables, loader: ReferenceLoader) -> None:
    assert set(tables.offsets) == set(loader.offsets)
    for key, expected in loader.offsets.items():
        row = tables.offsets[key]
        for name in OFFSET_VALUES:
            assert row[name] == getattr(expected, name), (key, name)
    assert {_pending_id(row): _values(row) for row in tables.pending.to_pylist()} == {
        (producer_id, *key): {name: getattr(record, name) for name in OFFSET_VALUES}
        for producer_id, records in loader.pending.items()
        for key, record in records.items()
    }
    groups = {group_id: described(state) for (_, group_id), state in tables.groups.items()}
    assert groups == loader.groups
    members = {(group_id, m.member_id) for group_id, g in groups.items() for m in g.members}
    assert {(group_id, member_id) for _, group_id, member_id in tables.members} == members


def _pending_id(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["producer_id"], row["group_id"], row["topic"], row["partition"]


def _values(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in OFFSET_VALUES}


@pytest.mark.parametrize("semantics", list(Semantics))
@settings(max_examples=400)
@given(data=st.data())
def test_any_cut_gives_the_loaders_state(semantics: Semantics, data: st.DataObject) -> None:
    events: list[Event] = data.draw(logs())
    buffer, end = segment(events)
    cuts = sorted(data.draw(st.sets(st.integers(0, end), max_size=6)) | {end})
    release = data.draw(st.sampled_from(Release))
    tables = PlanTables(semantics, release)
    start = 0
    for cut in cuts:
        compact = data.draw(st.booleans())
        decoded = decode_record_set(
            buffer, log_partition=LOG_PARTITION, from_offset=start, to_offset=cut, compact=compact
        )
        rows = pa.Table.from_batches([decoded.rows])
        if data.draw(st.booleans()):
            tables.apply(rows, cut, decoded.records_superseded, crash_after="group_offsets")
        tables.apply(rows, cut, decoded.records_superseded)
        if data.draw(st.booleans()):
            tables.apply(rows, cut, 0)
        start = cut
        _assert_accounted(tables)
    _assert_equal(tables, _loaded(buffer, semantics, release))


def _assert_accounted(tables: PlanTables) -> None:
    counts = tables.counts
    accounted = sum(
        counter.get(LOG_PARTITION, 0)
        for counter in (counts.applied, counts.superseded, counts.ignored, counts.quarantined)
    )
    assert accounted + tables.pending.num_rows == tables.read


@pytest.mark.parametrize("semantics", list(Semantics))
@settings(max_examples=200)
@given(events=logs())
def test_history_has_every_offset_record_once(semantics: Semantics, events: list[Event]) -> None:
    buffer, end = segment(events)
    decoded = decode_record_set(buffer, log_partition=LOG_PARTITION, from_offset=0, to_offset=end)
    rows = pa.Table.from_batches([decoded.rows])
    tables = PlanTables(semantics)
    tables.apply(rows, end, 0)
    offset_rows = Counter(
        row["record_offset"] for row in rows.to_pylist() if row["row_kind"] == "offset"
    )
    told = Counter(tables.history.keys())
    told.update(tables.pending["record_offset"].to_pylist())
    assert told == offset_rows
