"""The broker's own answer for each offset, and how a tool's answer differs from it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from coordinator_state.replay.offsets import OffsetKey
from streaming.kafka.group_admin import GroupAdmin
from streaming.kafka.offset_fetch import INVALID_OFFSET, NO_ERROR

Offsets = Mapping[OffsetKey, int]


def broker_offsets(admin: GroupAdmin, groups: list[str]) -> dict[OffsetKey, int]:
    """The committed offsets by OffsetFetch, without those that only wait in a transaction.

    Raises:
        RuntimeError: the broker answered an error.
    """
    offset_by_key = {}
    for group, answers in admin.offset_fetch(dict.fromkeys(groups)).items():
        for answer in answers:
            if answer.error != NO_ERROR:
                raise RuntimeError(f"OffsetFetch of {group}: {answer.error}")
            if answer.committed_offset != INVALID_OFFSET:
                topic, partition = answer.topic_partition
                offset_by_key[OffsetKey(group, topic, partition)] = answer.committed_offset
    return offset_by_key


def wrong_offsets(
    classes: Mapping[OffsetKey, str], truth: Offsets, answer: Offsets
) -> list[OffsetKey]:
    """The offsets that the answer has with another value, lacks, or has although none stands.

    Only offsets with a class count: a tool may answer for other groups, its own for example.
    """
    return [key for key in classes if answer.get(key) != truth.get(key)]


def by_class(classes: Mapping[OffsetKey, str], wrong: list[OffsetKey]) -> dict[str, int]:
    """How many offsets of each class are wrong; classes without a wrong one are left out."""
    return dict(Counter(classes[key] for key in wrong))
