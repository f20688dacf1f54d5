"""The engine of a run, by its master and its tables, and the options of its source."""

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
from streaming.run.settings import RunSettings
from streaming.run.streaming_query import source_options
from streaming.source.options import SourceOptions
from streaming.tables.reader import TableReader
from tests.support.tables.every_table import apply_next, create
from tests.support.tables.tables_folder import start_apply

LOCAL, CLUSTER = "local[2]", "spark://master:7077"
SETTINGS = RunSettings(bootstrap_servers="localhost:9092", tables="tables", master="local[3]")


@pytest.mark.parametrize(
    ("master", "tables", "options", "engine"),
    [
        # `spark` where every executor can write,
        (LOCAL, "tables", {}, "driver"),
        ("local[*]", "hdfs://nn/tables", {}, "driver"),
        (CLUSTER, "/data/tables", {}, "driver"),
        (CLUSTER, "file:///data/tables", {}, "driver"),
        (CLUSTER, "s3a://lake/tables", {}, "driver"),
        (CLUSTER, "hdfs://nn/tables", {}, "spark"),
        ("yarn", "abfss://c@account.dfs.core.windows.net/tables", {}, "spark"),
        # where one process would hold too much,
        (LOCAL, "tables", {"rows": MOST_ROWS_OF_DRIVER}, "driver"),
        (LOCAL, "tables", {"rows": MOST_ROWS_OF_DRIVER + 1}, "spark"),
        (LOCAL, "s3://lake/tables", {"rows": MOST_ROWS_OF_DRIVER + 1}, "driver"),
        # and for tables in a catalog.
        *(
            (master, tables, {"in_catalog": True}, engine)
            for master in (LOCAL, CLUSTER)
            for tables, engine in (
                *(("/warehouse/kafka.db", "spark"), ("hdfs://nn/kafka.db", "spark")),
                ("s3a://lake/k", "driver"),
            )
        ),
    ],
)
def test_auto(master: str, tables: str, options: dict[str, Any], engine: str) -> None:
    choice = choose_engine("auto", master=master, tables=tables, **options)
    assert choice.engine == engine
    if "in_catalog" in options:
        assert ("in a catalog" if engine == "spark" else "S3") in choice.reason


def test_a_named_engine_is_used_except_spark_on_s3() -> None:
    assert choose_engine("driver", master=CLUSTER, tables="hdfs://nn/tables").engine == "driver"
    assert choose_engine("spark", master=LOCAL, tables="tables").engine == "spark"
    for tables in ("s3://lake/tables", "s3a://lake/tables"):
        with pytest.raises(ConfigurationError, match=r"^--engine spark cannot write s3"):
            choose_engine("spark", master=CLUSTER, tables=tables)


def test_keys_and_members_are_counted(tmp_path: Path) -> None:
    tables = str(tmp_path / "tables")
    assert stored_rows(tables) == 0
    create(tables)
    assert stored_rows(tables) == 0
    apply_next(start_apply(tables))
    reader = TableReader(tables)
    offsets, members = (reader.read(name).num_rows for name in ("group_offsets", "group_members"))
    assert stored_rows(tables) == offsets + members > 0


def test_deletion_vectors_need_the_engine_spark() -> None:
    settings = SETTINGS.model_copy(update={"deletion_vectors": True})
    choice = choose_engine("auto", master=settings.master, tables=settings.tables)
    with pytest.raises(ConfigurationError, match=r"^--deletion-vectors needs the engine spark"):
        reachable_engine(choice, settings, Mock())


def test_a_session_that_is_passed_in_has_the_master() -> None:
    session: Any = SimpleNamespace(sparkContext=SimpleNamespace(master=CLUSTER))
    assert master_of(SETTINGS, session) == CLUSTER
    assert master_of(SETTINGS, None) == "local[3]"


@pytest.mark.parametrize(("engine", "planning_tasks"), [("driver", 1), ("spark", 3)])
def test_the_tasks_of_the_engine_spark_share_the_rows(
    engine: EngineName, planning_tasks: int
) -> None:
    start: Any = SimpleNamespace(
        progress=SimpleNamespace(rows={}), log_partitions={0, 7}, others=OtherTopics()
    )
    options = SourceOptions.read(source_options(SETTINGS, start, 3, engine))
    assert (options.tasks, options.planning_tasks) == (3, planning_tasks)
    assert options.log_partitions == (0, 7)
