"""The engine `spark` on a cluster: tasks fail and have twins.

`tests/integration/test_cluster.py` loses executors.
"""

from __future__ import annotations

import multiprocessing
import shutil
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from pathlib import Path

import pytest

from streaming.tables.reader import TableReader
from tests.support.brokers.standalone_cluster import standalone_cluster
from tests.support.tables.evaluated import evaluate, evaluated_rows
from tests.support.tables.executor_faults import (
    Fault,
    Markers,
    evaluate_with_fault,
    load,
    start_session,
    task_fails,
    task_waits_for_its_twin,
)
from tests.support.tables.undisturbed import Rows, differences, empty_tables, table_rows

pytestmark = [
    pytest.mark.long,
    pytest.mark.cluster,
    pytest.mark.timeout(600),
]

# A micro-batch is planned by two tasks, though it is small, and a slow one gets a twin.
_SETTINGS = """\
spark.sql.shuffle.partitions 2
spark.sql.adaptive.coalescePartitions.enabled false
spark.speculation true
spark.speculation.interval 100ms
spark.speculation.multiplier 1.1
spark.speculation.quantile 0.5
spark.speculation.minTaskRuntime 2s
spark.driver.extraJavaOptions -XX:ReservedCodeCacheSize=240m
spark.executor.extraJavaOptions -XX:ReservedCodeCacheSize=240m
"""


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Executor]:
    """A process with a session on two executors: this one may have another session already."""
    folder = tmp_path_factory.mktemp("cluster")
    with standalone_cluster(folder) as cluster:
        (folder / "conf" / "spark-defaults.conf").write_text(_SETTINGS)
        with ProcessPoolExecutor(
            1,
            multiprocessing.get_context("spawn"),
            initializer=start_session,
            initargs=(cluster.master, cluster.environment),
        ) as process:
            yield process


@pytest.fixture(scope="module")
def half(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables after the first of two micro-batches."""
    tables = tmp_path_factory.mktemp("half") / "tables"
    load(str(tables), 0)
    return tables


@pytest.fixture(scope="module")
def expected(half: Path, tmp_path_factory: pytest.TempPathFactory) -> Rows:
    """The rows after both micro-batches with the engine `driver`."""
    tables = tmp_path_factory.mktemp("driver") / "tables"
    shutil.copytree(half, tables)
    load(str(tables), 1)
    rows = table_rows(tables)
    assert empty_tables(rows) == []
    return rows


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param({"in_keying": task_fails}, id="staging fails", marks=pytest.mark.release),
        pytest.param({"in_plan": task_fails}, id="planning fails", marks=pytest.mark.release),
        pytest.param({"in_plan": task_waits_for_its_twin}, id="planning has a twin"),
    ],
)
def test_a_task_has_another_attempt(
    process: Executor, half: Path, expected: Rows, tmp_path: Path, fault: dict[str, Fault]
) -> None:
    tables = tmp_path / "tables"
    shutil.copytree(half, tables)
    markers = Markers(tmp_path / "markers")
    markers.folder.mkdir()
    process.submit(load, str(tables), 1, on_spark=True, markers=markers, **fault).result()
    assert list(differences(table_rows(tables), expected)) == []
    assert markers.attempts > 1


def test_a_task_of_an_evaluation_has_another_attempt(
    process: Executor, half: Path, tmp_path: Path
) -> None:
    driver_tables, spark_tables = (
        str(shutil.copytree(half, tmp_path / name)) for name in ("d", "s")
    )
    at = TableReader(driver_tables).moment
    evaluate(driver_tables, at)
    markers = Markers(tmp_path / "markers")
    markers.folder.mkdir()
    process.submit(evaluate_with_fault, spark_tables, at, markers).result()
    expected = evaluated_rows(driver_tables)
    assert all(expected.values())
    assert evaluated_rows(spark_tables) == expected
    assert markers.attempts > 1
