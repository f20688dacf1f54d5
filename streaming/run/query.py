"""Connects the source to the tables, query after query."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError

from streaming.engine.engine import ApplyRules
from streaming.engine.micro_batch import MicroBatchApply
from streaming.engine.progress import OnProgress, ProgressEvent
from streaming.errors import TablesUnavailable
from streaming.kafka.client_config import kafka_client_config
from streaming.kafka.loader_rules import ClusterRules
from streaming.kafka.topic_names import TopicNames
from streaming.run.beat import beating
from streaming.run.cluster_settings import ClusterSettings
from streaming.run.engine_choice import (
    EngineChoice,
    choose_engine,
    engine_of,
    master_of,
    reachable_engine,
    stored_rows,
)
from streaming.run.executors import ExecutorWatch, await_executors
from streaming.run.jobs import Job, background_jobs, lineage_reporter
from streaming.run.log_watch import LogWatch
from streaming.run.loop_compilation import await_loops, compiling_loops
from streaming.run.monitoring.endpoints import monitored
from streaming.run.monitoring.run_monitor import RunMonitor, listening
from streaming.run.other_topics import TopicStarts
from streaming.run.s3 import is_s3
from streaming.run.session import EngineName, is_configured, session_of
from streaming.run.settings import RunSettings
from streaming.run.spark_errors import disk_full, java_reasons, living_jvm
from streaming.run.spark_evaluation import SparkEvaluation
from streaming.run.stages import enter_stage, leave_stages
from streaming.run.start import QueryStarts, Start, await_log, create_empty, find_log, require_fit
from streaming.run.stderr import write_dated_note
from streaming.run.streaming_query import (
    StoppableApply,
    register_source,
    source_options,
    start_query,
    wait_for_end,
)
from streaming.run.supervision import Supervisor
from streaming.tables import folder as tables_folder
from streaming.tables.durations import parse_history_resolution
from streaming.tables.load_progress import LoadProgress
from streaming.tables.locations import is_schema_name
from streaming.tables.writer import Writer
from streaming.views.catalog import register, schema_location

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from streaming.lineage.reporter import LineageReporter

logger = logging.getLogger(__name__)

_WATCH_INTERVAL = timedelta(seconds=10)
_SWITCH_INTERVAL_S = 0.0005


def run_query(
    settings: RunSettings,
    *,
    on_progress: OnProgress | None = None,
    stop: threading.Event | None = None,
    session: SparkSession | None = None,
) -> None:
    """Replay `__consumer_offsets` into Delta tables until `stop` is set, or to its end.

    With `available_now` it ends at the high watermarks of the start. It does not stop a session
    that the caller passed in. If the setting `tables` names a schema of the session's catalog, the
    tables folder is the location of the schema.

    Raises:
        ConfigurationError: an error that a user can correct: the address, the topic, missing ACLs,
            or a tables folder of another cluster.
    """
    stop = stop or threading.Event()
    with ExitStack() as opened:
        opened.enter_context(_short_turns())
        in_catalog = is_schema_name(settings.tables)
        if in_catalog:
            # Only the catalog knows the tables folder.
            engine: EngineName = "driver" if settings.engine == "driver" else "spark"
            session = opened.enter_context(
                session_of(
                    session,
                    master=settings.master,
                    engine=engine,
                    with_catalog=True,
                    with_s3=is_configured(),
                )
            )
            schema, folder = settings.tables, schema_location(session, settings.tables)
            settings = settings.in_folder(folder)
            write_dated_note(f"the tables of {schema} are in {settings.tables}")
        choice = choose_engine(
            settings.engine,
            master=master_of(settings, session),
            tables=settings.tables,
            in_catalog=in_catalog,
            rows=stored_rows(settings.tables) if settings.engine == "auto" else 0,
        )
        _run(settings, choice, on_progress, stop, session)


@contextmanager
def _short_turns() -> Iterator[None]:
    """Let a micro-batch wait less for the threads beside it, such as an evaluation.

    A thread that computes in Python keeps the interpreter for a whole interval, 5 ms by default,
    each time that a micro-batch needs it again.
    """
    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    try:
        yield
    finally:
        sys.setswitchinterval(interval_s)


def _run(
    settings: RunSettings,
    choice: EngineChoice,
    on_progress: OnProgress | None,
    stop: threading.Event,
    given: SparkSession | None,
) -> None:
    """Run the queries of a tables folder, in the given session or one of its own."""
    lineage = lineage_reporter(settings)
    kafka_config = kafka_client_config(settings.kafka)
    enter_stage(f"connecting to {settings.bootstrap_servers}")
    log, cluster_id = find_log(settings, kafka_config)
    rules = ClusterRules(settings.bootstrap_servers, kafka_config, settings.semantics)
    with (
        monitored(settings, cluster_id) as monitor,
        tables_folder.locked(settings.tables),
        tables_folder.locked(settings.checkpoint),
    ):
        # Before Spark starts, which takes seconds.
        require_fit(settings, cluster_id)
        if log is None:
            create_empty(settings, cluster_id, rules.known)
            if settings.available_now:
                return
            leave_stages()
            log = await_log(settings, kafka_config, monitor, stop)
            if log is None:
                return
        logger.info(
            "cluster %(cluster_id)s, %(log_partitions)s log partitions, rules: %(rules)s",
            {
                "cluster_id": cluster_id,
                "log_partitions": len(log.leaders),
                "rules": str(rules.known),
            },
        )
        starts = QueryStarts(
            settings=settings,
            kafka_config=kafka_config,
            rules=rules,
            cluster=ClusterSettings.ask(settings.bootstrap_servers, kafka_config),
            topics=TopicStarts(settings=settings, kafka_config=kafka_config, stop=stop),
            stop=stop,
        )
        # The executors of a cluster compile the loops themselves.
        is_local = master_of(settings, given).startswith("local")
        # Delta-rs needs no file system of Hadoop.
        spark_writes = choice.engine == "spark" or settings.catalog is not None
        on_hadoop = [settings.checkpoint, *([settings.tables] if spark_writes else [])]
        with_s3 = any(is_s3(location) for location in on_hadoop if location)
        with (
            compiling_loops() if is_local else nullcontext(),
            session_of(
                given,
                master=settings.master,
                engine=choice.engine,
                with_catalog=settings.catalog is not None,
                with_s3=with_s3,
            ) as session,
        ):
            choice = reachable_engine(choice, settings, session)
            with ThreadPoolExecutor(1, "source") as pool:
                registered = pool.submit(register_source, session)
                # After Spark has started, so an older run keeps writing until this one is able to.
                first = starts.first()
            if first is None:
                return
            with living_jvm(session):
                registered.result()
                await_loops(stop)
                schema = None
                if settings.catalog is not None:
                    schema = register(session, settings.tables, settings.catalog)
                _Queries(
                    session=session,
                    starts=starts,
                    choice=choice,
                    schema=schema,
                    first=first,
                    on_progress=on_progress,
                    monitor=monitor,
                    lineage=lineage,
                ).run()


@dataclass(slots=True, kw_only=True)
class _Queries:
    """The queries of one run, one after another; each starts at the next offsets of the tables.

    `schema` is that of the tables in a catalog, if any; `first` is the start of the first query;
    `finished` counts micro-batches.
    """

    session: SparkSession
    starts: QueryStarts
    choice: EngineChoice
    schema: str | None
    first: Start
    on_progress: OnProgress | None
    monitor: RunMonitor
    lineage: LineageReporter | None
    settings: RunSettings = field(init=False)
    writer: Writer = field(init=False)
    stop: threading.Event = field(init=False)
    finished: int = 0
    has_begun: bool = False

    def __post_init__(self) -> None:
        self.writer = self.first.writer
        self.settings, self.stop = self.starts.settings, self.starts.stop

    def run(self) -> None:
        """Run queries until one reaches its end, `stop` is set, or one fails permanently."""
        settings = self.settings
        with ExitStack() as opened:
            kafka_config = self.starts.kafka_config
            topic_names = TopicNames(settings.bootstrap_servers, kafka_config)
            opened.enter_context(closing(topic_names))
            watch = LogWatch(
                self.writer.epoch,
                settings.bootstrap_servers,
                kafka_config,
                timedelta(milliseconds=self.starts.cluster.delete_retention_ms),
                self.starts.rules.refresh,
            )
            opened.enter_context(closing(watch))
            executors = ExecutorWatch(self.session, watch.restart)
            tasks = None
            if self.choice.engine == "spark":
                tasks = SparkEvaluation(self.writer, self.session.newSession(), self.schema)
            jobs = background_jobs(
                *(settings, self.writer, kafka_config, opened, self.monitor, self.lineage), tasks
            )
            if settings.http_port is not None:
                opened.enter_context(listening(self.session, self.monitor))
            if not settings.available_now:
                watches = (
                    Job("log-watch", watch.check, _WATCH_INTERVAL, _WATCH_INTERVAL),
                    Job("executor-watch", executors.check, _WATCH_INTERVAL, _WATCH_INTERVAL),
                )
                for job in (*watches, *jobs):
                    opened.enter_context(
                        beating(
                            job.name,
                            job.interval,
                            job.action,
                            first_after=job.first_after,
                            most_share=job.most_share,
                        )
                    )
            await_executors(self.session, self.stop)
            if settings.available_now:
                # The log ends before and after the load tell how far behind the tables are.
                _run_once(job for job in jobs if not job.first_after)
            Supervisor(
                settings.max_restarts, self.stop, outlasts_outages=not settings.available_now
            ).run(lambda: self._follow(topic_names, watch, executors), lambda: self.finished)
            if settings.available_now:
                _run_once(jobs)

    def _follow(self, topic_names: TopicNames, watch: LogWatch, executors: ExecutorWatch) -> None:
        """Run a query, and another one each time `watch` requests a restart."""
        with self.monitor.query():
            self._run_queries(topic_names, watch, executors)

    def _run_queries(
        self, topic_names: TopicNames, watch: LogWatch, executors: ExecutorWatch
    ) -> None:
        while (start := self._next_start(watch)) is not None:
            self.monitor.loaded(start.progress.rows)
            watch.begin(start)
            rules = ApplyRules(
                semantics=start.progress.semantics,
                release=start.progress.release,
                history_mode=self.settings.history,
                history_resolution=parse_history_resolution(self.settings.history_resolution),
                topic_names=topic_names,
                offsets_retention_ms=self.starts.cluster.offsets_retention_ms,
            )
            apply = MicroBatchApply(
                engine_of(
                    self.choice, self.settings, self.writer, rules, self.session, self.schema
                ),
                start.progress,
                on_progress=partial(self._loaded, start.progress),
                require_awake=watch.suspension.require_none,
            )
            stoppable = StoppableApply(apply, self.stop, threading.Lock(), _reading(start))
            if start.unread:
                enter_stage("starting the query")
            else:
                # The first micro-batch may never come.
                leave_stages()
            try:
                tasks = executors.begin(len(start.log_partitions))
                options = source_options(self.settings, start, tasks, self.choice.engine)
                query = start_query(self.session, self.settings, options, stoppable)
                wait_for_end(
                    query, stoppable, self.stop, (watch.restart, self.writer.epoch.is_fenced)
                )
            except Py4JJavaError as error:
                if (is_full := disk_full(str(error))) is not None:
                    raise is_full from error
                if self.choice.engine == "spark":
                    # A lost executor or an unreachable store may come back.
                    reasons = "; caused by ".join(java_reasons(error.java_exception))
                    raise TablesUnavailable(f"Spark cannot write: {reasons}") from error
                raise
            if self.writer.epoch.is_fenced.is_set():
                self.writer.epoch.require_current()
            if not watch.restart.is_set():
                return

    def _next_start(self, watch: LogWatch) -> Start | None:
        """Return the start of the next query, None if `stop` is set."""
        if self.stop.is_set():
            return None
        if not self.has_begun:
            self.has_begun = True
            return self.first
        try:
            return self.starts.start(self.writer, last_at_end=watch.last_at_end())
        except TimeoutError:
            if not self.stop.is_set():
                raise
            return None

    def _loaded(self, progress: LoadProgress, event: ProgressEvent) -> None:
        self.finished += 1
        self.monitor.loaded(progress.rows)
        if self.on_progress is not None:
            self.on_progress(event)


def _reading(start: Start) -> str:
    """Name the stage of the first micro-batch."""
    if not start.unread:
        return "reading new records"
    # A micro-batch may end earlier, or have records that came since.
    at_start = f"{start.unread:,} record offsets at the start"
    return f"reading {len(start.log_partitions)} log partitions with {at_start}"


def _run_once(jobs: Iterable[Job]) -> None:
    for job in jobs:
        job.action()
