"""Log partitions are independent: a micro-batch of several gives the changes of each alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import chain
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator_state.apply.counts import RecordCounts
from coordinator_state.apply.log_partitions import Applied, apply_log_partitions
from coordinator_state.apply.state import ApplyContext, ApplyState
from coordinator_state.log.log_decoder import decode_record_set
from coordinator_state.replay.offsets import Semantics
from coordinator_state.replay.releases import Release
from tests.support.logs.logs import segment
from tests.support.logs.random_logs import logs
from tests.support.tables.plan_tables import RETENTION_MS, PlanTables

_TABLES = [field.name for field in fields(Applied) if field.type == "pa.Table"]


@dataclass(frozen=True)
class _Batch:
    """Rows of one log partition, and the state before them."""

    rows: pa.Table
    state: ApplyState


@st.composite
def _batches(draw: st.DrawFn, semantics: Semantics, release: Release) -> list[_Batch]:
    batches = []
    for log_partition in range(draw(st.integers(2, 3))):
        buffer, end = segment(draw(logs(group_prefix=f"{log_partition}-", max_size=20)))
        cut = draw(st.integers(0, end))
        before, after = (
            decode_record_set(
                buffer, log_partition=log_partition, from_offset=start, to_offset=stop
            ).rows
            for start, stop in ((0, cut), (cut, end))
        )
        tables = PlanTables(semantics, release)
        tables.apply(pa.Table.from_batches([before]), cut)
        batches.append(_Batch(pa.Table.from_batches([after]), tables.state()))
    return batches


def _together(states: Sequence[ApplyState]) -> ApplyState:
    return ApplyState(
        committed=pa.concat_tables([state.committed for state in states]),
        pending=pa.concat_tables([state.pending for state in states]),
        groups=dict(chain.from_iterable(state.groups.items() for state in states)),
        tombstones=dict(chain.from_iterable(state.tombstones.items() for state in states)),
    )


def _rows(tables: Sequence[pa.Table]) -> list[dict[str, Any]]:
    return sorted(pa.concat_tables(tables).to_pylist(), key=repr)


@pytest.mark.parametrize("semantics", list(Semantics))
@settings(max_examples=100)
@given(data=st.data(), with_history=st.booleans())
def test_a_set_of_log_partitions_gives_what_each_gives_alone(
    semantics: Semantics, with_history: bool, data: st.DataObject
) -> None:
    release = data.draw(st.sampled_from(Release))
    batches = data.draw(_batches(semantics, release))
    order = data.draw(st.permutations(range(len(batches))))
    context = ApplyContext(
        semantics=semantics,
        release=release,
        with_history=with_history,
        offsets_retention_ms=RETENTION_MS,
    )
    alone = [apply_log_partitions(batch.rows, batch.state, context) for batch in batches]
    together = apply_log_partitions(
        pa.concat_tables([batches[number].rows for number in order]),
        _together([batch.state for batch in batches]),
        context,
    )
    for name in _TABLES:
        assert _rows([getattr(together, name)]) == _rows([getattr(a, name) for a in alone]), name
    changes = [applied.group_changes.changes for applied in alone]
    assert together.group_changes.changes == dict(chain.from_iterable(c.items() for c in changes))
    assert sorted(together.warnings, key=repr) == sorted(
        chain.from_iterable(applied.warnings for applied in alone), key=repr
    )
    assert together.counts == RecordCounts.total([applied.counts for applied in alone])
    newest = (applied.newest_timestamps.items() for applied in alone)
    assert together.newest_timestamps == dict(chain.from_iterable(newest))
