"""What a simulated coordinator says to the questions that `broker_answers` asks a real one."""

from __future__ import annotations

from collections.abc import Iterable

from coordinator_state.groups import CLASSIC
from coordinator_state.model.classic_states import ClassicState
from coordinator_state.model.error_codes import ErrorCode
from coordinator_state.model.group_coordinator import GroupCoordinator
from streaming.answers.answer import IS_PENDING, AnswerKey, Answers, Fields


def model_answers(coordinators: Iterable[GroupCoordinator]) -> Answers:
    """The answers of the coordinators of all log partitions."""
    found: dict[AnswerKey, Fields] = {}
    for coordinator in coordinators:
        for group_id, group in coordinator.shard.groups.items():
            found[AnswerKey("group", group_id)] = {
                "group_type": CLASSIC,
                "state": group.state.value,
                "protocol_type": group.protocol_type or "",
                "group_epoch": None,
                "assignment_epoch": None,
            }
            # A member's assignment is told of a Stable group only.
            for member in group.members.values() if group.is_in(ClassicState.STABLE) else ():
                found[AnswerKey("member", group_id, member_id=member.member_id)] = {
                    "client_id": member.client_id,
                    "client_host": member.client_host,
                    "assignment": member.assignment,
                }
            error_code, offsets = coordinator.fetch_offsets(group_id)
            if error_code is ErrorCode.NONE:
                for (topic, partition), offset in offsets.items():
                    found[AnswerKey("offset", group_id, topic, partition)] = {
                        "committed_offset": offset.committed_offset,
                        "leader_epoch": offset.leader_epoch,
                        "metadata": offset.metadata,
                    }
        for waiting in coordinator.pending.values():
            for key in waiting:
                found[AnswerKey("pending", *key)] = IS_PENDING
    return found
