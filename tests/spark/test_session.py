"""The settings of the session that `run` builds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_spark_logs_errors_in_the_format_of_the_program(spark: SparkSession) -> None:
    jvm: Any = spark.sparkContext._jvm
    root = jvm.org.apache.logging.log4j.LogManager.getRootLogger()
    assert root.getLevel().toString() == "ERROR"
    assert set(root.getAppenders()) == {"text"}


def test_results_on_the_driver_are_limited(spark: SparkSession) -> None:
    assert spark.sparkContext.getConf().get("spark.driver.maxResultSize") == "512m"
