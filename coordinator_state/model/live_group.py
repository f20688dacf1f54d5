"""What a coordinator asks of a live group, whatever its type.

Source: group-coordinator/src/main/java/org/apache/kafka/coordinator/group/Group.java at 4.2.0.
"""

from __future__ import annotations

from typing import Protocol

from coordinator_state.model.error_codes import ErrorCode
from coordinator_state.model.log import KeyAndValue
from coordinator_state.offsets import CommittedOffset


class LiveGroup(Protocol):
    """A classic group or a consumer group."""

    group_id: str
    has_commits: bool
    """Whether the log has offset commits of it: they alone make a simple group."""

    @property
    def is_empty(self) -> bool:
        """Whether nobody is in the group, and no rebalance under way."""

    def validate_offset_commit(
        self,
        member_id: str,
        group_instance_id: str | None,
        generation_id: int,
        *,
        is_transactional: bool,
        version: int,
    ) -> ErrorCode:
        """Whether offsets may be committed in the name of a member, or of nobody."""

    def validate_offset_delete(self) -> ErrorCode:
        """Whether offsets may be deleted."""

    def validate_delete(self) -> ErrorCode:
        """Whether the group may be deleted."""

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether offsets of a topic are in use; where that is not known, they are."""

    def expiry_base_ms(self, offset: CommittedOffset) -> int | None:
        """From when an offset's retention counts, None where it does not (KIP-211)."""

    @property
    def is_never_stored(self) -> bool:
        """Whether the group never had members, so that Kafka 3 has no record of it."""

    def tombstones(self) -> list[KeyAndValue]:
        """The records that delete the group."""
