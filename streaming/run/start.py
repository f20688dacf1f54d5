"""The start of a query: the topic, the tables and their reloads."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from streaming.errors import ConfigurationError, TopicMissing
from streaming.kafka.fetch import LogClient
from streaming.kafka.leaders import ELECTION_S, LogDescription
from streaming.kafka.loader_rules import ClusterRules, LoaderRules
from streaming.reload.beginning import begin_reload
from streaming.reload.doubts import (
    DECODABLE,
    REQUESTED,
    Doubt,
    LogEnds,
    decodable_log_partitions,
    find_doubts,
    upgrade_reason,
)
from streaming.reload.requests import forget_requests, requested
from streaming.run.cluster_settings import ClusterSettings
from streaming.run.leaderless import set_leaderless
from streaming.run.other_topics import OpenedTopic, OtherTopics, TopicStarts
from streaming.run.settings import RunSettings
from streaming.run.stages import enter_stage
from streaming.tables import folder as tables_folder
from streaming.tables.clock import utc_now
from streaming.tables.durations import parse_duration
from streaming.tables.load_progress import LoadProgress
from streaming.tables.opening import open_for_writing, recover
from streaming.tables.reader import TableReader
from streaming.tables.schemas import DEFAULT_OFFSETS_RETENTION_MS, STATE_WAITING
from streaming.tables.writer import Writer

if TYPE_CHECKING:
    from streaming.run.monitoring.run_monitor import RunMonitor

logger = logging.getLogger(__name__)

_LEADER_POLL_S = 1.0
_DEFAULT_LOG_PARTITIONS = 50
"""Kafka's default of `offsets.topic.num.partitions`."""
_TOPIC_POLL_S: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Start(OpenedTopic):
    """`__consumer_offsets` as a query reads it, and the writer of its tables.

    `leaderless` are the wanted log partitions without a leader, `log_partitions` the others.
    `others` are the other internal topics. `unread` is the number of record offsets between the
    next offsets and the high watermarks.
    """

    writer: Writer
    progress: LoadProgress
    others: OtherTopics = field(default_factory=OtherTopics)
    unread: int = 0


def require_fit(settings: RunSettings, cluster_id: str) -> None:
    """Refuse a tables folder that no query on this cluster can use.

    This changes nothing, so an older run continues if this one cannot start.

    Raises:
        ConfigurationError: the tables belong to another cluster, or cannot be read.
    """
    if tables_folder.has_tables(settings.tables):
        tables_folder.require_same_source(
            settings.tables, cluster_id=cluster_id, semantics=settings.semantics
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryStarts:
    """Starts the queries of a run, one after another.

    Attributes:
        settings: the settings of the run.
        kafka_config: keyword arguments for kafka-python.
        rules: the loader's rules of the cluster; each start asks for them again.
        cluster: the settings of the cluster.
        topics: starts the other internal topics.
        stop: ends the retries of unreachable brokers.
    """

    settings: RunSettings
    kafka_config: Mapping[str, Any]
    rules: ClusterRules
    cluster: ClusterSettings
    topics: TopicStarts
    stop: threading.Event

    def first(self) -> Start | None:
        """Return the start of the first query, None if `stop` is set before brokers answer.

        Raises:
            ConfigurationError: see `start`.
            TimeoutError: no broker answered for `retry_timeout`, and the settings disable further
                retries (`available_now`, or `max_restarts` 0).
        """
        while True:
            try:
                return self.start(None, last_at_end={})
            except TimeoutError as error:
                if self.stop.is_set():
                    return None
                if self.settings.available_now or not self.settings.max_restarts:
                    raise
                logger.warning("%(error)s; retrying", {"error": error})

    def start(
        self,
        writer: Writer | None,
        *,
        last_at_end: Mapping[int, datetime],
    ) -> Start:
        """Open the tables at their newest snapshot; create them if there are none.

        This begins the necessary reloads.

        Args:
            writer: the run's writer. None at its first query: then this fences an older run.
            last_at_end: when this process last saw each log partition read to its end. An idle log
                partition writes no rows, so the tables may have an earlier time.

        Raises:
            ConfigurationError: the tables belong to another cluster, or cannot be read.
            WriterFenced: a newer run has taken over.
            TimeoutError: no broker answered for the settings' `retry_timeout`, or until `stop`, or
                no log partition has a leader.
        """
        enter_stage("opening the tables")
        settings, is_first = self.settings, writer is None
        retry_timeout_ms = parse_duration(settings.retry_timeout) // timedelta(milliseconds=1)
        with LogClient(
            settings.bootstrap_servers,
            self.kafka_config,
            retry_timeout_ms=retry_timeout_ms,
            has_worked=True,
            stop=self.stop,
        ) as client:
            description = client.describe()
            rules = self.rules.refresh()
            if writer is None:
                writer = _take_over(settings, description, self.cluster, rules)
            else:
                recover(writer)
            progress = LoadProgress.read(TableReader(settings.tables))
            progress.were_at_end(last_at_end)
            description = _await_leaders(client, settings, progress, self.stop)
            self._keep_up_to_date(writer, description)
            wanted = frozenset(settings.log_partitions or description.leaders)
            log_partitions = wanted & description.with_leader
            log_ends = LogEnds.ask(client, progress, log_partitions)
            now = utc_now()
            doubts = find_doubts(
                progress,
                log_ends,
                upgrade=upgrade_reason(progress, rules),
                delete_retention_ms=self.cluster.delete_retention_ms,
                now=now,
            )
            progress.were_at_end(
                {
                    p: now
                    for p, row in progress.rows.items()
                    if p not in doubts
                    and row.next_offset >= log_ends.high_watermarks.get(p, math.inf)
                }
            )
        concerns_all = progress.topic_id != description.topic_id or bool(
            upgrade_reason(progress, rules)
        )
        if not concerns_all:
            # A log partition that this run does not read would never finish its reload.
            doubts = {p: doubt for p, doubt in doubts.items() if p in wanted}
        asked = requested(settings.tables).intersection(wanted)
        # Only an upgrade, and so only a new process, can decode more.
        decodable = (
            decodable_log_partitions(settings.tables, log_ends.log_starts) if is_first else set()
        )
        for reason, reloaded in ((REQUESTED, asked), (DECODABLE, decodable)):
            for log_partition in reloaded & progress.rows.keys():
                kept_below = progress.rows[log_partition].next_offset
                doubts.setdefault(log_partition, Doubt(reason=reason, kept_below=kept_below))
        if doubts or concerns_all:
            progress.semantics, progress.release = rules.semantics, rules.release
            begin_reload(writer, progress, progress, doubts, description)
        forget_requests(settings.tables, asked)
        if set_leaderless(progress, wanted - log_partitions):
            progress.write(writer)
        return Start(
            writer=writer,
            progress=progress,
            log=description,
            log_partitions=log_partitions,
            leaderless=wanted - log_partitions,
            others=self.topics.start(writer, progress),
            unread=_unread(progress, log_ends),
        )

    def _keep_up_to_date(self, writer: Writer, description: LogDescription) -> None:
        """Set the properties of the tables that come from the cluster and the settings."""
        settings = self.settings
        tables_folder.keep_up_to_date(
            writer.epoch,
            log_partitions=len(description.leaders),
            offsets_retention_ms=self.cluster.offsets_retention_ms,
            snapshot_retention=parse_duration(settings.snapshot_retention),
            history=settings.history,
            history_resolution=settings.history_resolution,
            status_rules=self.cluster.limits(settings.status_rules),
            has_external=bool(settings.external),
        )


def _unread(progress: LoadProgress, log_ends: LogEnds) -> int:
    """Return the number of record offsets that are left to read."""
    next_offsets = {
        p: row.next_offset
        for p, row in progress.rows.items()
        if row.is_begun and not row.is_reloading
    }
    return sum(
        max(0, high_watermark - next_offsets.get(p, log_ends.log_starts[p]))
        for p, high_watermark in log_ends.high_watermarks.items()
    )


def _await_leaders(
    client: LogClient,
    settings: RunSettings,
    progress: LoadProgress,
    stop: threading.Event,
) -> LogDescription:
    """Return the topic once the wanted log partitions have leaders, or 30 s have passed.

    This does not wait for log partitions that `load_progress` already lists as leaderless.

    Raises:
        TimeoutError: no log partition has a leader for `retry_timeout`, or until `stop`.
    """
    began_at = time.monotonic()
    patience_s = parse_duration(settings.retry_timeout).total_seconds()
    known = {p for p, row in progress.rows.items() if row.state == STATE_WAITING}
    while True:
        log = client.refresh()
        wanted = frozenset(settings.log_partitions or log.leaders)
        has_any = bool(wanted & log.with_leader)
        if has_any and wanted <= log.with_leader | known:
            return log
        waited_s = time.monotonic() - began_at
        if has_any and waited_s > min(ELECTION_S, patience_s):
            return log
        if waited_s > patience_s or stop.wait(_LEADER_POLL_S):
            raise TimeoutError("no log partition has a leader")


def create_empty(settings: RunSettings, cluster_id: str, rules: LoaderRules) -> None:
    """Create the tables of a cluster without `__consumer_offsets`, unless they exist.

    Raises:
        TablesUnavailable: the tables cannot be created.
    """
    nothing = LoadProgress(
        cluster_id=cluster_id, topic_id="", semantics=rules.semantics, release=rules.release
    )
    # The next `run` corrects the properties that come from the topic and its brokers.
    _create(settings, nothing, _DEFAULT_LOG_PARTITIONS, DEFAULT_OFFSETS_RETENTION_MS)


def _create(
    settings: RunSettings, nothing: LoadProgress, log_partitions: int, offsets_retention_ms: int
) -> None:
    """Create the tables, unless they exist."""
    if not tables_folder.has_tables(settings.tables):
        tables_folder.create(
            settings.tables,
            nothing,
            log_partitions=log_partitions,
            offsets_retention_ms=offsets_retention_ms,
            snapshot_retention=parse_duration(settings.snapshot_retention),
            change_data_feed=settings.change_data_feed,
        )


def _take_over(
    settings: RunSettings,
    log: LogDescription,
    cluster_settings: ClusterSettings,
    rules: LoaderRules,
) -> Writer:
    """Create the tables if there are none, and take over as their writer."""
    nothing = LoadProgress(
        cluster_id=log.cluster_id,
        topic_id=log.topic_id,
        semantics=rules.semantics,
        release=rules.release,
    )
    _create(settings, nothing, len(log.leaders), cluster_settings.offsets_retention_ms)
    # Another run may just have created them, for another cluster.
    tables_folder.require_same_source(
        settings.tables, cluster_id=log.cluster_id, semantics=settings.semantics
    )
    return open_for_writing(settings.tables, "run")


def find_log(
    settings: RunSettings, kafka_config: dict[str, object]
) -> tuple[LogDescription | None, str]:
    """Return the log and the cluster id; the log is None if the topic does not exist yet."""
    try:
        log = _describe(settings, kafka_config)
    except TopicMissing as missing:
        then = "the tables stay empty" if settings.available_now else "waiting for it"
        logger.warning("%(missing)s; %(then)s", {"missing": missing, "then": then})
        return None, missing.cluster_id
    return log, log.cluster_id


def await_log(
    settings: RunSettings,
    kafka_config: dict[str, object],
    monitor: RunMonitor,
    stop: threading.Event,
) -> LogDescription | None:
    """Return the log once the topic exists, None if `stop` is set first.

    Raises:
        ConfigurationError: see `LogClient`.
    """
    while not stop.wait(_TOPIC_POLL_S):
        monitor.triggered()
        # The cluster has already answered, so the full retry timeout applies.
        with suppress(TopicMissing, TimeoutError):
            return _describe(settings, kafka_config, has_worked=True, stop=stop)
    return None


def _describe(
    settings: RunSettings,
    kafka_config: dict[str, object],
    *,
    has_worked: bool = False,
    stop: threading.Event | None = None,
) -> LogDescription:
    with LogClient(
        settings.bootstrap_servers, kafka_config, has_worked=has_worked, stop=stop
    ) as client:
        log = client.describe()
    unknown = set(settings.log_partitions or ()) - set(log.leaders)
    if unknown:
        raise ConfigurationError(
            f"--log-partitions: __consumer_offsets has {len(log.leaders)} partitions, but no "
            f"{', '.join(str(number) for number in sorted(unknown))}"
        )
    return log
