"""A streaming query of Spark: its start, its `foreachBatch` function and its end."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import astuple, dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from streaming.engine.micro_batch import MicroBatchApply
from streaming.reload.doubts import read_up_to
from streaming.run.checkpoint import new_checkpoint
from streaming.run.session import EngineName
from streaming.run.settings import RunSettings
from streaming.run.spark_errors import disk_full, own_error
from streaming.run.stages import enter_stage
from streaming.run.start import Start
from streaming.source.options import DEFAULT_LONG_POLL_MS
from streaming.tables.durations import parse_duration, parse_history_resolution
from streaming.tables.topic_progress import TopicProgress

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

logger = logging.getLogger(__name__)

QUERY_NAME = "coordinator-state"
_POLL_S = 0.2
TRIGGER_LOGGER = "org.apache.spark.sql.execution.streaming.runtime.ProcessingTimeExecutor"


class Stopped(Exception):
    """Ends a micro-batch that began after the request to stop; the next start applies it."""


@dataclass(slots=True)
class StoppableApply:
    """A `foreachBatch` function that finishes its micro-batch, and starts none after `stop`.

    `reading` names the stage in which Spark reads and applies a micro-batch.
    """

    apply: MicroBatchApply[Any]
    stop: threading.Event
    lock: threading.Lock
    reading: str = "reading"
    is_ended: bool = False
    error: BaseException | None = None

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        with self.lock:
            if self.is_ended or self.stop.is_set():
                raise Stopped
            enter_stage(self.reading)
            try:
                self.apply(batch, batch_id)
            except BaseException as error:
                # Spark would replace it with a Java exception that has only its text.
                self.error = error
                raise


def register_source(session: SparkSession) -> None:
    """Register the source in a session. It starts a Python process, and takes about a second."""
    from streaming.source.coordinator_log import CoordinatorLogDataSource

    session.dataSource.register(CoordinatorLogDataSource)


def start_query(
    session: SparkSession,
    settings: RunSettings,
    options: Mapping[str, str],
    stoppable: StoppableApply,
) -> StreamingQuery:
    """Start the query; `options` are those of the source, which `register_source` registered."""
    from streaming.source.coordinator_log import CoordinatorLogDataSource

    reader = session.readStream.format(CoordinatorLogDataSource.name())
    for name, value in options.items():
        reader = reader.option(name, value)
    logger.info(
        "starting the query with up to %(tasks)s tasks per micro-batch", {"tasks": options["tasks"]}
    )
    writer = (
        reader.load()
        .writeStream.queryName(QUERY_NAME)
        .option("checkpointLocation", new_checkpoint(session, settings.checkpoint))
        .foreachBatch(stoppable)
    )
    if settings.available_now:
        return writer.trigger(availableNow=True).start()
    interval_ms = parse_duration(settings.trigger) // timedelta(milliseconds=1)
    if interval_ms <= DEFAULT_LONG_POLL_MS:
        # The planning of a trigger without new records waits longer than the interval: Spark would
        # warn each time that it falls behind.
        jvm: Any = session.sparkContext._jvm
        log4j = jvm.org.apache.logging.log4j
        log4j.core.config.Configurator.setLevel(TRIGGER_LOGGER, log4j.Level.ERROR)
    return writer.trigger(processingTime=f"{interval_ms} milliseconds").start()


def wait_for_end(
    query: StreamingQuery,
    stoppable: StoppableApply,
    stop: threading.Event,
    others: Sequence[threading.Event],
) -> None:
    """Wait until the query ends or fails, or one of the events stops it after a micro-batch."""
    events = (stop, *others)
    try:
        while query.isActive and not any(event.is_set() for event in events):
            stop.wait(_POLL_S)
        error = query.exception()
    finally:
        is_stopping = any(event.is_set() for event in events)
        with stoppable.lock:
            stoppable.is_ended = True
        query.stop()
    if stoppable.error is not None:
        # A worker's error is raised in the driver where the micro-batch collects its rows.
        raise own_error(str(stoppable.error)) or stoppable.error
    if error is not None and not is_stopping:
        raise own_error(str(error)) or disk_full(str(error)) or error


def source_options(
    settings: RunSettings, start: Start, tasks: int, engine: EngineName
) -> dict[str, str]:
    """The options of a source that begins at the next offsets of the tables."""
    options = {f"kafka.{name}": value for name, value in settings.kafka.items()}
    options["kafka.bootstrap.servers"] = settings.bootstrap_servers
    options["history"] = settings.history
    resolution = parse_history_resolution(settings.history_resolution)
    options["history_resolution"] = json.dumps(astuple(resolution))
    options["tasks"] = str(tasks)
    options["planning_tasks"] = str(tasks if engine == "spark" else 1)
    options["start_offsets"] = json.dumps(_start_offsets(start.progress, start.log_partitions))
    options["log_partitions"] = ",".join(map(str, sorted(start.log_partitions)))
    options["other_topics"] = json.dumps(
        {
            other_topic.log.topic: {
                "log_partitions": sorted(other_topic.log_partitions),
                "start_offsets": _start_offsets(other_topic.progress, other_topic.log_partitions),
            }
            for other_topic in start.others.followed
        }
    )
    options["packed"] = "true"
    retry_timeout = parse_duration(settings.retry_timeout)
    options["retry_timeout_ms"] = str(max(1, retry_timeout // timedelta(milliseconds=1)))
    if settings.max_records_per_trigger is not None:
        options["max_records_per_trigger"] = str(settings.max_records_per_trigger)
    if settings.max_bytes_per_trigger is not None:
        options["max_bytes_per_trigger"] = str(settings.max_bytes_per_trigger)
    return options


def _start_offsets(
    progress: TopicProgress, log_partitions: Collection[int]
) -> dict[str, list[Any]]:
    """The next offset and epochs of each log partition that does not start at its start."""
    return {
        str(p): read_up_to(row).values
        for p, row in progress.rows.items()
        if p in log_partitions and row.is_begun and not row.is_reloading
    }
