"""Answers about groups, members and offsets, in one form for brokers and tables.

Answers are a mapping from the key of an answer to its fields. To compare a coordinator with the
tables, `verify` compares two mappings.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple, get_args

from streaming.kafka.offset_fetch import UNSTABLE_OFFSET_COMMIT, OffsetFetchAnswer

Fields = Mapping[str, Any]


Kind = Literal["group", "member", "offset", "pending"]
KINDS: tuple[Kind, ...] = get_args(Kind)


class AnswerKey(NamedTuple):
    """The subject of an answer; which of the last three fields are set depends on the kind."""

    kind: Kind
    group_id: str
    topic: str = ""
    partition: int = -1
    member_id: str = ""

    def __str__(self) -> str:
        if self.kind == "member":
            return f"member {self.member_id} of {self.group_id}"
        if self.topic:
            return f"{self.kind} {self.group_id} {self.topic}:{self.partition}"
        return f"{self.kind} {self.group_id}"


Answers = Mapping[AnswerKey, Fields]
"""A missing key means that the group, member or offset does not exist."""

IS_PENDING: Final = {"error": UNSTABLE_OFFSET_COMMIT}


def offset_fields(answer: OffsetFetchAnswer) -> Fields:
    """The compared fields of a committed offset."""
    return {
        "committed_offset": answer.committed_offset,
        "leader_epoch": answer.leader_epoch,
        "metadata": answer.metadata,
    }
