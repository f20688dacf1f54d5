"""The evaluation of a set of log partitions, against that of all of them at once."""

from __future__ import annotations

import random
from collections.abc import Collection
from copy import deepcopy

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator_state.apply.columns import with_columns
from streaming.lag.evaluation import Evaluation
from streaming.tables.reader import TableReader
from streaming.tables.schemas import (
    COORDINATOR_RECORDS,
    GROUP_EVENTS,
    GROUP_LAG,
    GROUP_MEMBERS,
    GROUP_OFFSETS,
    GROUP_STATUS,
    GROUPS,
    OFFSET_COMMITS,
    PENDING_OFFSETS,
)
from tests.support.tables.demo_incidents import END, HEALTHY, INCIDENTS, create_demo_tables

SETS = 4
LOG_PARTITIONS = 50
OF_GROUPS = (
    *(GROUPS, GROUP_OFFSETS, PENDING_OFFSETS, GROUP_MEMBERS, COORDINATOR_RECORDS),
    *(OFFSET_COMMITS, GROUP_EVENTS),
)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> str:
    return create_demo_tables(tmp_path_factory.mktemp("demo") / "tables")


@pytest.fixture(scope="module")
def whole(tables: str) -> Evaluation:
    evaluation = Evaluation.of(TableReader(tables), at=END)
    groups = {*HEALTHY, *(incident.group for incident in INCIDENTS)} - {"trial"}
    assert set(evaluation.statuses["group_id"].to_pylist()) == groups
    assert len(set(evaluation.statuses["status"].to_pylist())) > 3
    return evaluation


@pytest.fixture(scope="module")
def orphaned(tables: str, whole: Evaluation) -> TableReader:
    """The same tables, where each row has an orphan in a log partition of before."""
    del whole  # It reads the tables without them.
    rows_by_table = {table: TableReader(tables).read(table.name) for table in OF_GROUPS}
    for table, rows in rows_by_table.items():
        assert rows.num_rows, table.name
        choose = random.Random(table.name)
        places = [
            (place + choose.randrange(1, LOG_PARTITIONS)) % LOG_PARTITIONS
            for place in rows["log_partition"].to_pylist()
        ]
        orphans = with_columns(rows, {"log_partition": pa.array(places, pa.int32())})
        write_deltalake(table.path(tables), orphans, mode="append")
    return TableReader(tables, consistent=False)


@settings(max_examples=5)
@given(numbers=st.lists(st.integers(0, SETS - 1), min_size=LOG_PARTITIONS, max_size=LOG_PARTITIONS))
def test_a_set_of_log_partitions_gives_the_rows_of_each_alone(
    orphaned: TableReader, whole: Evaluation, numbers: list[int]
) -> None:
    """Also of a copy of the reader, as other processes have it, and beside orphans."""
    reader = deepcopy(orphaned.pinned())
    sets = [[p for p, number in enumerate(numbers) if number == each] for each in range(SETS)]
    assert_same([evaluated(reader, log_partitions) for log_partitions in sets], whole)


def test_orphans_change_nothing(orphaned: TableReader, whole: Evaluation) -> None:
    assert_same([Evaluation.of(orphaned, at=END)], whole)


def evaluated(reader: TableReader, log_partitions: Collection[int]) -> Evaluation:
    return Evaluation.of(reader, at=END, log_partitions=log_partitions)


def assert_same(evaluations: Collection[Evaluation], whole: Evaluation) -> None:
    for table, expected, parts in (
        (GROUP_STATUS, whole.statuses, [each.statuses for each in evaluations]),
        (GROUP_LAG, whole.lags, [each.lags for each in evaluations]),
    ):
        order = [(name, "ascending") for name in table.key]
        assert pa.concat_tables(parts).sort_by(order).to_pylist() == expected.to_pylist()
