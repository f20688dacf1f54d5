"""Short faults of a cluster; `python -m tests.cluster_faults` has longer ones."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from tests.cluster_faults.__main__ import endure

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(1_200),
    # kafka-python leaves the socket of a refused connection to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

UNCLEAN_ELECTION = "unclean-election"
FAULTS = ("broker-stalled", "coordinator-moved", UNCLEAN_ELECTION)


def test_a_run_goes_on_by_itself(tmp_path: Path) -> None:
    """Only a log that lost records makes it restart its query."""
    for endured in endure(tmp_path, FAULTS, seed=1, pause=0.1):
        assert endured.differences == [], endured.fault
        assert endured.records > 0, endured.fault
        if endured.fault != UNCLEAN_ELECTION:
            assert endured.restarts == 0, endured.fault
    # Now, and not in a later test.
    gc.collect()
