"""A PySpark query that reads a topic with Spark's own connector, in a process of its own.

It fails in the batch after a number of batches: that one is planned and not done. So the place in
the log does not depend on time.
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from streaming.jvm.jars import cached_jars
from tests.support.brokers.jar_sets import SPARK_KAFKA

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

RECORDS_PER_BATCH = 20


class EnoughRead(Exception):
    """All batches that were asked for are done."""


def consume(bootstrap_servers: str, topic: str, checkpoint: Path, batches: int) -> None:
    """Read batches from where the checkpoint ends."""
    jars = ",".join(map(str, cached_jars(SPARK_KAFKA)))
    arguments = [jars, bootstrap_servers, topic, str(checkpoint), str(batches)]
    done = subprocess.run(
        [sys.executable, "-m", __name__, *arguments],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    if done.returncode:
        raise AssertionError(done.stderr[-3_000:])


def main(jars: str, bootstrap_servers: str, topic: str, checkpoint: str, batches: int) -> None:
    from pyspark.errors import StreamingQueryException
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[1]")
        .config("spark.jars", jars)
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "1")
        .getOrCreate()
    )
    records = (
        session.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap_servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", RECORDS_PER_BATCH)
        .load()
    )
    ended: list[int] = []

    def read(batch: DataFrame, batch_id: int) -> None:
        if len(ended) == batches:
            raise EnoughRead
        batch.write.format("noop").mode("overwrite").save()
        ended.append(batch_id)

    query = records.writeStream.foreachBatch(read).option("checkpointLocation", checkpoint).start()
    with suppress(StreamingQueryException):
        query.awaitTermination()
    failure = query.exception()
    session.stop()
    if len(ended) < batches:
        raise AssertionError(f"the query ended after {len(ended)} batches: {failure}")


if __name__ == "__main__":
    _, jars, servers, topic, checkpoint, batches = sys.argv
    main(jars, servers, topic, checkpoint, int(batches))
