"""Wires the source to the tables: the only file that starts a query."""

from __future__ import annotations

import json
import logging
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError

from coordinator_state.offsets import Semantics
from streaming.apply.micro_batch import MicroBatchApply
from streaming.beat import beating
from streaming.catalog import register
from streaming.config import RunSettings
from streaming.durations import parse_interval
from streaming.errors import ConfigurationError, SparkError
from streaming.kafka.client_config import kafka_client_config
from streaming.kafka.fetch import LogClient, LogDescription
from streaming.kafka.group_admin import GroupAdmin
from streaming.kafka.semantics import detect_semantics
from streaming.kafka.topic_names import TopicNames
from streaming.lag.sampling import LogOffsetsSampling
from streaming.progress import OnProgress, ProgressEvent
from streaming.session import build_session
from streaming.supervision import Supervisor
from streaming.tables import folder as tables_folder
from streaming.tables.checkpoint import read_checkpoint, require_fit
from streaming.tables.load_progress import LoadProgress
from streaming.tables.schemas import DEFAULT_OFFSETS_RETENTION_MS
from streaming.upkeep import tidy_up_beside

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

logger = logging.getLogger(__name__)

QUERY_NAME = "coordinator-state"
_POLL_S = 0.2
# A start has enough to do.
_UPKEEP_AFTER = timedelta(minutes=1)
_OWN_ERROR = re.compile(r"streaming\.errors\.\w+: (?P<text>.+)")


class Stopped(Exception):
    """A micro-batch that came after the request to stop; it is applied at the next start."""


@dataclass(slots=True)
class _StoppableApply:
    """`foreachBatch` function that finishes what it has begun and begins nothing after `stop`."""

    apply: MicroBatchApply
    stop: threading.Event
    lock: threading.Lock
    is_over: bool = False
    error: BaseException | None = None

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        with self.lock:
            if self.is_over or self.stop.is_set():
                raise Stopped
            try:
                self.apply(batch, batch_id)
            except BaseException as error:
                # Spark wraps it in a Java exception with only the text left.
                self.error = error
                raise


def run_query(
    settings: RunSettings,
    *,
    on_progress: OnProgress | None = None,
    stop: threading.Event | None = None,
    session: SparkSession | None = None,
) -> None:
    """Replay `__consumer_offsets` into Delta tables until `stop` is set, or to its end.

    With `available_now` it ends at the high watermarks of the start. A session that is passed in
    is left running.

    Raises:
        ConfigurationError: anything a user can mend: the address, the topic, rights, a tables
        folder or
            checkpoint that does not fit.
    """
    stop = stop or threading.Event()
    kafka_config = kafka_client_config(settings.kafka)
    log = _describe(settings, kafka_config)
    semantics = (
        detect_semantics(settings.bootstrap_servers, kafka_config)
        if settings.semantics == "auto"
        else Semantics(settings.semantics)
    )
    logger.info(
        "cluster %s, %s log partitions, %s semantics",
        log.cluster_id,
        len(log.leaders),
        semantics.value,
    )
    with tables_folder.locked(settings.tables):
        progress = _existing_progress(settings, log, semantics) or LoadProgress.nothing(
            cluster_id=log.cluster_id, topic_id=log.topic_id, semantics=semantics
        )
        checkpoint = read_checkpoint(settings.checkpoint)
        if checkpoint is not None:
            require_fit(checkpoint, progress, settings.tables)
        own_session = session is None
        session = session or build_session(
            master=settings.master,
            with_delta=settings.catalog is not None,
            with_hive=settings.catalog is not None,
        )
        try:
            with _jvm_that_lives():
                _run(session, settings, log, progress, on_progress, stop)
        finally:
            if own_session:
                with suppress(Py4JError, ConnectionError):
                    session.stop()


@contextmanager
def _jvm_that_lives() -> Iterator[None]:
    """Say it where Spark's JVM ends under the query, and what it is that fails in it."""
    try:
        yield
    except Py4JJavaError as error:
        raise SparkError("; caused by ".join(_reasons(error.java_exception))) from error
    except (Py4JNetworkError, ConnectionError) as error:
        raise ConfigurationError(
            "Spark's JVM has ended under the query, most likely for want of memory: give it more "
            "(SPARK_DRIVER_MEMORY=2g) or have it do less at a time (--max-records-per-trigger); "
            "the next start goes on where this one was"
        ) from error


def _reasons(exception: Any) -> Iterator[str]:
    """What a Java exception says, and what each of its causes adds, a line of each."""
    said = ""
    while exception is not None:
        line = str(exception.toString()).splitlines()[0]
        if line not in said:
            yield line
        said, exception = line, exception.getCause()


def _describe(settings: RunSettings, kafka_config: dict[str, object]) -> LogDescription:
    client = LogClient(settings.bootstrap_servers, kafka_config)
    try:
        log = client.describe()
    finally:
        client.close()
    unknown = set(settings.log_partitions or ()) - set(log.leaders)
    if unknown:
        raise ConfigurationError(
            f"--log-partitions: __consumer_offsets has {len(log.leaders)} partitions, there is no "
            f"{', '.join(str(number) for number in sorted(unknown))}"
        )
    return log


def _existing_progress(
    settings: RunSettings, log: LogDescription, semantics: Semantics
) -> LoadProgress | None:
    return tables_folder.existing_progress(
        settings.tables, cluster_id=log.cluster_id, topic_id=log.topic_id, semantics=semantics
    )


def _run(
    session: SparkSession,
    settings: RunSettings,
    log: LogDescription,
    progress: LoadProgress,
    on_progress: OnProgress | None,
    stop: threading.Event,
) -> None:
    kafka_config = kafka_client_config(settings.kafka)
    offsets_retention_ms = _offsets_retention_ms(settings, kafka_config)
    tables_folder.create(
        settings.tables,
        progress,
        log_partitions=len(log.leaders),
        offsets_retention_ms=offsets_retention_ms,
        snapshot_retention=parse_interval(settings.snapshot_retention),
        change_data_feed=settings.change_data_feed,
    )
    if settings.catalog is not None:
        register(session, settings.tables, settings.catalog)
    with ExitStack() as opened:
        topic_names = TopicNames(settings.bootstrap_servers, kafka_config)
        opened.enter_context(closing(topic_names))
        jobs = _jobs(settings, kafka_config, opened)
        if not settings.available_now:
            for job in jobs:
                opened.enter_context(
                    beating(job.name, job.interval, job.action, first_after=job.first_after)
                )

        finished = 0

        def count(event: ProgressEvent) -> None:
            nonlocal finished
            finished += 1
            if on_progress is not None:
                on_progress(event)

        def query() -> None:
            """From where the tables are; a failed one left them anywhere."""
            nonlocal progress
            progress = _existing_progress(settings, log, progress.semantics) or progress
            apply = MicroBatchApply(
                tables=settings.tables,
                semantics=progress.semantics,
                history=settings.history,
                progress=progress,
                on_progress=count,
                topic_names=topic_names,
                offsets_retention_ms=offsets_retention_ms,
            )
            stoppable = _StoppableApply(apply, stop, threading.Lock())
            _wait(_start(session, settings, progress, stoppable), stoppable, stop)

        Supervisor(settings.max_restarts, stop).run(query, lambda: finished)
        if settings.available_now:
            for job in jobs:
                job.action()


class _Job(NamedTuple):
    """What is done beside the query at intervals; once, behind a query that ends by itself."""

    name: str
    action: Callable[[], None]
    interval: timedelta
    first_after: timedelta


def _jobs(settings: RunSettings, kafka_config: dict[str, object], opened: ExitStack) -> list[_Job]:
    jobs: list[_Job] = []
    if settings.lag_interval != "off":
        sampling = LogOffsetsSampling(settings.tables, settings.bootstrap_servers, kafka_config)
        opened.enter_context(closing(sampling))
        interval = parse_interval(settings.lag_interval)
        jobs.append(_Job("log-offsets", sampling.sample, interval, timedelta(0)))
    if settings.upkeep_interval != "off":
        retention = parse_interval(settings.history_retention)
        tidy_up = partial(tidy_up_beside, settings.tables, retention)
        interval = parse_interval(settings.upkeep_interval)
        jobs.append(_Job("upkeep", tidy_up, interval, min(interval, _UPKEEP_AFTER)))
    return jobs


def _offsets_retention_ms(settings: RunSettings, kafka_config: dict[str, object]) -> int:
    """What the cluster says; nothing but what is told of expiry depends on it."""
    try:
        with GroupAdmin(settings.bootstrap_servers, kafka_config) as admin:
            return admin.offsets_retention_ms()
    except (ConfigurationError, TimeoutError) as error:
        logger.info("offsets.retention.minutes is not told (%s) and taken to be 7 days", error)
        return DEFAULT_OFFSETS_RETENTION_MS


def _start(
    session: SparkSession,
    settings: RunSettings,
    progress: LoadProgress,
    stoppable: _StoppableApply,
) -> StreamingQuery:
    from streaming.source.coordinator_log import CoordinatorLogDataSource

    session.dataSource.register(CoordinatorLogDataSource)
    reader = session.readStream.format(CoordinatorLogDataSource.name())
    for name, value in _source_options(session, settings, progress).items():
        reader = reader.option(name, value)
    writer = (
        reader.load()
        .writeStream.queryName(QUERY_NAME)
        .option("checkpointLocation", settings.checkpoint)
        .foreachBatch(stoppable)
    )
    if settings.available_now:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=settings.trigger).start()


def _source_options(
    session: SparkSession, settings: RunSettings, progress: LoadProgress
) -> dict[str, str]:
    options = {f"kafka.{name}": value for name, value in settings.kafka.items()}
    options["kafka.bootstrap.servers"] = settings.bootstrap_servers
    options["history"] = settings.history
    options["tasks"] = str(session.sparkContext.defaultParallelism)
    options["start_offsets"] = json.dumps(
        {str(p): row.next_offset for p, row in progress.rows.items()}
    )
    if settings.log_partitions is not None:
        options["log_partitions"] = ",".join(str(number) for number in settings.log_partitions)
    options["packed"] = "true"
    if settings.max_records_per_trigger is not None:
        options["max_records_per_trigger"] = str(settings.max_records_per_trigger)
    if settings.max_bytes_per_trigger is not None:
        options["max_bytes_per_trigger"] = str(settings.max_bytes_per_trigger)
    return options


def _wait(query: StreamingQuery, stoppable: _StoppableApply, stop: threading.Event) -> None:
    """Until the query ends by itself, fails, or is to stop once its micro-batch is finished."""
    try:
        while query.isActive and not stop.wait(_POLL_S):
            pass
        error = query.exception()
    finally:
        stop_was_asked = stop.is_set()
        with stoppable.lock:
            stoppable.is_over = True
        query.stop()
    if stoppable.error is not None:
        raise stoppable.error
    if error is not None and not stop_was_asked:
        raise _own_error(str(error)) or error


def _own_error(text: str) -> ConfigurationError | None:
    """An error of ours that a Python worker raised and Spark passed on as text."""
    found = _OWN_ERROR.search(text)
    return None if found is None else ConfigurationError(found["text"].strip())
