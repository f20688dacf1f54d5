"""A job as users write them for `spark-submit`: a query in a session of their own.

Arguments: the brokers, the tables folder, the checkpoint, and the file for the report.
"""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import streaming
from coordinator_state import RunSettings, run_query


def program_of_executor(_number: int) -> str:
    import coordinator_state

    return str(coordinator_state.__file__)


def main(bootstrap_servers: str, tables: str, checkpoint: str, report: str) -> None:
    logging.basicConfig(format="%(message)s")
    logging.getLogger("streaming").setLevel(logging.INFO)
    session = SparkSession.builder.appName("a job of users").getOrCreate()
    needed: dict[str, Any] = {
        "bootstrap_servers": bootstrap_servers,
        "tables": tables,
        "checkpoint": checkpoint,
        "available_now": True,
    }
    run_query(RunSettings.checked(engine="spark", **needed), session=session)
    # The second query goes on where the first one ended.
    run_query(RunSettings.checked(engine="auto", **needed), session=session)
    numbers = session.sparkContext.parallelize([0], 1)
    document = {
        "driver": streaming.__file__,
        "executor": numbers.map(program_of_executor).first(),
    }
    Path(report).write_text(json.dumps(document))
    session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
