"""The plan of a micro-batch against a replay record by record: any log, any cut.

The tables are dictionaries here, changed by the conditions of the MERGEs; `tests/spark` does the
same with the tables themselves.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator_state.insight.group_events import EventName, GroupEvent
from coordinator_state.replay.group_replay import described
from coordinator_state.replay.loader import ReferenceLoader
from coordinator_state.replay.offsets import Semantics
from coordinator_state.replay.releases import Release
from coordinator_state.wire.primitives import uuid_text
from tests.support.logs.log_rows import LOG_PARTITION, Row
from tests.support.logs.logs import Event, segment
from tests.support.logs.random_logs import TOPICS, logs
from tests.support.logs.record_by_record import RecordByRecord
from tests.support.tables.plan_tables import (
    OFFSET_VALUES,
    RETENTION_MS,
    PlanTables,
)

NAMES = {uuid_text(topic_id): name for topic_id, name in TOPICS}


@pytest.mark.parametrize("semantics", list(Semantics))
@settings(max_examples=200)
@given(
    events=logs(),
    cuts=st.sets(st.integers(0, 60), max_size=5),
    release=st.sampled_from(Release),
    topic_names=st.sampled_from([{}, NAMES]),
    is_sampled=st.booleans(),
    with_history=st.sampled_from([True, True, True, False]),
    crashed_and_redelivered=st.lists(st.booleans(), min_size=12, max_size=12),
)
def test_any_cut_gives_what_a_replay_record_by_record_gives(
    semantics: Semantics,
    events: list[Event],
    cuts: set[int],
    release: Release,
    topic_names: dict[str, str],
    is_sampled: bool,
    with_history: bool,
    crashed_and_redelivered: list[bool],
) -> None:
    buffer, end = segment(events)
    tables = PlanTables(semantics, release, with_history=with_history, topic_names=topic_names)
    for cut in [*sorted(cut for cut in cuts if cut < end), end]:
        tables.load(
            buffer,
            cut,
            compact=is_sampled,
            is_crashed=crashed_and_redelivered.pop(),
            is_redelivered=crashed_and_redelivered.pop(),
        )
        _assert_accounted(tables)

    expected = RecordByRecord.of(buffer, semantics, release, topic_names, RETENTION_MS)
    _assert_state(tables, expected.loader)
    clients = {
        row["record_offset"]: (row["client_id"], row["client_host"])
        for row in tables.pending.to_pylist()
    }
    assert clients == {
        record_offset: client or (None, None)
        for record_offset, client in expected.clients_of_pending.items()
    }
    if not with_history:
        assert (tables.history, tables.events) == ({}, [])
    else:
        _assert_events(tables, expected.events, is_sampled=is_sampled)
        if not is_sampled:
            _assert_uncut(tables, buffer, end)


def _assert_accounted(tables: PlanTables) -> None:
    counts = tables.counts
    accounted = sum(
        counter.get(LOG_PARTITION, 0)
        for counter in (counts.applied, counts.superseded, counts.ignored, counts.quarantined)
    )
    assert accounted + tables.pending.num_rows == tables.read


def _assert_state(tables: PlanTables, loader: ReferenceLoader) -> None:
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


def _pending_id(row: Row) -> tuple[Any, ...]:
    return row["producer_id"], row["group_id"], row["topic"], row["partition"]


def _values(row: Row) -> Row:
    return {name: row[name] for name in OFFSET_VALUES}


def _assert_events(tables: PlanTables, expected: Iterable[GroupEvent], *, is_sampled: bool) -> None:
    rows = [row for row in tables.events if row["event"] != EventName.TRANSACTION_HUNG.value]
    assert _comparable(rows, is_sampled=is_sampled) == _comparable(
        map(_columns, expected), is_sampled=is_sampled
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
        name: [asdict(one) for one in value] if isinstance(value, tuple) else value
        for name, value in event._asdict().items()
    }


def _is_reset_forward(event: Row) -> bool:
    """What the commits that follow in its micro-batch may hide, as docs/events.md says."""
    if event["event"] != EventName.OFFSET_RESET.value:
        return False
    before, after = event["offset_before"], event["offset_after"]
    return before is None or after >= before


def _place(event: Row) -> tuple[int, int]:
    return event["record_offset"], event["event_number"]


def _assert_uncut(tables: PlanTables, buffer: bytes, end: int) -> None:
    """One micro-batch gives the same events and numbers, and history has each record once."""
    uncut = PlanTables(tables.semantics, tables.release, topic_names=tables.topic_names)
    rows = uncut.load(buffer, end)
    assert sorted(tables.events, key=_place) == sorted(uncut.events, key=_place)
    offset_rows = Counter(
        row["record_offset"] for row in rows.to_pylist() if row["row_kind"] == "offset"
    )
    assert tables.history == uncut.history
    in_tables = Counter(tables.history.keys())
    in_tables.update(tables.pending["record_offset"].to_pylist())
    assert in_tables == offset_rows
