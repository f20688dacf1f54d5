"""Plans of buckets of log partitions, and staged rows that cannot be read by mistake."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from coordinator_state.apply.state import ApplyContext
from coordinator_state.log.log_rows import pack
from coordinator_state.model.log import Written
from coordinator_state.model.micro_batches import micro_batch
from coordinator_state.replay.offsets import Semantics
from coordinator_state.replay.releases import NEWEST_RELEASE
from streaming.engine.spark.planned_rows import COUNTS, PLANNED_SCHEMA, STATE_COLUMNS, of_struct
from streaming.engine.spark.planning import BucketPlan, key_by_log_partition
from streaming.engine.spark.staging import StagedRows
from streaming.engine.written_tables import MERGED, WRITTEN_TABLES
from tests.support.logs.logs import segment
from tests.support.logs.random_logs import RandomEvents

_LOG_PARTITIONS = 6
_NOTHING_STORED = pa.schema(
    [
        ("log_partition", pa.int32()),
        *(
            (table.name, pa.struct([table.schema.field(name) for name in names]))
            for table, names in STATE_COLUMNS.items()
        ),
    ]
).empty_table()

Rows = list[dict[str, Any]]


@cache
def keyed_halves(seed: int) -> tuple[pa.Table, pa.Table]:
    """The rows of two micro-batches (`KEYED_SCHEMA`); both have records of every log partition."""
    choose = random.Random(seed)
    logs = {}
    for log_partition in range(_LOG_PARTITIONS):
        events = RandomEvents(group_ids=[f"{log_partition}-{name}" for name in "abc"])
        drawn = [event for _ in range(20) for event in events.draw(choose.getrandbits(32))]
        logs[log_partition] = segment(drawn)
    first = [Written(p, log, 0, end // 2, end) for p, (log, end) in logs.items()]
    second = [Written(p, log, end // 2, end, end) for p, (log, end) in logs.items()]
    return keyed_rows(first), keyed_rows(second)


def keyed_rows(written: Sequence[Written]) -> pa.Table:
    rows = micro_batch(written).combine_chunks()
    packed = [pack(batch) for batch in rows.to_batches()]
    return pa.Table.from_batches(list(key_by_log_partition(iter(packed))))


def plan_of(semantics: Semantics, **offsets: Mapping[int, int]) -> BucketPlan:
    context = ApplyContext(
        semantics=semantics,
        release=NEWEST_RELEASE,
        with_history=True,
        offsets_retention_ms=1_000,
    )
    return BucketPlan(context=context, **offsets)


def planned(plan: BucketPlan, buckets: Sequence[tuple[pa.Table, pa.Table]]) -> dict[str, Rows]:
    """The planned rows of each table, and the counts, in any order."""
    planned_rows = pa.concat_tables(plan.planned(keyed, stored) for keyed, stored in buckets)
    names = [COUNTS, *(table.name for table in WRITTEN_TABLES)]
    return {name: sorted(of_struct(planned_rows, name).to_pylist(), key=repr) for name in names}


def stored_after(planned_rows: pa.Table) -> pa.Table:
    """The stored state after the first micro-batch, whose rows are all new."""
    rows = []
    for table, names in STATE_COLUMNS.items():
        table_rows = of_struct(planned_rows, table.name)
        deletes = table in MERGED and MERGED[table].deletes
        if deletes:
            table_rows = table_rows.filter(pc.invert(pc.fill_null(table_rows[deletes], False)))
        rows += [
            {"log_partition": row["log_partition"], table.name: {name: row[name] for name in names}}
            for row in table_rows.to_pylist()
        ]
    return pa.Table.from_pylist(rows, _NOTHING_STORED.schema)


def of_log_partition(rows: pa.Table, log_partition: int) -> pa.Table:
    return rows.filter(pc.equal(rows["log_partition"], log_partition))


@pytest.mark.parametrize("semantics", list(Semantics))
@pytest.mark.parametrize("seed", range(3))
def test_log_partitions_are_planned_together_as_each_alone(semantics: Semantics, seed: int) -> None:
    first, second = keyed_halves(seed)
    assert first.num_rows == second.num_rows == _LOG_PARTITIONS
    # Some rows of one log partition are applied already; another one has been reloaded.
    plan = plan_of(semantics, applied_below={1: 5}, replaced={2: 7})
    stored = stored_after(plan.planned(first, _NOTHING_STORED))
    of_stored = [of_struct(stored, table.name).num_rows for table in STATE_COLUMNS]
    assert min(of_stored) > 0
    for keyed, before in ((first, _NOTHING_STORED), (second, stored)):
        together = planned(plan, [(keyed, before)])
        alone = planned(
            plan,
            [
                (of_log_partition(keyed, number), of_log_partition(before, number))
                for number in range(_LOG_PARTITIONS)
            ],
        )
        unnamed = [
            {topic_id for row in rows[COUNTS] for topic_id in row.pop("unnamed_topic_ids")}
            for rows in (together, alone)
        ]
        assert unnamed[0] == unnamed[1]
        assert together == alone
        assert all(together[name] for name in ("group_offsets", "groups", "offset_commits"))


def test_without_rows_nothing_is_planned() -> None:
    keyed = keyed_halves(0)[0].slice(0, 0)
    plan = plan_of(Semantics.COORDINATOR, applied_below={}, replaced={})
    assert plan.planned(keyed, _NOTHING_STORED).equals(PLANNED_SCHEMA.empty_table())


def test_partitioned_rows_are_not_read_without_a_value() -> None:
    """They would look as if there were none."""
    staged = StagedRows(pa.schema([("counts", pa.int32())]), {"counts": ["file.parquet"]})
    no_session: Any = None
    with pytest.raises(ValueError, match="partitioned"):
        staged.read(no_session)
