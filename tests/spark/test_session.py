"""The settings and the jars of the session that `run` builds."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
import pytest

from streaming.jvm.spark_home import SPARK_HOME
from streaming.run.streaming_query import TRIGGER_LOGGER

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_spark_logs_errors_in_the_format_of_the_program(spark: SparkSession) -> None:
    jvm: Any = spark.sparkContext._jvm
    root = jvm.org.apache.logging.log4j.LogManager.getRootLogger()
    assert root.getLevel().toString() == "ERROR"
    assert set(root.getAppenders()) == {"text"}


def test_results_on_the_driver_are_limited(spark: SparkSession) -> None:
    assert spark.sparkContext.getConf().get("spark.driver.maxResultSize") == "512m"


def test_python_processes_of_spark_import_compiled_modules(spark: SparkSession) -> None:
    """Spark's archive of PySpark has no bytecode; `streaming.jvm.spark_home` replaces it."""
    if SPARK_HOME in os.environ:
        pytest.skip("this machine has a SPARK_HOME, which stays as it is")
    task = spark.sparkContext.parallelize([0], 1)
    (imported,) = task.map(lambda _: str(__import__("pyspark").__path__[0])).collect()
    assert "spark-home-" in imported
    assert Path(imported).resolve() == Path(pyspark.__path__[0]).resolve()


def test_the_logger_of_triggers_is_that_of_spark(spark: SparkSession) -> None:
    jvm: Any = spark.sparkContext._jvm
    assert jvm.java.lang.Class.forName(TRIGGER_LOGGER).getName() == TRIGGER_LOGGER
