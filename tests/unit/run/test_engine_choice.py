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
    EngineChoice,
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
        (CLUSTER, "s3a://lake/tables", {}, "spark"),
        (CLUSTER, "hdfs://nn/tables", {}, "spark"),
        ("yarn", "abfss://c@account.dfs.core.windows.net/tables", {}, "spark"),
        # where one process would hold too much,
        (LOCAL, "tables", {"rows": MOST_ROWS_OF_DRIVER}, "driver"),
        (LOCAL, "tables", {"rows": MOST_ROWS_OF_DRIVER + 1}, "spark"),
        # and for tables in a catalog.
        (LOCAL, "/warehouse/kafka.db", {"in_catalog": True}, "spark"),
        (CLUSTER, "/warehouse/kafka.db", {"in_catalog": True}, "spark"),
    ],
)
def test_auto(master: str, tables: str, options: dict[str, Any], engine: str) -> None:
    choice = choose_engine("auto", master=master, tables=tables, **options)
    assert choice.engine == engine
    assert ("in a catalog" in choice.reason) == ("in_catalog" in options)


def test_a_named_engine_is_used() -> None:
    assert choose_engine("driver", master=CLUSTER, tables="hdfs://nn/tables").engine == "driver"
    assert choose_engine("spark", master=LOCAL, tables="tables").engine == "spark"


def test_a_session_that_would_commit_unsafely_on_s3_is_refused_or_not_chosen() -> None:
    session = Mock()
    session.sparkContext.getConf().get.return_value = None
    settings = SETTINGS.model_copy(update={"tables": "s3a://lake/tables"})
    chosen = reachable_engine(EngineChoice("spark", "the master is a cluster"), settings, session)
    assert chosen.engine == "driver"
    assert "does not set spark.delta.logStore.s3a.impl to" in chosen.reason
    named = settings.model_copy(update={"engine": "spark"})
    with pytest.raises(ConfigurationError, match=r"^Spark cannot use s3a://lake/tables: the conf"):
        reachable_engine(EngineChoice("spark", "set by --engine"), named, session)


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
