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

from coordinator_state.errors import DecodeError, ReplayError, UnknownRecordType
from coordinator_state.groups import Group, GroupMember
from coordinator_state.loader import ReferenceLoader
from coordinator_state.modern_groups import UNKNOWN_STATE
from coordinator_state.offsets import Semantics
from coordinator_state.partitioner import partition_for
from coordinator_state.record_batch import read_record_batches
from coordinator_state.record_types import NO_PRODUCER_ID
from coordinator_state.serde import decode_key
from coordinator_state.streams_groups import StreamsGroup
from tests.logs import Event, segment
from tests.modern_records import Topic
from tests.random_logs import LEADER_CHANGE, RandomEvents

LOG_PARTITIONS = 50
MAX_DRAWS = 30
UNEXPECTED_UNLOAD = "Unexpected unload of active group"
REFUSED_SHARE = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundLog:
    """A log, and at which record offset a broker refuses to load it."""

    events: list[Event]
    refused_at: int | None = None

    @property
    def segment(self) -> bytes:
        """As record batches."""
        return segment(self.events)[0]


def draw_round(seed: int, topics: Sequence[Topic], semantics: Semantics) -> dict[int, RoundLog]:
    """By log partition; the same for the same seed and topics."""
    choose = random.Random(seed)
    return {
        log_partition: _draw_log(choose, log_partition, topics, semantics)
        for log_partition in range(LOG_PARTITIONS)
    }


def loaded(log: RoundLog, semantics: Semantics) -> ReferenceLoader:
    """The reference loader after a log."""
    loader = ReferenceLoader(semantics)
    loader.load(read_record_batches(log.segment))
    return loader


@cache
def group_ids(log_partition: int) -> tuple[str, ...]:
    """Three groups that belong into a log partition."""
    found = []
    for prefix in ("a", "b", "\u00e9"):
        number = 0
        while partition_for(f"{prefix}{number}", LOG_PARTITIONS) != log_partition:
            number += 1
        found.append(f"{prefix}{number}")
    return tuple(found)


def _draw_log(
    choose: random.Random, log_partition: int, topics: Sequence[Topic], semantics: Semantics
) -> RoundLog:
    draws = RandomEvents(group_ids=group_ids(log_partition), topics=topics)
    events: list[Event] = []
    ends_refused = choose.random() < REFUSED_SHARE
    for _ in range(choose.randrange(MAX_DRAWS)):
        for event in draws.draw(choose.randrange(1 << 32)):
            candidate = [*events, event]
            if not _is_recoverable(events, event) or not _has_describable_groups(
                candidate, semantics
            ):
                continue
            refused_at = _refused_at(candidate, semantics)
            if refused_at is None:
                events = candidate
            elif ends_refused:
                return RoundLog(events=candidate, refused_at=refused_at)
    return RoundLog(events=events)


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


def _refused_at(events: list[Event], semantics: Semantics) -> int | None:
    loader = ReferenceLoader(semantics, strict=True)
    try:
        loader.load(read_record_batches(segment(events)[0]))
    except ReplayError as error:
        # The old coordinator says so when it has loaded everything, and serves it.
        return None if UNEXPECTED_UNLOAD in str(error) else error.record_offset
    return None


def _has_describable_groups(events: list[Event], semantics: Semantics) -> bool:
    """Whether the broker of these tests keeps, and can tell, what it has loaded."""
    if semantics is Semantics.SCALA:
        return True
    loader = ReferenceLoader(semantics)
    loader.load(read_record_batches(segment(events[:-1])[0]))
    before = loader.groups
    last = events[-1]
    loader.load(read_record_batches(segment([last])[0]))
    return not _meets_a_defect_of_4_2(last, before) and all(
        _is_told(group, member) for group in loader.groups.values() for member in group.members
    )


def _meets_a_defect_of_4_2(event: Event, groups: dict[str, Group]) -> bool:
    """A streams group does not take the place of a simple one before 4.3 (KAFKA-20254)."""
    if event.key is None:
        return False
    try:
        key = decode_key(event.key)
    except (DecodeError, UnknownRecordType):
        return False
    known = groups.get(key.group_id)
    return key.record_type.id in StreamsGroup.parts and known is not None and known.is_simple


def _is_told(group: Group, member: GroupMember) -> bool:
    """Members without metadata are fenced as they revoke; a half-known streams member is an NPE."""
    if group.group_type == "classic":
        return group.protocol is not None
    if not member.client_id:
        return member.member_state != "UNREVOKED_PARTITIONS" and group.group_type != "streams"
    return group.group_type != "streams" or member.member_state not in (None, UNKNOWN_STATE)
