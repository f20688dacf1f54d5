"""The engine of a run, by its master and its tables, and what its source is told of it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from streaming.errors import ConfigurationError
from streaming.run.engine_choice import (
    MOST_ROWS_OF_DRIVER,
    choose_engine,
    master_of,
    reachable_engine,
    stored_rows,
)
from streaming.run.other_topics import OtherTopics
from streaming.run.session import EngineName
from streaming.run.settings import EngineOption, RunSettings
from streaming.run.source_options import source_options
from streaming.source.options import SourceOptions
from streaming.tables.reader import TableReader
from tests.support.tables.every_table import apply_next, create
from tests.support.tables.tables_folder import start_apply

CLUSTER = "spark://master:7077"


@pytest.mark.parametrize(
    ("master", "tables", "engine"),
    [
        ("local[2]", "tables", "driver"),
        ("local[*]", "hdfs://nn/tables", "driver"),
        (CLUSTER, "/data/tables", "driver"),
        (CLUSTER, "file:///data/tables", "driver"),
        (CLUSTER, "s3a://lake/tables", "driver"),
        (CLUSTER, "hdfs://nn/tables", "spark"),
        ("yarn", "abfss://c@account.dfs.core.windows.net/tables", "spark"),
    ],
)
def test_auto_is_spark_where_every_executor_can_write(
    master: str, tables: str, engine: str
) -> None:
    assert choose_engine("auto", master=master, tables=tables).engine == engine


@pytest.mark.parametrize(
    ("tables", "engine"),
    [("/warehouse/kafka.db", "spark"), ("hdfs://nn/kafka.db", "spark"), ("s3a://lake/k", "driver")],
)
@pytest.mark.parametrize("master", ["local[2]", CLUSTER])
def test_auto_is_spark_for_tables_in_a_catalog(master: str, tables: str, engine: str) -> None:
    choice = choose_engine("auto", master=master, tables=tables, in_catalog=True)
    assert choice.engine == engine
    assert ("in a catalog" if engine == "spark" else "S3") in choice.reason


@pytest.mark.parametrize("engine", ["driver", "spark"])
def test_a_named_engine_is_used(engine: EngineOption) -> None:
    assert choose_engine(engine, master="local[2]", tables="tables").engine == engine


@pytest.mark.parametrize(
    ("tables", "rows", "engine"),
    [
        ("tables", MOST_ROWS_OF_DRIVER, "driver"),
        ("tables", MOST_ROWS_OF_DRIVER + 1, "spark"),
        ("s3://lake/tables", MOST_ROWS_OF_DRIVER + 1, "driver"),
    ],
)
def test_auto_is_spark_where_one_process_holds_too_much(
    tables: str, rows: int, engine: str
) -> None:
    assert choose_engine("auto", master="local[2]", tables=tables, rows=rows).engine == engine


def test_keys_and_members_are_counted(tmp_path: Path) -> None:
    tables = str(tmp_path / "tables")
    assert stored_rows(tables) == 0
    create(tables)
    assert stored_rows(tables) == 0
    apply_next(start_apply(tables))
    reader = TableReader(tables)
    offsets, members = (reader.read(name).num_rows for name in ("group_offsets", "group_members"))
    assert stored_rows(tables) == offsets + members > 0


@pytest.mark.parametrize("tables", ["s3://lake/tables", "s3a://lake/tables"])
def test_the_engine_spark_refuses_s3(tables: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^--engine spark cannot write s3"):
        choose_engine("spark", master=CLUSTER, tables=tables)


def test_deletion_vectors_need_the_engine_spark() -> None:
    settings = RunSettings.checked(
        bootstrap_servers="broker:9092", tables="tables", deletion_vectors=True
    )
    choice = choose_engine("auto", master=settings.master, tables=settings.tables)
    with pytest.raises(ConfigurationError, match=r"^--deletion-vectors needs the engine spark"):
        reachable_engine(choice, settings, Mock())


def test_a_session_that_is_passed_in_has_the_master() -> None:
    settings = RunSettings(bootstrap_servers="localhost:9092", tables="t", master="local[3]")
    session: Any = SimpleNamespace(sparkContext=SimpleNamespace(master=CLUSTER))
    assert master_of(settings, session) == CLUSTER
    assert master_of(settings, None) == "local[3]"


@pytest.mark.parametrize(("engine", "planning_tasks"), [("driver", 1), ("spark", 3)])
def test_the_tasks_of_the_engine_spark_share_the_rows(
    engine: EngineName, planning_tasks: int
) -> None:
    settings = RunSettings(bootstrap_servers="localhost:9092", tables="tables")
    start: Any = SimpleNamespace(
        progress=SimpleNamespace(rows={}), log_partitions={0, 7}, others=OtherTopics()
    )
    options = SourceOptions.read(source_options(settings, start, 3, engine))
    assert (options.tasks, options.planning_tasks) == (3, planning_tasks)
    assert options.log_partitions == (0, 7)
