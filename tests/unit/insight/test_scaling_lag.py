"""The lag for autoscalers: each record of the lag is in one part."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from coordinator_state.insight.group_status import Status
from coordinator_state.insight.scaling_lag import PartitionLag, scaling_lag

COUNTS = st.none() | st.integers(0, 1_000)
ROWS = st.lists(st.builds(PartitionLag, st.sampled_from(Status), COUNTS, COUNTS, COUNTS))


@given(ROWS)
def test_the_parts_add_up(rows: list[PartitionLag]) -> None:
    found = scaling_lag(rows)
    assert found.lag == found.scaling_lag + found.deleted + found.blocked
    assert found.lag == sum(row.lag or 0 for row in rows)
    assert min(found.scaling_lag, found.deleted, found.blocked) >= 0
    assert found.partitions_to_read <= found.partitions - found.partitions_unknown


def test_what_more_consumers_cannot_read_is_left_out() -> None:
    rows = [
        PartitionLag(Status.OK, 10, 0, 10),
        PartitionLag(Status.DATA_LOSS, 100, 60, 100),
        # Behind a transaction, and records were deleted: those are part of both lags.
        PartitionLag(Status.DATA_LOSS, 100, 30, 50),
        PartitionLag(Status.STALL, 500, 0, 500),
        PartitionLag(Status.HANGING_TRANSACTION, 70, 0, 20),
        PartitionLag(Status.PENDING, 7, 0, None),
        PartitionLag(Status.UNKNOWN, None, None, None),
    ]
    found = scaling_lag(rows)
    assert found.scaling_lag == 10 + 40 + 20
    assert (found.deleted, found.blocked) == (60 + 30, 50 + 500 + 70 + 7)
    assert (found.partitions_to_read, found.partitions_blocked) == (3, 4)
    assert (found.partitions, found.partitions_unknown) == (7, 1)
