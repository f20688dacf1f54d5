"""Records that were applied before are left out."""

from __future__ import annotations

import pyarrow as pa

from streaming.engine.reloading import is_below
from tests.support.logs.log_rows import places


def test_each_row_has_the_bound_of_its_own_log_partition() -> None:
    rows = places((0, 5), (7, 5), (3, 0), (0, 4), (7, 2**40), (49, 0))
    rows = pa.concat_tables([rows, rows.slice(1)])
    expected = [False, True, False, True, False, False]
    bounds = {0: 5, 7: 6, 49: 0, 1: 100}
    assert is_below(rows, "record_offset", bounds).to_pylist() == expected + expected[1:]
    assert not any(is_below(rows, "record_offset", {}).to_pylist())
    assert is_below(rows.slice(0, 0), "record_offset", bounds).to_pylist() == []
