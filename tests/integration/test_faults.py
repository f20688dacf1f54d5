"""Some faults of the store and the clocks; `python -m tests.faults` does as many as you like."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.__main__ import MixedFaults
from tests.faults.at_writes import FAULTS, AtWrites
from tests.faults.trial import endure
from tests.kills.__main__ import SHORT_LIVED

pytestmark = [pytest.mark.long, pytest.mark.release, pytest.mark.timeout(1_800)]


@pytest.mark.parametrize(("engine", "seed"), [("driver", 11), ("spark", 2)])
def test_a_run_endures_its_store_and_its_clocks(tmp_path: Path, engine: str, seed: int) -> None:
    endured = endure(tmp_path, 2, seed, engine, MixedFaults)
    assert endured.differences == []
    assert endured.comparisons == 1
    assert endured.rows["offset_commits"] > 100
    assert sum(endured.store.values()) > 0


def test_a_run_on_spark_endures_faults_at_its_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in SHORT_LIVED.items():
        monkeypatch.setenv(name, value)
    endured = endure(tmp_path, len(FAULTS), 4, "spark", AtWrites)
    assert endured.differences == []
    assert endured.rounds == len(FAULTS)
    assert endured.comparisons == 1
    assert endured.rows["offset_commits"] > 100
