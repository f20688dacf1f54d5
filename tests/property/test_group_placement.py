"""The log partitions of many groups at once are those of each group."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from coordinator_state.apply.group_placement import partitions_for
from coordinator_state.replay.partitioner import partition_for

# The hash of the first one is Integer.MIN_VALUE.
_IDS = st.lists(st.text() | st.sampled_from(["polygenelubricants", "", "group-\u00e9"]))


@given(chunks=st.lists(_IDS), log_partitions=st.integers(1, 100))
def test_many_groups_live_where_each_of_them_lives(
    chunks: list[list[str]], log_partitions: int
) -> None:
    column = pa.chunked_array([["left out", *chunk] for chunk in chunks], pa.string())
    column = pa.chunked_array([chunk[1:] for chunk in column.chunks], pa.string())
    wanted = [partition_for(group_id, log_partitions) for chunk in chunks for group_id in chunk]
    assert partitions_for(column, log_partitions).tolist() == wanted
