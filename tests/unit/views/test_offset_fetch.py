from __future__ import annotations

from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from streaming.kafka.offset_fetch import OffsetFetchAnswer
from streaming.tables.reader import TableReader
from streaming.views.offset_fetch import offset_fetch
from tests.support.tables.tables_folder import Row, apply_micro_batch, create_tables

# In a topic of four partitions "orders" lives in 3, "payments" in 1.
LOG_PARTITIONS = "4"
LOADED = [{"log_partition": number} for number in range(4)]
ORDERS = {"log_partition": 3, "group_id": "orders"}


def offset(topic: str, partition: int, committed_offset: int, **columns: object) -> Row:
    key = {"topic": topic, "partition": partition, "committed_offset": committed_offset}
    return {**ORDERS, **key, **columns}


def answer(topic: str | None, partition: int | None, **fields: Any) -> OffsetFetchAnswer:
    return OffsetFetchAnswer(topic=topic, partition=partition, **fields)


@pytest.fixture(scope="module")
def built_tables(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = create_tables(tmp_path_factory.mktemp("built"), log_partitions=LOG_PARTITIONS)
    apply_micro_batch(
        folder,
        groups=[ORDERS],
        group_offsets=[
            offset("t", 1, 11),
            offset("t", 0, 10, leader_epoch=5, metadata="m"),
            offset("other", 0, 1, group_id="another group"),
        ],
        pending_offsets=[offset("t", 0, 12), offset("t", 2, 13)],
        progress=LOADED,
    )
    return folder


@pytest.fixture
def tables(built_tables: str, tmp_path: Path) -> str:
    """A copy that a test may change."""
    return str(copytree(built_tables, tmp_path / "tables"))


ALL_OF_ORDERS = [
    answer("t", 0, committed_offset=10, leader_epoch=5, metadata="m"),
    answer("t", 1, committed_offset=11, leader_epoch=-1),
]
UNSTABLE = "UNSTABLE_OFFSET_COMMIT"


@pytest.mark.parametrize(
    ("group_id", "partitions", "require_stable", "answers"),
    [
        ("orders", None, False, ALL_OF_ORDERS),
        ("orders", [], False, []),
        # Named partitions are answered in their order; -1 stands for no offset.
        (
            *("orders", [("t", 1), ("t", 9), ("nowhere", 0)], False),
            [
                answer("t", 1, committed_offset=11),
                answer("t", 9, committed_offset=-1, leader_epoch=-1, metadata="", error="NONE"),
                answer("nowhere", 0),
            ],
        ),
        ("payments", None, False, []),
        ("payments", [("t", 0)], False, [answer("t", 0)]),
        # A pending offset shows only where a stable one is required.
        ("orders", [("t", 2)], False, [answer("t", 2, error="NONE")]),
        ("orders", [("t", 2)], True, [answer("t", 2, error=UNSTABLE)]),
        # Alone it is not among all offsets of the group.
        ("orders", None, True, [answer("t", 0, error=UNSTABLE), ALL_OF_ORDERS[1]]),
    ],
)
def test_offsets_are_those_of_the_coordinator(
    built_tables: str,
    group_id: str,
    partitions: list[tuple[str, int]] | None,
    require_stable: bool,
    answers: list[OffsetFetchAnswer],
) -> None:
    actual = offset_fetch(built_tables, group_id, partitions, require_stable=require_stable)
    assert actual == answers


@pytest.mark.parametrize(
    ("progress", "error"),
    [
        ([{"log_partition": 3, "state": "loading"}], "COORDINATOR_LOAD_IN_PROGRESS"),
        ([{"log_partition": 3, "state": "failed"}], "NOT_COORDINATOR"),
        ([{"log_partition": 1}], "NOT_COORDINATOR"),
        ([], "NOT_COORDINATOR"),
    ],
)
def test_the_state_of_the_log_partition_is_the_coordinators(
    tables: str, progress: list[Row], error: str
) -> None:
    apply_micro_batch(tables, progress=progress)

    assert offset_fetch(tables, "orders") == [answer(None, None, error=error)]
    assert offset_fetch(tables, "orders", [("t", 1)]) == [answer("t", 1, error=error)]
    with pytest.raises(ValueError, match="whole group"):
        _ = offset_fetch(tables, "orders")[0].topic_partition


def test_offsets_without_their_group_are_not_answered(tables: str) -> None:
    reader = TableReader(tables)
    apply_micro_batch(tables, groups=[], progress=LOADED)

    assert offset_fetch(tables, "orders") == []
    assert offset_fetch(tables, "orders", [("t", 0)]) == [answer("t", 0)]
    # A reader keeps its snapshot, so several groups are of one moment.
    assert offset_fetch(reader, "orders") == ALL_OF_ORDERS


def test_the_scala_loader_answers_surviving_offsets(tmp_path: Path) -> None:
    folder = create_tables(tmp_path, log_partitions=LOG_PARTITIONS, semantics="scala")
    orphan = offset("t", 5, 99) | {"log_partition": 2}
    apply_micro_batch(folder, group_offsets=[offset("t", 0, 10), orphan], progress=LOADED)

    # Orphans in another log partition do not count.
    assert offset_fetch(folder, "orders") == [answer("t", 0, committed_offset=10)]
