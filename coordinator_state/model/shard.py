"""State that the parts of a coordinator share: the groups, log and time of one log partition."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from coordinator_state.log.record_batch import NO_SEQUENCE
from coordinator_state.model.classic_group import ClassicGroup, ClassicState
from coordinator_state.model.consumer_group import LiveConsumerGroup
from coordinator_state.model.log import AppendRefused, CoordinatorLog, KeyAndValue, Producer
from coordinator_state.model.requests import ErrorCode
from coordinator_state.model.timers import Timers
from coordinator_state.model.topics import Topics
from coordinator_state.replay.offsets import Semantics
from coordinator_state.replay.releases import Release

_E = ErrorCode

MODELLED_RELEASE: Final = Release.KAFKA_4_2
"""The Kafka release whose coordinator the model is, under `coordinator` semantics."""

LiveGroup = ClassicGroup | LiveConsumerGroup
"""A group of any type in the memory of a coordinator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorConfig:
    """The broker settings for groups, with Kafka's defaults."""

    group_initial_rebalance_delay_ms: int = 3_000
    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_max_size: int = 2_147_483_647
    consumer_group_max_size: int = 2_147_483_647
    consumer_session_timeout_ms: int = 45_000
    new_member_join_timeout_ms: int = 300_000
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_ms: int = 7 * 24 * 60 * 60 * 1000


@dataclass(slots=True, kw_only=True)
class Shard:
    """The coordinator of one log partition.

    `semantics` selects the coordinator of Kafka 4 or of Kafka 3. `availability` is the error for
    requests while the coordinator is loading or is not the coordinator:
    COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR or COORDINATOR_NOT_AVAILABLE.
    """

    semantics: Semantics = Semantics.COORDINATOR
    config: CoordinatorConfig = field(default_factory=CoordinatorConfig)
    log: CoordinatorLog = field(default_factory=CoordinatorLog)
    timers: Timers = field(default_factory=Timers)
    groups: dict[str, LiveGroup] = field(default_factory=dict)
    topics: Topics = field(default_factory=Topics)
    choose: random.Random = field(default_factory=random.Random)
    availability: ErrorCode = ErrorCode.NONE

    @property
    def is_scala(self) -> bool:
        """Whether this is the coordinator of Kafka 3."""
        return self.semantics is Semantics.SCALA

    @property
    def now_ms(self) -> int:
        """The current time."""
        return self.timers.now_ms

    def refusal(self, group_id: str, *, allows_empty_id: bool = False) -> ErrorCode:
        """The error for any request about a group; NONE if requests are served."""
        if not (group_id or allows_empty_id):
            return ErrorCode.INVALID_GROUP_ID
        return self.availability

    def new_id(self) -> UUID:
        """A random id."""
        return UUID(int=self.choose.getrandbits(128), version=4)

    def new_group(self, group_id: str) -> ClassicGroup:
        """Create a group in memory, without a record."""
        group = ClassicGroup(group_id=group_id, state_timestamp_ms=self.now_ms)
        self.groups[group_id] = group
        return group

    def remove_group(self, group: LiveGroup) -> None:
        """Remove a group from memory and cancel its timers."""
        del self.groups[group.group_id]
        self.timers.cancel_all(group.group_id)
        if isinstance(group, ClassicGroup):
            group.transition_to(ClassicState.DEAD, self.now_ms)

    def append(
        self,
        records: Sequence[KeyAndValue],
        error_of: Callable[[ErrorCode], ErrorCode],
        producer: Producer | None = None,
        *,
        are_commits: bool = False,
    ) -> tuple[ErrorCode, int]:
        """Append records. Returns the client's error code and the first record offset (or -1).

        The base sequence of the batch is 0; in Kafka 3 only for commits. No reader uses it.
        """
        sequence = NO_SEQUENCE if self.is_scala and not are_commits else 0
        try:
            offset = self.log.append(records, self.now_ms, producer, base_sequence=sequence)
            return ErrorCode.NONE, offset
        except AppendRefused as refused:
            return error_of(refused.error_code), -1

    def group_error(self, error_code: ErrorCode) -> ErrorCode:
        """The error for members after the append of a group record failed."""
        return (_GROUP_ERRORS_SCALA if self.is_scala else _ERRORS).get(error_code, error_code)

    def offset_error(self, error_code: ErrorCode) -> ErrorCode:
        """The error for clients after the append of offsets failed."""
        return (_OFFSET_ERRORS_SCALA if self.is_scala else _ERRORS).get(error_code, error_code)


_ERRORS: Final = {
    _E.UNKNOWN_TOPIC_OR_PARTITION: _E.COORDINATOR_NOT_AVAILABLE,
    _E.NOT_ENOUGH_REPLICAS: _E.COORDINATOR_NOT_AVAILABLE,
    _E.REQUEST_TIMED_OUT: _E.COORDINATOR_NOT_AVAILABLE,
    _E.NOT_LEADER_OR_FOLLOWER: _E.NOT_COORDINATOR,
    _E.KAFKA_STORAGE_ERROR: _E.NOT_COORDINATOR,
    _E.MESSAGE_TOO_LARGE: _E.UNKNOWN_SERVER_ERROR,
    _E.RECORD_LIST_TOO_LARGE: _E.UNKNOWN_SERVER_ERROR,
    _E.INVALID_FETCH_SIZE: _E.UNKNOWN_SERVER_ERROR,
}
"""GroupMetadataManager.java (`appendGroupMetadataErrorToResponseError`) and
CoordinatorOperationExceptionHelper.java at 4.2.0."""
_GROUP_ERRORS_SCALA: Final = {
    **_ERRORS,
    _E.NOT_ENOUGH_REPLICAS_AFTER_APPEND: _E.COORDINATOR_NOT_AVAILABLE,
    _E.REQUEST_TIMED_OUT: _E.REBALANCE_IN_PROGRESS,
}
"""GroupMetadataManager.scala (`storeGroup`) at 3.9.1."""
_OFFSET_ERRORS_SCALA: Final = {
    _E.UNKNOWN_TOPIC_OR_PARTITION: _E.COORDINATOR_NOT_AVAILABLE,
    _E.NOT_ENOUGH_REPLICAS: _E.COORDINATOR_NOT_AVAILABLE,
    _E.NOT_ENOUGH_REPLICAS_AFTER_APPEND: _E.COORDINATOR_NOT_AVAILABLE,
    _E.NOT_LEADER_OR_FOLLOWER: _E.NOT_COORDINATOR,
    _E.KAFKA_STORAGE_ERROR: _E.NOT_COORDINATOR,
    _E.MESSAGE_TOO_LARGE: _E.INVALID_COMMIT_OFFSET_SIZE,
    _E.RECORD_LIST_TOO_LARGE: _E.INVALID_COMMIT_OFFSET_SIZE,
    _E.INVALID_FETCH_SIZE: _E.INVALID_COMMIT_OFFSET_SIZE,
}
"""GroupMetadataManager.scala (`maybeConvertOffsetCommitError`) at 3.9.1."""
