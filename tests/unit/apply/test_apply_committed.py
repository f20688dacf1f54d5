"""The committed offsets that stay in memory from one micro-batch to the next."""

from __future__ import annotations

import random

import pyarrow as pa

from coordinator_state.apply.committed import COMMITTED_SCHEMA, committed_after
from coordinator_state.apply.rows import OFFSET_CHANGE_SCHEMA
from tests.support.logs.log_rows import LOG_PARTITION


def _change(partition: int, record_offset: int, *, is_tombstone: bool) -> dict[str, object]:
    return {
        **{"log_partition": LOG_PARTITION, "group_id": "g", "topic": "t", "partition": partition},
        **{"record_offset": record_offset, "guard_offset": record_offset},
        **{"committed_offset": record_offset, "is_tombstone": is_tombstone},
    }


def test_many_micro_batches_leave_few_chunks() -> None:
    choose = random.Random(1)
    committed, expected = COMMITTED_SCHEMA.empty_table(), dict[int, int]()
    for record_offset in range(0, 1_000, 5):
        changes = [
            _change(partition, record_offset + number, is_tombstone=choose.random() < 0.2)
            for number, partition in enumerate(choose.sample(range(50), 5))
        ]
        rows = pa.Table.from_pylist(changes, schema=OFFSET_CHANGE_SCHEMA)
        committed = committed_after(committed, rows)
        for change in changes:
            partition = int(str(change["partition"]))
            expected.pop(partition, None)
            if not change["is_tombstone"]:
                expected[partition] = int(str(change["record_offset"]))
        assert committed["record_offset"].num_chunks < 40
    found = zip(
        committed["partition"].to_pylist(), committed["record_offset"].to_pylist(), strict=True
    )
    assert dict(found) == expected
    assert committed.num_rows == len(expected)


def test_a_micro_batch_without_offsets_costs_nothing() -> None:
    committed = COMMITTED_SCHEMA.empty_table()
    assert committed_after(committed, OFFSET_CHANGE_SCHEMA.empty_table()) is committed
