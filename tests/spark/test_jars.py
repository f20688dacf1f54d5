"""The five Delta jars are all that Spark needs to write, MERGE and OPTIMIZE a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from delta.tables import DeltaTable

from streaming.jvm.jars import delta_jars

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.long
def test_the_delta_jars_suffice(spark: SparkSession, tmp_path: Path) -> None:
    jars = spark.conf.get("spark.jars")
    assert jars is not None
    assert sorted(jars.split(",")) == [str(jar) for jar in delta_jars()]
    assert len(delta_jars()) == 5

    folder = str(tmp_path / "table")
    schema = "group_id string, committed_offset bigint"
    spark.createDataFrame([("a", 1), ("b", 1)], schema).write.format("delta").save(folder)
    table = DeltaTable.forPath(spark, folder)
    (
        table.alias("target")
        .merge(
            spark.createDataFrame([("b", 2), ("c", 2)], schema).alias("source"),
            "target.group_id = source.group_id",
        )
        .whenMatchedUpdateAll()
        .whenNotMatchedInsertAll()
        .execute()
    )
    table.optimize().executeCompaction()
    rows = spark.read.format("delta").load(folder).orderBy("group_id").collect()
    assert [tuple(row) for row in rows] == [("a", 1), ("b", 2), ("c", 2)]
    operations = [row["operation"] for row in table.history().orderBy("version").collect()]
    assert operations == ["WRITE", "MERGE", "OPTIMIZE"]
