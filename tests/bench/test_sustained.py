"""How far behind a query is."""

from __future__ import annotations

from bench.sustained import micro_batches_behind


def test_a_query_is_as_many_micro_batches_behind_as_what_is_there_took_to_come() -> None:
    acknowledged = [(1.0, 10), (2.0, 20), (3.0, 30)]
    # What had been acknowledged when the micro-batch before ended is there.
    assert micro_batches_behind(acknowledged, [(1.5, 0), (2.5, 10), (3.5, 20)]) == [1, 1]
    # What was there at the end itself.
    assert micro_batches_behind(acknowledged, [(0.5, 0), (4.0, 30)]) == [0, 0]
    assert micro_batches_behind(acknowledged, [(1.5, 0), (2.5, 10), (3.0, 10), (3.5, 10)]) == [
        *(1, 2, 3)
    ]
