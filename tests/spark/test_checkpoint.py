"""The checkpoint of each query."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from streaming.run.checkpoint import new_checkpoint

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_each_query_has_a_new_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    location = tmp_path / "checkpoint"
    first, second = (Path(new_checkpoint(spark, str(location))) for _ in range(2))
    assert first.parent == second.parent == location
    assert first != second
    (second / "offsets").mkdir(parents=True)
    (location / "mine").write_text("stays")
    third = Path(new_checkpoint(spark, str(location)))
    assert third not in (first, second)
    assert [entry.name for entry in location.iterdir()] == ["mine"]
