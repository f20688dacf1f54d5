"""How far the load is, and that nothing is passed over."""

from __future__ import annotations

import pytest

from coordinator_state.replay.offsets import Semantics
from streaming.errors import ConfigurationError
from streaming.tables.load_progress import LoadProgress
from streaming.tables.topic_progress import Progress


def _progress(next_offset: int) -> LoadProgress:
    progress = LoadProgress.nothing(cluster_id="c", topic_id="t", semantics=Semantics.COORDINATOR)
    progress.rows[7] = Progress(next_offset=next_offset)
    return progress


@pytest.mark.parametrize("from_offset", [0, 9, 10])
def test_what_was_applied_may_come_again(from_offset: int) -> None:
    _progress(10).require_no_gap([{"log_partition": 7, "from_offset": from_offset}])


def test_a_log_may_begin_anywhere() -> None:
    _progress(10).require_no_gap([{"log_partition": 8, "from_offset": 1_000}])


def test_records_that_nobody_read_are_not_passed_over() -> None:
    with pytest.raises(
        ConfigurationError, match=r"log partition 7: .* continue at record offset 10,"
    ):
        _progress(10).require_no_gap([{"log_partition": 7, "from_offset": 11}])
