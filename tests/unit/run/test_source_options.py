"""The options of the source of a query."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from streaming.run.other_topics import OtherTopics
from streaming.run.session import EngineName
from streaming.run.settings import RunSettings
from streaming.run.source_options import source_options
from streaming.source.options import SourceOptions


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
