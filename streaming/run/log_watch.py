"""Checks, beside a running query, that decide on its restart or end."""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from streaming.errors import ConfigurationError, LogChanged
from streaming.kafka.client import TRIES_ONCE_MS
from streaming.kafka.fetch import LogClient
from streaming.kafka.leaders import ELECTION_S, LogDescription, of_topic
from streaming.kafka.loader_rules import LoaderRules
from streaming.reload.doubts import rules_changed
from streaming.reload.requests import requested
from streaming.run.leaderless import numbers_text
from streaming.run.other_topics import OpenedTopic, OtherTopics
from streaming.run.suspension import Suspension
from streaming.tables.clock import clock_s, utc_now
from streaming.tables.schemas import STATE_CURRENT, STATE_LOADING
from streaming.tables.writer_epoch import WriterEpoch

if TYPE_CHECKING:
    from streaming.run.start import Start

logger = logging.getLogger(__name__)

_RULES_INTERVAL_S = 300.0
_RETRY_AWAITED_S: Final = 300.0
"""Until then, a topic that could not be read is tried again only if its leaders change."""


class LogWatch:
    """Checks conditions that a query cannot detect itself.

    These are a newer writer, reload requests, a changed number of log partitions, log partitions
    that lose or get a leader, log partitions that were not read to their end for longer than
    `delete.retention.ms`, an upgrade of the cluster that changes the loader's rules, and changes of
    the other internal topics. Sets `restart` if the query must restart, or the epoch's `is_fenced`
    if it must end.

    Args:
        epoch: the writer epoch of the run.
        bootstrap_servers: HOST:PORT, several separated by commas.
        kafka_config: keyword arguments for kafka-python.
        delete_retention: the topic's `delete.retention.ms`.
        ask_rules: asks the cluster for the loader's rules, without retries.
        clock: a clock in seconds that a suspend of the machine does not stop.

    Attributes:
        suspension: the check whether the machine was suspended for too long.
    """

    def __init__(
        self,
        epoch: WriterEpoch,
        bootstrap_servers: str,
        kafka_config: Mapping[str, Any],
        delete_retention: timedelta,
        ask_rules: Callable[[], LoaderRules],
        clock: Callable[[], float] = clock_s,
    ) -> None:
        self.restart = threading.Event()
        self._epoch = epoch
        new_client = partial(
            LogClient,
            bootstrap_servers,
            kafka_config,
            has_worked=True,
            retry_timeout_ms=TRIES_ONCE_MS,
        )
        self._offsets = TopicWatch(new_client, clock, needs_leader=True)
        self._others = OtherTopicsWatch(lambda topic: new_client(topic=topic), clock)
        self._delete_retention_s = delete_retention.total_seconds()
        self.suspension = Suspension(self._delete_retention_s)
        self._ask_rules = ask_rules
        self._clock = clock
        self._leaders_of_rules: Mapping[int, tuple[int, int]] = {}
        self._rules_asked_at = clock()
        self._start: Start | None = None
        self._at_end_at: dict[int, float] = {}
        self._current_at: defaultdict[int, datetime | None] = defaultdict(lambda: None)

    def begin(self, start: Start) -> None:
        """Record that a query starts."""
        self._start = start
        self._offsets.begin(start)
        self._others.begin(start.others)
        self._leaders_of_rules = start.log.leaders
        self._rules_asked_at = self._clock()
        self._current_at.update({p: row.current_at for p, row in start.progress.rows.items()})
        # A load or reload that has not reached the end has no time limit.
        self._at_end_at = {
            p: self._clock_at(row.current_at)
            for p, row in start.progress.rows.items()
            if p in start.log_partitions and row.current_at and row.state != STATE_LOADING
        }
        self.suspension.begin()
        self.restart.clear()

    def last_at_end(self) -> dict[int, datetime]:
        """Return when each log partition was last read to its end, by this machine's clock."""
        now_s, now = self._clock(), utc_now()
        return {p: now - timedelta(seconds=now_s - at) for p, at in self._at_end_at.items()}

    def check(self) -> None:
        """Check once; a failed check is retried at the next interval."""
        start = self._start
        if start is None:
            return
        try:
            self._epoch.require_current()
            self.suspension.require_none()
            reason = next(self._reasons(start), None)
        except LogChanged as error:
            reason = str(error)
        except (ConfigurationError, TimeoutError) as error:
            logger.debug("cannot check the log: %(error)s", {"error": error})
            return
        if reason is not None:
            logger.info("restarting the query: %(reason)s", {"reason": reason})
            self.restart.set()

    def close(self) -> None:
        """Close the connections."""
        self._offsets.client.close()
        self._others.close()

    def _reasons(self, start: Start) -> Iterator[str]:
        """Yield the reasons why the query must restart."""
        if requested(self._epoch.tables) & (start.log_partitions | start.leaderless):
            yield "a reload of log partitions is requested"
        log = self._offsets.refreshed()
        yield from self._offsets.changes(start, log)
        if behind := self._behind_for_too_long(start, log):
            yield (
                f"log partitions not read to their end for longer than delete.retention.ms: "
                f"{numbers_text(behind)}"
            )
        if (rules := self._changed_rules(start, log)) is not None:
            yield f"the brokers load the log by the rules {rules} now"
        yield from self._others.reasons()

    def _changed_rules(self, start: Start, log: LogDescription) -> LoaderRules | None:
        """Return other rules than those of the tables.

        A broker that restarts with another version moves the leaders, if it has any.
        """
        is_due = self._clock() - self._rules_asked_at >= _RULES_INTERVAL_S
        if log.leaders == self._leaders_of_rules and not is_due:
            return None
        rules = self._ask_rules()
        self._leaders_of_rules, self._rules_asked_at = log.leaders, self._clock()
        return rules if rules_changed(start.progress, rules) else None

    def _behind_for_too_long(self, start: Start, log: LogDescription) -> set[int]:
        """Return the log partitions whose tombstones may be deleted before they are read."""
        now_s = self._clock()
        rows = start.progress.rows
        log_ends = self._offsets.client.high_watermarks(start.log_partitions & log.with_leader)
        for log_partition, log_end in log_ends.items():
            row = rows.get(log_partition)
            if row is None or row.is_reloading:
                continue
            if row.next_offset >= log_end:
                self._at_end_at[log_partition] = now_s
            elif row.state == STATE_CURRENT and row.current_at != self._current_at[log_partition]:
                # On a busy log partition only the micro-batches observe that the end is reached.
                self._at_end_at[log_partition] = now_s
            self._current_at[log_partition] = row.current_at
        return {p for p, at in self._at_end_at.items() if now_s - at > self._delete_retention_s}

    def _clock_at(self, moment: datetime) -> float:
        """Convert a moment in the past to the time of the clock."""
        return self._clock() - (utc_now() - moment).total_seconds()


@dataclass(slots=True)
class TopicWatch:
    """Finds changes of the partitions of a topic, and of their leaders.

    Args:
        new_client: makes a client, which tries each request once: the next check is the retry.
        clock: a monotonic clock in seconds.
        needs_leader: whether a query cannot start while no log partition has a leader.
    """

    new_client: Callable[[], LogClient]
    clock: Callable[[], float]
    needs_leader: bool = False
    client: LogClient = field(init=False)
    _led_at: dict[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.client = self.new_client()

    def begin(self, topic: OpenedTopic) -> None:
        """Record that a query starts."""
        self._led_at = dict.fromkeys(topic.log_partitions, self.clock())

    def refreshed(self) -> LogDescription:
        """The current description of the topic; raises as `LogClient.refresh`."""
        try:
            return self.client.refresh()
        except LogChanged:
            # A client refuses a topic id other than the first that it saw.
            self.client.close()
            self.client = self.new_client()
            raise

    def changes(self, topic: OpenedTopic, log: LogDescription) -> Iterator[str]:
        """Yield the changes since the start of the query, by the current description.

        A log partition is leaderless if it has no leader for longer than an election takes.
        """
        name = log.topic
        if log.leaders.keys() != topic.log.leaders.keys():
            yield (
                f"{name} now has {len(log.leaders)} partitions, previously {len(topic.log.leaders)}"
            )
        if recovered := topic.leaderless & log.with_leader:
            yield f"log partitions{of_topic(name)} have a leader again: {numbers_text(recovered)}"
        now_s = self.clock()
        self._led_at.update(dict.fromkeys(topic.log_partitions & log.with_leader, now_s))
        leaderless = {p for p, led_at in self._led_at.items() if now_s - led_at >= ELECTION_S}
        if leaderless and (topic.log_partitions & log.with_leader or not self.needs_leader):
            yield f"log partitions{of_topic(name)} without a leader: {numbers_text(leaderless)}"


@dataclass(slots=True)
class OtherTopicsWatch:
    """Finds the reasons to restart a query: topics that appear, and changes of their partitions.

    Args:
        new_client: makes a client of a topic, see `TopicWatch`.
        clock: a monotonic clock in seconds.
    """

    new_client: Callable[[str], LogClient]
    clock: Callable[[], float]
    _topics: OtherTopics = field(default_factory=OtherTopics)
    _watches: dict[str, TopicWatch] = field(default_factory=dict)
    _began_at: float = 0.0

    def begin(self, topics: OtherTopics) -> None:
        """Record that a query starts."""
        self._topics, self._began_at = topics, self.clock()
        for topic in topics.followed:
            self._watch(topic.log.topic).begin(topic)

    def reasons(self) -> Iterator[str]:
        """Yield the reasons; a topic that cannot be checked now has none."""
        for name, before in sorted(self._topics.awaited.items()):
            # If it was recreated, the next check has a new client.
            with suppress(LogChanged, ConfigurationError, TimeoutError):
                log = self._watch(name).refreshed()
                is_due = self.clock() - self._began_at >= _RETRY_AWAITED_S
                if log.with_leader and (log.leaders != before or is_due):
                    yield f"topic {name} can be read now"
        for topic in self._topics.followed:
            watch = self._watch(topic.log.topic)
            try:
                yield from watch.changes(topic, watch.refreshed())
            except LogChanged as error:
                yield str(error)
            except (ConfigurationError, TimeoutError):
                continue

    def close(self) -> None:
        """Close the connections."""
        for watch in self._watches.values():
            watch.client.close()

    def _watch(self, topic: str) -> TopicWatch:
        if topic not in self._watches:
            self._watches[topic] = TopicWatch(partial(self.new_client, topic), self.clock)
        return self._watches[topic]
