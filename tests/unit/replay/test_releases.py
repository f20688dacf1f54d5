"""The loader's rules that a Kafka release changed.

A test replays one record by the rules of the release that changed a rule, and of the release
before it. The differential rounds compare the same rules with brokers of these releases.
"""

from __future__ import annotations

from typing import Any

import pytest

from coordinator_state.replay.groups import (
    CONSUMER,
    EMPTY,
    NOT_READY,
    RECONCILING,
    SHARE,
    STREAMS,
)
from coordinator_state.replay.modern_groups import Part
from coordinator_state.replay.releases import Release
from coordinator_state.wire.primitives import uuid_text
from tests.support.logs.group_log import Log, T, only_member, record_type, value

V_4_0, V_4_1, V_4_2, V_4_3, V_4_4 = Release


@pytest.mark.parametrize(
    ("version", "release"),
    [
        ((3, 9, 1), V_4_0),
        ((4, 0), V_4_0),
        ((4, 1, 2), V_4_1),
        ((4, 2), V_4_2),
        ((4, 3), V_4_3),
        ((4, 4), V_4_4),
        ((4, 10), V_4_4),
        ((5, 0), V_4_4),
    ],
)
def test_a_version_has_the_rules_of_the_newest_release_up_to_it(
    version: tuple[int, ...], release: Release
) -> None:
    assert Release.of(version) is release
    assert Release.parse(str(release)) is release


@pytest.mark.parametrize("group_type", [CONSUMER, SHARE, STREAMS])
@pytest.mark.parametrize(("release", "epoch"), [(V_4_2, 0), (V_4_3, 1)])
def test_the_epochs_of_a_group_without_a_record_of_them(
    group_type: str, release: Release, epoch: int
) -> None:
    log = Log(release)
    log.put(group_type, Part.MEMBER, "m")
    assert (log.group.group_epoch, log.group.assignment_epoch) == (epoch, epoch)


def test_a_broker_before_4_1_skips_records_of_streams_groups() -> None:
    for release, count in ((V_4_0, 0), (V_4_1, 1)):
        log = Log(release)
        log.put(STREAMS, Part.MEMBER, "m")
        assert len(log.replay.groups) == count


def test_before_4_2_no_record_says_that_a_streams_group_is_ready() -> None:
    for release, state in ((V_4_1, NOT_READY), (V_4_2, RECONCILING)):
        log = Log(release)
        log.put(STREAMS, Part.GROUP, validatedTopologyEpoch=1)
        log.put(STREAMS, Part.TOPOLOGY)
        log.put(STREAMS, Part.TARGET_EPOCH)
        assert log.group.state == EMPTY
        log.put(STREAMS, Part.MEMBER, "m")
        assert log.group.state == state


def test_since_4_3_a_streams_group_replaces_a_simple_one() -> None:
    for release, reasons in ((V_4_2, ["Group g is not a streams group."]), (V_4_3, [])):
        log = Log(release)
        log.commit()
        log.put(STREAMS, Part.MEMBER, "m")
        assert (log.group.group_type, log.reasons) == (STREAMS, reasons)


@pytest.mark.parametrize("group_type", [CONSUMER, SHARE])
def test_since_4_4_a_value_with_a_long_array_is_refused(group_type: str) -> None:
    """`golden/test_long_arrays.py` asks Kafka's own classes."""
    warning = "an array has 1,000,001 elements; Kafka 4.4 reads 1,000,000"
    for release, length, reasons in (
        (V_4_4, 1_000_000, []),
        (V_4_4, 1_000_001, [warning]),
        (V_4_3, 1_000_001, []),
    ):
        entry = {"topicId": T, "partitions": [0] * length}
        fields = value(record_type(group_type, Part.TARGET), topicPartitions=[entry])
        log = Log(release)
        log.put(group_type, Part.MEMBER, "m")
        log.add(record_type(group_type, Part.TARGET), fields, "m", value_bytes=4 * length)
        assert log.reasons == reasons
        # The replay goes on, and keeps the record.
        target = only_member(log).target_assignment
        assert target is not None
        assert len(target) == 1
        log.put(group_type, Part.TARGET_EPOCH)
        expected = f"record offset 1: {reasons[0]}" if reasons else None
        assert log.group.replay_warning == expected


def topics(*partitions: int) -> list[dict[str, Any]]:
    """An entry of the same topic for each partition."""
    return [{"topicId": T, "partitions": [partition]} for partition in partitions]


def tasks(partitions: list[int], **fields: Any) -> dict[str, Any]:
    return {"subtopologyId": "0", "partitions": partitions, **fields}


EPOCHS = (
    "Assignment epochs must be provided for all partitions. Subtopology 0 has 2 partitions but 1 "
    "epochs"
)
CURRENT: dict[str, tuple[str, dict[str, Any], dict[Release, tuple[list[int], str]]]] = {
    # `Utils.assignmentFromTopicPartitions` at 4.3.1 puts them into a map; before it was toMap.
    "since 4.3 the last entry of a topic counts": (
        CONSUMER,
        {"assignedPartitions": topics(0, 1)},
        {V_4_2: ([0, 1], f"Duplicate key {uuid_text(T)}"), V_4_3: ([1], "")},
    ),
    # `TasksTupleWithEpochs.fromCurrentAssignmentRecord` at 4.2.0, `TasksTuple` at 4.1.2.
    "since 4.2 the last entry of a subtopology counts": (
        STREAMS,
        {"standbyTasks": [tasks([0]), tasks([1])]},
        {V_4_1: ([0, 1], "Duplicate key 0"), V_4_2: ([1], "")},
    ),
    "only 4.2 refuses tasks with another number of epochs": (
        STREAMS,
        {"activeTasks": [tasks([0, 1], assignmentEpochs=[1])]},
        {V_4_1: ([0, 1], ""), V_4_2: ([0, 1], EPOCHS), V_4_3: ([0, 1], "")},
    ),
    "the same number of epochs is always read": (
        STREAMS,
        {"activeTasks": [tasks([0, 1], assignmentEpochs=[1, 2])]},
        {V_4_1: ([0, 1], ""), V_4_2: ([0, 1], ""), V_4_3: ([0, 1], "")},
    ),
    "since 4.3 a described assignment has the partitions pending revocation": (
        CONSUMER,
        {"assignedPartitions": topics(0), "partitionsPendingRevocation": topics(1)},
        {V_4_2: ([0], ""), V_4_3: ([0, 1], "")},
    ),
}


@pytest.mark.parametrize(("group_type", "fields", "by_release"), CURRENT.values(), ids=CURRENT)
def test_current_assignments(
    group_type: str, fields: dict[str, Any], by_release: dict[Release, tuple[list[int], str]]
) -> None:
    for release, (partitions, reason) in by_release.items():
        log = Log(release)
        log.put(group_type, Part.CURRENT, "m", **fields)
        member = only_member(log)
        owned = member.tasks if group_type == STREAMS else member.assignment
        assert [assigned.partition for assigned in owned or ()] == partitions
        assert log.reasons == [reason] * bool(reason)
        assert len(member.pending_revocation or ()) == ("partitionsPendingRevocation" in fields)
