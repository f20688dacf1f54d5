"""Compares the tables with the coordinators' answers while both keep changing.

A broker and the tables cannot be read at the same moment. Each round therefore takes five steps:

1. Ask the broker.
2. Read the high watermarks.
3. Wait until the tables have reached them.
4. Read the tables.
5. Ask the broker again.

If both answers of the broker are equal, the tables must give the same answer. If the answer
changed meanwhile, it is equal if the tables give one of the answers that the broker gave in the
round, which asks the broker again while it waits. The next rounds repeat the groups of all other
answers, until each is compared or the time is over. A difference counts only if two rounds in a row
see it: an answer may have changed and changed back within one round. Pending offsets come and go
with each transaction, so their difference counts only in five rounds in a row.

State that is not in the log is not compared, but noted: a running rebalance of a classic group
exists only in the coordinator's memory.
"""

from __future__ import annotations

import itertools
import logging
import random
import threading
import time
from collections.abc import Callable, Collection, Mapping
from typing import TypeAlias

from coordinator_state.replay.partitioner import partition_for
from streaming.errors import ConfigurationError
from streaming.kafka.client_config import kafka_client_config
from streaming.tables.reader import TableReader
from streaming.verify.answer import AnswerKey, Answers
from streaming.verify.broker_answers import BrokerAnswers
from streaming.verify.table_answers import TableAnswers
from streaming.verify.verification import Verification, compare

logger = logging.getLogger(__name__)

LEAST_ROUNDS = 5
"""Rounds in which a changing answer is compared again, however short the time is."""
DEFAULT_TIMEOUT_S = 60.0
DEFAULT_SETTLE_TIMEOUT_S = 30.0
_POLL_S = 0.2
_MOST_GROUPS_ASKED_AGAIN = 200


OnBehind: TypeAlias = Callable[[Mapping[int, int]], None]
"""Called with the number of record offsets that the tables lack, by log partition."""


def verify(
    broker: BrokerAnswers,
    snapshot: Callable[[], TableAnswers],
    *,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    settle_timeout_s: float = DEFAULT_SETTLE_TIMEOUT_S,
    log_partition_of: Callable[[str], int] = partition_for,
    log_partitions: Collection[int] | None = None,
    group_ids: Collection[str] | None = None,
    on_behind: OnBehind = lambda _behind: None,
) -> Verification:
    """Compare the groups that the broker or the tables know.

    Args:
        broker: the reference side.
        snapshot: opens the newest snapshot of the tables.
        timeout_s: the time per round in which the tables must reach the high watermarks.
        settle_timeout_s: how long answers that change meanwhile are compared again.
        log_partition_of: the log partition of a group.
        log_partitions: compares only groups of these log partitions.
        group_ids: compares only these groups.
        on_behind: is called while the tables are behind the high watermarks.
    """

    def is_wanted(log_partition: int) -> bool:
        return log_partitions is None or log_partition in log_partitions

    result = Verification()
    rounds_differing: Mapping[AnswerKey, int] = {}
    compared: set[AnswerKey] = set()
    groups: set[str] | None = None if group_ids is None else set(group_ids)
    deadline = time.monotonic() + settle_timeout_s
    for round_number in itertools.count(1):
        seen = _compared_once(broker, snapshot, groups, is_wanted, timeout_s, on_behind)
        if seen.behind:
            return seen
        seen.forget(lambda group: not is_wanted(log_partition_of(group)))
        seen.settle(compared)
        compared |= seen.equal
        rounds_differing = {key: rounds_differing.get(key, 0) + 1 for key in seen.differing}
        unconfirmed = {key for key, rounds in rounds_differing.items() if rounds < _rounds(key)}
        result.forget((groups or set()).__contains__)
        result.add(seen)
        unsettled = seen.moving | unconfirmed
        if not unsettled:
            break
        if round_number >= LEAST_ROUNDS and time.monotonic() >= deadline:
            # Too few rounds saw these differences: the answers may have changed and changed back.
            result.moving |= unconfirmed
            for key in unconfirmed:
                del result.differing[key]
            break
        logger.info(
            "round %(round)s: %(answers)s answers changed or differ; checking them again",
            {"round": round_number, "answers": len(unsettled)},
        )
        groups = {key.group_id for key in seen.moving | seen.differing.keys()}
        if round_number >= LEAST_ROUNDS:
            threading.Event().wait(_POLL_S)
    return result


def _rounds(key: AnswerKey) -> int:
    """The rounds in a row that must see a difference."""
    return LEAST_ROUNDS if key.kind == "pending" else 2


def _compared_once(
    broker: BrokerAnswers,
    snapshot: Callable[[], TableAnswers],
    groups: Collection[str] | None,
    is_wanted: Callable[[int], bool],
    timeout_s: float,
    on_behind: OnBehind,
) -> Verification:
    """The result of one round."""
    pending = snapshot().pending(groups)
    before, meanwhile = broker.answers(groups, pending), list[Answers]()
    ends = {at: end for at, end in broker.high_watermarks().items() if is_wanted(at)}

    def ask_again(behind: Mapping[int, int]) -> None:
        on_behind(behind)
        if groups is not None and len(groups) <= _MOST_GROUPS_ASKED_AGAIN:
            meanwhile.append(broker.answers(groups, pending))

    tables = _caught_up(snapshot, ends, timeout_s, ask_again)
    if isinstance(tables, dict):
        return Verification(behind=tables)
    table_answers = tables.answers(groups, broker.topic_names(tables.topic_ids(groups)))
    return compare(before, table_answers, broker.answers(groups, pending), meanwhile)


def verify_cluster(
    bootstrap_servers: str,
    tables: str,
    *,
    kafka: Mapping[str, str] | None = None,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    settle_timeout_s: float = DEFAULT_SETTLE_TIMEOUT_S,
    log_partitions: Collection[int] | None = None,
    group_count: int | None = None,
    on_behind: OnBehind = lambda _behind: None,
) -> Verification:
    """Compare the tables of a folder with their cluster.

    Args:
        bootstrap_servers: HOST:PORT, separated by commas.
        tables: the tables folder.
        kafka: settings of the Kafka client.
        timeout_s: the time per round in which the tables must reach the high watermarks.
        settle_timeout_s: how long answers that change meanwhile are compared again.
        log_partitions: compares only these. By default all partitions of `__consumer_offsets`
            count, also those that are not in the tables yet.
        group_count: compares only so many groups, a random sample of those that either side knows.
        on_behind: is called while the tables are behind the high watermarks.

    Raises:
        ConfigurationError: there is no broker, there are no tables, the tables belong to another
            cluster or topic, or an ACL is missing.
    """
    reader = TableReader(tables).of_kafka()
    with BrokerAnswers(bootstrap_servers, kafka_client_config(kafka or {})) as broker:
        log = broker.describe_log()
        log.require_same_log(cluster_id=reader.cluster_id, topic_id=reader.topic_id)
        if len(log.leaders) != reader.log_partitions:
            raise ConfigurationError(
                f"{tables} was created when {log.topic} had {reader.log_partitions} partitions; "
                f"now it has {len(log.leaders)}, and groups are in other log partitions"
            )
        verification = verify(
            broker,
            lambda: TableAnswers(TableReader(tables).of_kafka()),
            timeout_s=timeout_s,
            settle_timeout_s=settle_timeout_s,
            log_partition_of=lambda group: partition_for(group, reader.log_partitions),
            log_partitions=log_partitions,
            group_ids=None if group_count is None else _sample(broker, reader, group_count),
            on_behind=on_behind,
        )
        broker.require_authorised(verification.unreported_topics)
        return verification


def _sample(broker: BrokerAnswers, reader: TableReader, group_count: int) -> list[str]:
    known = sorted(broker.group_ids() | TableAnswers(reader).group_ids)
    return random.sample(known, min(group_count, len(known)))


def _caught_up(
    snapshot: Callable[[], TableAnswers],
    high_watermarks: Mapping[int, int],
    timeout_s: float,
    ask_again: OnBehind,
) -> TableAnswers | dict[int, int]:
    """The first snapshot that has reached the high watermarks, or else the missing offsets.

    After the timeout returns the number of missing record offsets by log partition. Calls
    `ask_again` with it while it waits.
    """
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
        ask_again(behind)
