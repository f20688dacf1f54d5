"""Some faults of the store and the clocks; `python -m tests.faults` does as many as you like."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.__main__ import endure

pytestmark = [pytest.mark.long, pytest.mark.release, pytest.mark.timeout(1_800)]


@pytest.mark.parametrize(
    ("engine", "seed"), [("driver", 11), pytest.param("spark", 2, marks=pytest.mark.release)]
)
def test_a_run_endures_its_store_and_its_clocks(tmp_path: Path, engine: str, seed: int) -> None:
    endured = endure(tmp_path, 2, seed, engine)
    assert endured.differences == []
    assert endured.comparisons == 1
    assert endured.rows["offset_commits"] > 100
    assert sum(endured.store.values()) > 0
