"""Logs for one broker round: one for each log partition, drawn so that a broker loads them.

A coordinator that cannot load one record answers nothing of its log partition at all. So what the
strict reference loader refuses is left out of most logs; a few end with it, and the broker must
refuse those.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from coordinator_state.errors import ReplayError
from coordinator_state.log.record_batch import read_record_batches
from coordinator_state.records.record_types import NO_PRODUCER_ID
from coordinator_state.replay.groups import Group, GroupMember
from coordinator_state.replay.loader import ReferenceLoader
from coordinator_state.replay.offsets import Semantics
from coordinator_state.replay.partitioner import partition_for
from coordinator_state.replay.releases import Release
from coordinator_state.replay.share_groups import ShareGroup
from streaming.kafka.loader_rules import LoaderRules
from tests.support.logs.logs import Event, segment
from tests.support.logs.modern_records import Topic
from tests.support.logs.random_logs import LEADER_CHANGE, RandomEvents

LOG_PARTITIONS = 50
MAX_DRAWS = 30
REFUSED_SHARE = 0.1
UNEXPECTED_UNLOAD = "Unexpected unload of active group"


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundLog:
    """A log by the seeds that its events are drawn from.

    With `ends_refused` it ends with the first record that a broker refuses to load, if one is
    drawn.
    """

    seeds: tuple[int, ...]
    ends_refused: bool = False

    def events(
        self, log_partition: int, topics: Sequence[Topic], rules: LoaderRules
    ) -> list[Event]:
        """The events, but for those that a broker cannot have, or would not load."""
        draws = RandomEvents(group_ids=group_ids(log_partition), topics=topics)
        events: list[Event] = []
        for event in (event for seed in self.seeds for event in draws.draw(seed)):
            candidate = [*events, event]
            if not _is_recoverable(events, event) or not _is_told(candidate, rules):
                continue
            if refusal(segment(candidate)[0], rules) is None:
                events = candidate
            elif self.ends_refused:
                return candidate
        return events


def draw_round(seed: int) -> dict[int, RoundLog]:
    """By log partition."""
    choose = random.Random(seed)
    return {
        log_partition: RoundLog(
            seeds=tuple(choose.randrange(1 << 32) for _ in range(choose.randrange(MAX_DRAWS))),
            ends_refused=choose.random() < REFUSED_SHARE,
        )
        for log_partition in range(LOG_PARTITIONS)
    }


def rules_of(version: str) -> LoaderRules:
    """The rules of a broker of a Kafka version."""
    numbers = [int(number) for number in version.split(".")]
    semantics = Semantics.COORDINATOR if numbers >= [4] else Semantics.SCALA
    return LoaderRules(semantics=semantics, release=Release.of(numbers))


def loaded(raw: bytes, rules: LoaderRules, *, strict: bool = False) -> ReferenceLoader:
    """The reference loader after a log."""
    loader = ReferenceLoader(rules.semantics, strict=strict, release=rules.release)
    loader.load(read_record_batches(raw))
    return loader


def refusal(raw: bytes, rules: LoaderRules) -> ReplayError | None:
    """Why a broker refuses to load a log, None if it loads it."""
    try:
        loaded(raw, rules, strict=True)
    except ReplayError as error:
        # The old coordinator says so when it has loaded everything, and serves it.
        return None if UNEXPECTED_UNLOAD in str(error) else error
    return None


@cache
def group_ids(log_partition: int) -> tuple[str, ...]:
    """Three groups that belong into a log partition."""
    names = []
    for prefix in ("a", "b", "\u00e9"):
        number = 0
        while partition_for(f"{prefix}{number}", LOG_PARTITIONS) != log_partition:
            number += 1
        names.append(f"{prefix}{number}")
    return tuple(names)


def _is_recoverable(events: Sequence[Event], event: Event) -> bool:
    """Whether a broker starts with it.

    No other control batches than ends of transactions, and no plain batch of a producer in the
    middle of its transaction.
    """
    if event.control_type is not None:
        return event.control_type != LEADER_CHANGE
    if event.producer_id == NO_PRODUCER_ID or event.is_transactional:
        return True
    own = [other for other in events if other.producer_id == event.producer_id]
    transactional = [other for other in own if other.is_transactional]
    return not transactional or transactional[-1].control_type is not None


def _is_told(events: Sequence[Event], rules: LoaderRules) -> bool:
    """Whether the broker of these tests keeps, and can tell, what it has loaded."""
    if rules.semantics is Semantics.SCALA:
        return True
    if rules.release is Release.KAFKA_4_0 and _is_of_share_group(events[-1]):
        # Early access, with refusals and a Describe request of its own.
        return False
    loader = loaded(segment(events)[0], rules)
    return all(_can_be_described(g, m) for g in loader.groups.values() for m in g.members)


def _is_of_share_group(event: Event) -> bool:
    key = event.key or b""
    return int.from_bytes(key[:2], "big") in ShareGroup.parts


def _can_be_described(group: Group, member: GroupMember) -> bool:
    """Members without metadata are fenced as they revoke, and half a streams member is an NPE."""
    if group.group_type == "classic":
        return group.protocol is not None
    if group.group_type == "streams":
        return bool(member.client_id) and member.member_state is not None
    return bool(member.client_id) or member.member_state != "UNREVOKED_PARTITIONS"
