"""The internal topics that a query follows besides `__consumer_offsets`.

They are followed as far as they exist and can be read, and never stop the load of offsets: a topic
that does not exist yet is followed once it does, and one without an ACL is left out.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from typing import Any, Final

from coordinator_state.records.internal_topics import SHARE_STATE_TOPIC
from streaming.errors import ConfigurationError, LogChanged, NotAuthorised, TopicMissing
from streaming.kafka.fetch import LogClient, LogDescription
from streaming.kafka.group_admin import GroupAdmin
from streaming.reload.doubts import LogEnds, find_doubts
from streaming.reload.topic_reload import begin_topic_reload
from streaming.run.settings import ALL_TOPICS, RunSettings
from streaming.tables.durations import parse_duration
from streaming.tables.load_progress import LoadProgress
from streaming.tables.topic_progress import TopicProgress
from streaming.tables.writer import Writer

logger = logging.getLogger(__name__)

DEFAULT_DELETE_RETENTION_MS: Final = 24 * 60 * 60 * 1000
"""Kafka's default of `delete.retention.ms`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherTopic:
    """A topic that a query reads: its log partitions with and without a leader."""

    log: LogDescription
    progress: TopicProgress
    log_partitions: frozenset[int]
    leaderless: frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherTopics:
    """The topics that a query reads, and those that do not exist yet or have no leader."""

    followed: tuple[OtherTopic, ...] = ()
    awaited: frozenset[str] = frozenset()

    @property
    def log_partitions(self) -> dict[str, frozenset[int]]:
        """The log partitions that the query reads, by topic."""
        return {one.log.topic: one.log_partitions for one in self.followed}


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicStarts:
    """Starts the topics of a query.

    `stop` ends the retries of unreachable brokers. `told` are the lines about topics that are
    logged, and `delete_retention_ms` has that of each topic; both are kept between queries.
    """

    settings: RunSettings
    kafka_config: Mapping[str, Any]
    stop: threading.Event
    told: set[str] = field(default_factory=set)
    delete_retention_ms: dict[str, int] = field(default_factory=dict)

    def start(self, writer: Writer, progress: LoadProgress) -> OtherTopics:
        """Open the topics at the progress of the tables, and begin the necessary reloads.

        Raises:
            NotAuthorised: `--topics` names a topic that the ACLs do not allow to read.
            WriterFenced: a newer run has taken over.
            TimeoutError: no broker answered for the settings' `retry_timeout`, or until `stop`.
        """
        followed, awaited = [], set()
        patience_ms = parse_duration(self.settings.retry_timeout) // timedelta(milliseconds=1)
        before = _written(progress)
        for topic in self.settings.other_topics:
            client = LogClient(
                self.settings.bootstrap_servers,
                self.kafka_config,
                topic,
                # The cluster has already answered, so the full retry timeout applies.
                first_contact_timeout_ms=patience_ms,
                retry_timeout_ms=patience_ms,
                stop=self.stop,
            )
            with closing(client):
                try:
                    found = self._topic(client, writer, progress)
                except TopicMissing:
                    awaited.add(topic)
                except NotAuthorised as error:
                    if self.settings.topics != ALL_TOPICS:
                        raise
                    self._tell(topic, error)
                else:
                    if found.log_partitions:
                        followed.append(found)
                    else:
                        awaited.add(topic)
        reads = {one.log.topic for one in followed}
        for topic in progress.others.keys() - reads:
            # Its tables are not those of the current log.
            progress.others[topic].set_leaderless(progress.others[topic].rows)
        # Without rows of `__consumer_offsets` no snapshot has versions of tables yet.
        if _written(progress) != before and progress.rows:
            progress.write_others(writer, datetime.now(timezone.utc))
            progress.write(writer)
        self._tell_followed(reads, awaited)
        return OtherTopics(followed=tuple(followed), awaited=frozenset(awaited))

    def _topic(self, client: LogClient, writer: Writer, progress: LoadProgress) -> OtherTopic:
        log = client.describe()
        log_partitions = log.with_leader
        with suppress(LogChanged):
            # Offsets are listed with the ACL Describe, records are fetched with Read.
            client.fetch(client.earliest_offsets(log_partitions), 1, 1, max_wait_ms=0)
        of_topic = progress.others.setdefault(
            log.topic, TopicProgress(topic=log.topic, topic_id=log.topic_id)
        )
        log_ends = LogEnds.ask(client, of_topic, log_partitions)
        doubts = find_doubts(
            of_topic,
            log_ends,
            delete_retention_ms=self._delete_retention_ms(log.topic),
            now=datetime.now(timezone.utc),
        )
        if log.topic == SHARE_STATE_TOPIC:
            # Share coordinators delete records that later snapshots make redundant.
            doubts = {
                p: replace(doubt, lost="") if log_ends.log_starts[p] > doubt.kept_below else doubt
                for p, doubt in doubts.items()
            }
        if doubts or of_topic.topic_id != log.topic_id:
            begin_topic_reload(writer, progress, doubts, log)
        leaderless = frozenset(log.leaders) - log_partitions
        if of_topic.set_leaderless(leaderless) and leaderless:
            logger.warning(
                "log partitions of %(topic)s without a leader: %(waiting)s; reading the others, "
                "and these once they have a leader",
                {"topic": log.topic, "waiting": ", ".join(map(str, sorted(leaderless)))},
            )
        return OtherTopic(
            log=log, progress=of_topic, log_partitions=log_partitions, leaderless=leaderless
        )

    def _delete_retention_ms(self, topic: str) -> int:
        """The topic's `delete.retention.ms`, or its default if it cannot be read."""
        if topic not in self.delete_retention_ms:
            found = DEFAULT_DELETE_RETENTION_MS
            with GroupAdmin(self.settings.bootstrap_servers, self.kafka_config) as admin:
                try:
                    found = admin.delete_retention_ms(topic)
                except (ConfigurationError, TimeoutError) as error:
                    logger.info("%(error)s; assuming 24 hours", {"error": error})
            self.delete_retention_ms[topic] = found
        return self.delete_retention_ms[topic]

    def _tell_followed(self, followed: Collection[str], awaited: Collection[str]) -> None:
        """Log which topics are followed, and which will be, if this has changed."""
        parts = [f"also following {', '.join(sorted(followed))}"] if followed else []
        parts += (
            [f"{', '.join(sorted(awaited))} will be followed once it exists"] if awaited else []
        )
        line = "; ".join(parts)
        if line and line not in self.told:
            self.told.add(line)
            logger.info("%(line)s", {"line": line})

    def _tell(self, topic: str, error: NotAuthorised) -> None:
        if topic not in self.told:
            self.told.add(topic)
            logger.warning(
                "%(topic)s is left out: %(error)s; add the ACLs and restart, or name the topics to "
                "follow with --topics",
                {"topic": topic, "error": error},
            )


def _written(progress: LoadProgress) -> list[tuple[Any, ...]]:
    """The rows of `topic_progress`, and the versions of the tables that reloads have changed."""
    rows = [(one.topic, one.topic_id, one.places()) for one in progress.others.values()]
    return [*rows, *sorted(progress.table_versions.items())]
