"""A slice of the damaged records of `tests/mutations/__main__.py`."""

from __future__ import annotations

import pytest

from tests.mutations.__main__ import Mutations, run, try_record_set


def test_damaged_records_are_rows_and_the_same_ones_for_both_decoders() -> None:
    outcome = run(seed=1, records=10_000)

    assert outcome.rows.total() == 10_000
    assert {"offset", "record", "undecodable"} <= outcome.rows.keys()


def test_the_same_seed_damages_alike_and_a_lost_record_is_seen() -> None:
    raw = Mutations(3).record_set(1_200)
    assert raw == Mutations(3).record_set(1_200)
    with pytest.raises(AssertionError, match="1200 rows of 1201 records"):
        try_record_set(raw, 1_201)
