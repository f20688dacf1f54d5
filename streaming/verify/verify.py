"""The tables against the coordinators' own answers, while both go on moving.

An answer cannot be read off a broker and off the tables at the same moment. So each round asks
the broker, notes the high watermarks, waits until the tables have got there, reads the tables,
and asks the broker again. A key that the broker answered alike both times did not move in
between, so the tables must say the same. Whatever moved, or differs, is asked again in the next
round with its groups alone: a difference counts only when two rounds in a row see it, for a key
may also have gone there and back.

What the log does not tell is not compared but noted: rebalances of classic groups that are under
way live in the coordinator's memory only.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Protocol

from coordinator_state.replay.partitioner import partition_for
from streaming.errors import ConfigurationError
from streaming.kafka.client_config import kafka_client_config
from streaming.tables.reader import TableReader
from streaming.verify.answer import Answers
from streaming.verify.broker_answers import BrokerAnswers
from streaming.verify.table_answers import TableAnswers
from streaming.verify.verification import Verification, compare

logger = logging.getLogger(__name__)

MOST_ROUNDS = 5
DEFAULT_TIMEOUT_S = 60.0
_POLL_S = 0.2


class Broker(Protocol):
    """The side that is right: `streaming.verify.broker_answers.BrokerAnswers` and `LogClient`."""

    def answers(
        self,
        group_ids: Collection[str] | None = None,
        pending: Iterable[tuple[str, str, int]] = (),
    ) -> Answers:
        """What the coordinators answer now."""

    def high_watermarks(self) -> Mapping[int, int]:
        """The high watermark of every log partition."""

    def topic_names(self, topic_ids: Collection[str]) -> Mapping[str, str]:
        """Names by topic id of those topics that the cluster has."""


class Tables(Protocol):
    """One snapshot of the side to check: `streaming.verify.table_answers.TableAnswers`."""

    @property
    def next_offsets(self) -> Mapping[int, int]:
        """Up to where each log partition is applied."""

    def topic_ids(self, group_ids: Collection[str] | None = None) -> set[str]:
        """Topic ids that assignments of these groups' members name, or of all of them."""

    def pending(self, group_ids: Collection[str] | None = None) -> set[tuple[str, str, int]]:
        """The (group, topic, partition)s with a pending offset."""

    def answers(
        self,
        group_ids: Collection[str] | None = None,
        topic_names: Mapping[str, str] | None = None,
    ) -> Answers:
        """What the tables answer; topics are those that the cluster has."""


def verify(
    broker: Broker,
    snapshot: Callable[[], Tables],
    *,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    log_partition_of: Callable[[str], int] = partition_for,
    log_partitions: Collection[int] | None = None,
    group_ids: Collection[str] | None = None,
) -> Verification:
    """Compare every group, those of some log partitions, or those named, that either side knows.

    `snapshot` opens the newest state of the tables. `timeout_s` bounds how long they may take in
    each round to reach the high watermarks noted after the broker's first answers.
    """

    def is_wanted(log_partition: int) -> bool:
        return log_partitions is None or log_partition in log_partitions

    result = Verification()
    groups: set[str] | None = None if group_ids is None else set(group_ids)
    for round_number in range(1, MOST_ROUNDS + 1):
        pending = snapshot().pending(groups)
        before = broker.answers(groups, pending)
        ends = {at: end for at, end in broker.high_watermarks().items() if is_wanted(at)}
        tables = _caught_up(snapshot, ends, timeout_s)
        if isinstance(tables, dict):
            return Verification(behind=tables)
        found = tables.answers(groups, broker.topic_names(tables.topic_ids(groups)))
        after = broker.answers(groups, pending)
        seen = compare(before, found, after)
        seen.forget(lambda group: not is_wanted(log_partition_of(group)))
        unconfirmed = seen.differing.keys() - result.differing.keys()
        result.forget((groups or set()).__contains__)
        result.add(seen)
        unsettled = seen.moving | unconfirmed
        if not unsettled:
            break
        logger.info(
            "round %(round)s: %(answers)s answers to look at again",
            {"round": round_number, "answers": len(unsettled)},
        )
        groups = {key.group_id for key in seen.moving | seen.differing.keys()}
    else:
        # Seen once only: it may have moved there and back.
        result.moving |= unconfirmed
        for key in unconfirmed:
            del result.differing[key]
    return result


def verify_cluster(
    bootstrap_servers: str,
    tables: str,
    *,
    kafka: Mapping[str, str] | None = None,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    log_partitions: Collection[int] | None = None,
    group_count: int | None = None,
) -> Verification:
    """Compare the tables of a folder with the cluster they were made from.

    `log_partitions` limits it to these; without, every partition of `__consumer_offsets` counts,
    also one that the tables do not hold yet. `group_count` limits it to so many groups, chosen at
    random among those that either side knows.

    Raises:
        ConfigurationError: no broker, no tables, tables of another cluster or topic, or no right to
            see what the broker has.
    """
    reader = TableReader(tables)
    with BrokerAnswers(bootstrap_servers, kafka_client_config(kafka or {})) as broker:
        log = broker.describe_log()
        log.require_same_log(cluster_id=reader.cluster_id, topic_id=reader.topic_id)
        if len(log.leaders) != reader.log_partitions:
            raise ConfigurationError(
                f"{tables} was made when {log.topic} had {reader.log_partitions} partitions, now "
                f"it has {len(log.leaders)}: groups live in other log partitions now"
            )
        verification = verify(
            broker,
            lambda: TableAnswers(TableReader(tables)),
            timeout_s=timeout_s,
            log_partition_of=lambda group: partition_for(group, reader.log_partitions),
            log_partitions=log_partitions,
            group_ids=None if group_count is None else _sample(broker, reader, group_count),
        )
        broker.require_authorised(verification.topics_not_told)
        return verification


def _sample(broker: BrokerAnswers, reader: TableReader, group_count: int) -> list[str]:
    known = sorted(broker.group_ids() | TableAnswers(reader).group_ids)
    return random.sample(known, min(group_count, len(known)))


def _caught_up(
    snapshot: Callable[[], Tables], high_watermarks: Mapping[int, int], timeout_s: float
) -> Tables | dict[int, int]:
    """The first snapshot that holds every record below the high watermarks, or what it lacks."""
    deadline = time.monotonic() + timeout_s
    never = threading.Event()
    while True:
        tables = snapshot()
        next_offsets = tables.next_offsets
        behind = {
            log_partition: high_watermark - next_offsets.get(log_partition, 0)
            for log_partition, high_watermark in high_watermarks.items()
            if next_offsets.get(log_partition, 0) < high_watermark
        }
        if not behind:
            return tables
        if time.monotonic() >= deadline:
            return behind
        never.wait(_POLL_S)
