"""Some groups are evaluated as among all groups."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from streaming.lag.evaluation import Evaluation
from streaming.tables.reader import TableReader
from tests.support.tables.demo_incidents import END, create_demo_tables
from tests.support.tables.status_tables import NOW, create_status_tables
from tests.support.tables.topic_tables import create_topic_tables


def _topic_tables(folder: Path) -> str:
    return create_topic_tables(folder, NOW)


@pytest.mark.parametrize("create", [create_status_tables, _topic_tables, create_demo_tables])
def test_a_set_of_groups_has_the_rows_that_it_has_among_all(
    create: Callable[[Path], str], tmp_path: Path
) -> None:
    """Readers evaluate one group, or those that are new, beside the rows that `run` keeps."""
    reader = TableReader(create(tmp_path))
    moments: list[datetime] = [NOW, NOW - timedelta(seconds=40), NOW + timedelta(minutes=1)]
    if create is create_demo_tables:
        moments = [END]
    for moment in moments:
        every = Evaluation.of(reader, at=moment)
        ids = every.statuses["group_id"].to_pylist()
        assert len(ids) > 2
        parts = [Evaluation.of(reader, at=moment, group_ids=ids[number::3]) for number in range(3)]
        for rows, of_parts, key in (
            (every.group_lag(), [part.group_lag() for part in parts], ("group_id", "topic")),
            (every.statuses, [part.statuses for part in parts], ("group_id",)),
        ):
            order = [(name, "ascending") for name in (*key, "partition")]
            assert pa.concat_tables(of_parts).sort_by(order) == rows.sort_by(order)
