"""Damaged records in sound record batches: both decoders make the same rows of them, and only rows.

With COORDINATOR_STATE_HYPOTHESIS=exhaustive, half a million records.
"""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from coordinator_state.log import kernel, log_decoder
from coordinator_state.log.log_decoder import OffsetRange
from tests.support.logs.mutations import Mutations

RECORDS = 100


def test_damaged_records_are_rows_and_the_same_ones_for_both_decoders() -> None:
    kinds: Counter[str] = Counter()

    @given(seed=st.integers(0, 1 << 32))
    def decode_both_ways(seed: int) -> None:
        mutations = Mutations(seed)
        raw = mutations.batch(0, RECORDS // 2) + mutations.batch(RECORDS // 2, RECORDS // 2)
        readable, compiled = (
            decoder.decode_record_set(
                raw, OffsetRange(log_partition=0, from_offset=0, to_offset=RECORDS)
            )
            for decoder in (log_decoder, kernel)
        )
        assert readable.rows.equals(compiled.rows)
        assert readable.rows.num_rows == RECORDS
        kinds.update(readable.rows.column("row_kind").to_pylist())

    decode_both_ways()
    assert {"offset", "record", "undecodable"} <= kinds.keys()
