"""The internal topics that a query follows besides `__consumer_offsets`.

They never stop the load of offsets. A topic that does not exist yet, or whose leaders do not
answer, is followed later. A topic without an ACL is left out.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from coordinator_state.records.internal_topics import SHARE_STATE_TOPIC
from streaming.errors import LogChanged, NotAuthorised, TopicMissing
from streaming.kafka.fetch import LogClient
from streaming.kafka.group_admin import GroupAdmin
from streaming.kafka.leaders import LogDescription
from streaming.reload.beginning import begin_reload
from streaming.reload.doubts import LogEnds, find_doubts
from streaming.run.cluster_settings import delete_retention_ms
from streaming.run.leaderless import set_leaderless
from streaming.run.settings import ALL_TOPICS, RunSettings
from streaming.tables.clock import utc_now
from streaming.tables.load_progress import LoadProgress
from streaming.tables.topic_progress import TopicProgress
from streaming.tables.writer import Writer

logger = logging.getLogger(__name__)

Leaders = Mapping[int, tuple[int, int]]
"""Log partition -> (node id, leader epoch)."""

_RETRY_MS: Final = 5_000
_FOLLOWED: Final = "also following %(topic)s"
_MISSING: Final = "there is no topic %(topic)s yet; following it once it is created"
_AWAY: Final = "cannot read %(topic)s: %(error)s; reading the other topics and retrying"
_LEFT_OUT: Final = (
    "not following %(topic)s: %(error)s; add the ACLs and restart, or name the topics to follow "
    "with --topics"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedTopic:
    """An internal topic that a query reads: its log partitions with and without a leader."""

    log: LogDescription
    progress: TopicProgress
    log_partitions: frozenset[int]
    leaderless: frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherTopics:
    """The topics that a query reads, and those that it cannot read yet.

    `awaited` has the leaders of these topics as of the start; None if the topic does not exist, or
    no broker described it.
    """

    followed: tuple[OpenedTopic, ...] = ()
    awaited: Mapping[str, Leaders | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicStarts:
    """Starts the topics of a query.

    `stop` ends the retries of unreachable brokers. `logged` are the lines about topics, and
    `delete_retention_ms` is that of each topic; both are kept between queries.
    """

    settings: RunSettings
    kafka_config: Mapping[str, Any]
    stop: threading.Event
    logged: set[tuple[str, str]] = field(default_factory=set)
    delete_retention_ms: dict[str, int] = field(default_factory=dict)

    def start(self, writer: Writer, progress: LoadProgress) -> OtherTopics:
        """Open the topics at the progress of the tables, and begin the necessary reloads.

        Raises:
            NotAuthorised: `--topics` names a topic that the ACLs do not allow to read.
            WriterFenced: a newer run has taken over.
            TimeoutError: `stop` was set before brokers answered.
        """
        awaited: dict[str, Leaders | None] = {}
        before = _written(progress)
        opened = [
            self._opened(topic, writer, progress, awaited) for topic in self.settings.other_topics
        ]
        followed = tuple(other_topic for other_topic in opened if other_topic is not None)
        for topic in progress.others.keys() - {other_topic.log.topic for other_topic in followed}:
            # Its tables are not those of the current log.
            progress.others[topic].set_leaderless(progress.others[topic].rows)
        # Without rows of `__consumer_offsets` no snapshot has versions of tables yet.
        if _written(progress) != before and progress.rows:
            progress.write_others(writer, utc_now())
            progress.write(writer)
        return OtherTopics(followed=followed, awaited=awaited)

    def _opened(
        self,
        topic: str,
        writer: Writer,
        progress: LoadProgress,
        awaited: dict[str, Leaders | None],
    ) -> OpenedTopic | None:
        """Open one topic; None if it is left out, or added to `awaited`."""
        client = LogClient(
            self.settings.bootstrap_servers,
            self.kafka_config,
            topic,
            # `OtherTopicsWatch` retries later.
            has_worked=True,
            retry_timeout_ms=_RETRY_MS,
            stop=self.stop,
        )
        leaders: Leaders | None = None
        with client:
            try:
                leaders = client.describe().leaders
                other_topic = self._topic(client, writer, progress)
            except NotAuthorised as error:
                if self.settings.topics != ALL_TOPICS:
                    raise
                self._log_once(_LEFT_OUT, topic, error)
                return None
            except TopicMissing:
                self._log_once(_MISSING, topic)
            except (LogChanged, TimeoutError) as error:
                if self.stop.is_set():
                    raise
                logger.warning(_AWAY, {"topic": topic, "error": error})
            else:
                if other_topic.log_partitions:
                    self._log_once(_FOLLOWED, topic)
                    return other_topic
        awaited[topic] = leaders
        return None

    def _topic(self, client: LogClient, writer: Writer, progress: LoadProgress) -> OpenedTopic:
        log = client.describe()
        log_partitions = log.with_leader
        with suppress(LogChanged):
            # Offsets are listed with the ACL Describe, records are fetched with Read.
            client.fetch(client.earliest_offsets(log_partitions), 1, 1, max_wait_ms=0)
        topic_progress = progress.others.setdefault(
            log.topic, TopicProgress(topic=log.topic, topic_id=log.topic_id)
        )
        doubts = find_doubts(
            topic_progress,
            LogEnds.ask(client, topic_progress, log_partitions),
            delete_retention_ms=self._delete_retention_ms(log.topic),
            now=utc_now(),
        )
        if doubts or topic_progress.topic_id != log.topic_id:
            begin_reload(writer, progress, topic_progress, doubts, log)
        leaderless = frozenset(log.leaders) - log_partitions
        set_leaderless(topic_progress, leaderless)
        return OpenedTopic(
            log=log, progress=topic_progress, log_partitions=log_partitions, leaderless=leaderless
        )

    def _delete_retention_ms(self, topic: str) -> int | None:
        """The topic's `delete.retention.ms`, or its default if it cannot be read.

        `__share_group_state` is not compacted.
        """
        if topic == SHARE_STATE_TOPIC:
            return None
        if topic not in self.delete_retention_ms:
            with GroupAdmin(self.settings.bootstrap_servers, self.kafka_config) as admin:
                self.delete_retention_ms[topic] = delete_retention_ms(admin, topic)
        return self.delete_retention_ms[topic]

    def _log_once(self, line: str, topic: str, error: NotAuthorised | None = None) -> None:
        """Log a line about a topic, unless an earlier query of the run has logged it."""
        if (line, topic) not in self.logged:
            self.logged.add((line, topic))
            level = logging.INFO if error is None else logging.WARNING
            logger.log(level, line, {"topic": topic, "error": error})


def _written(progress: LoadProgress) -> list[tuple[Any, ...]]:
    """The rows of `topic_progress`, and the versions of the tables that reloads have changed."""
    rows = [
        (topic_progress.topic, topic_progress.topic_id, topic_progress.places())
        for topic_progress in progress.others.values()
    ]
    return [*rows, *sorted(progress.table_versions.items())]
