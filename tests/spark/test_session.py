"""The settings of the session that `run` builds."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_results_on_the_driver_are_limited(spark: SparkSession) -> None:
    assert spark.sparkContext.getConf().get("spark.driver.maxResultSize") == "512m"
