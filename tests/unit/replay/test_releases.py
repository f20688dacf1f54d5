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
    AssignedPartition,
    AssignedTask,
)
from coordinator_state.replay.loader import ReferenceLoader
from coordinator_state.replay.modern_groups import Part
from coordinator_state.replay.releases import Release
from coordinator_state.wire.primitives import uuid_text
from tests.support.logs.group_log import Log, T
from tests.support.logs.logs import offset_key, offset_value

V_4_0, V_4_1, V_4_2, V_4_3 = Release


@pytest.mark.parametrize(
    ("version", "release"),
    [
        ((3, 9, 1), V_4_0),
        ((4, 0), V_4_0),
        ((4, 1, 2), V_4_1),
        ((4, 2), V_4_2),
        ((4, 3), V_4_3),
        ((4, 10), V_4_3),
        ((5, 0), V_4_3),
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
        log.put(STREAMS, Part.GROUP, epoch=1, validatedTopologyEpoch=1)
        log.put(STREAMS, Part.TOPOLOGY)
        log.put(STREAMS, Part.TARGET_EPOCH, assignmentEpoch=1)
        assert log.group.state == EMPTY
        log.put(STREAMS, Part.MEMBER, "m")
        assert log.group.state == state


def test_since_4_3_a_streams_group_replaces_a_simple_one() -> None:
    for release, reasons in ((V_4_2, ["Group g is not a streams group."]), (V_4_3, [])):
        log = Log(release)
        log.commit()
        log.put(STREAMS, Part.MEMBER, "m")
        assert (log.group.group_type, log.reasons) == (STREAMS, reasons)


def test_since_4_3_the_last_entry_of_a_topic_counts() -> None:
    """`Utils.assignmentFromTopicPartitions` at 4.3.1 puts them into a map; before it was toMap."""
    entries = [{"topicId": T, "partitions": [0]}, {"topicId": T, "partitions": [1]}]
    for release, partitions in ((V_4_2, [0, 1]), (V_4_3, [1])):
        log = Log(release)
        log.put(CONSUMER, Part.CURRENT, "m", assignedPartitions=entries)
        (member,) = log.group.members
        assert [assigned.partition for assigned in member.assignment or ()] == partitions
        assert bool(log.reasons) == (release is V_4_2)


def test_since_4_2_the_last_entry_of_a_subtopology_counts() -> None:
    """`TasksTupleWithEpochs.fromCurrentAssignmentRecord` at 4.2.0, `TasksTuple` at 4.1.2."""
    entries = [{"subtopologyId": "0", "partitions": [p]} for p in (0, 1)]
    for release, partitions in ((V_4_1, [0, 1]), (V_4_2, [1])):
        log = Log(release)
        log.put(STREAMS, Part.CURRENT, "m", standbyTasks=entries)
        (member,) = log.group.members
        assert member.tasks == tuple(
            AssignedTask(task_type="standby", subtopology_id="0", partition=partition)
            for partition in partitions
        )
        assert bool(log.reasons) == (release is V_4_1)


def test_only_4_2_refuses_tasks_with_another_number_of_epochs() -> None:
    tasks = {"subtopologyId": "0", "partitions": [0, 1]}
    for release in (V_4_1, V_4_2, V_4_3):
        log = Log(release)
        log.put(STREAMS, Part.CURRENT, "m", activeTasks=[{**tasks, "assignmentEpochs": [1, 2]}])
        assert log.warnings == []
        log.put(STREAMS, Part.CURRENT, "m", activeTasks=[{**tasks, "assignmentEpochs": [1]}])
        reason = (
            "Assignment epochs must be provided for all partitions. Subtopology 0 has 2 partitions "
            "but 1 epochs"
        )
        assert log.reasons == ([reason] if release is V_4_2 else [])


def test_since_4_3_a_described_assignment_has_the_partitions_pending_revocation() -> None:
    lists: dict[str, Any] = {
        "assignedPartitions": [{"topicId": T, "partitions": [0]}],
        "partitionsPendingRevocation": [{"topicId": T, "partitions": [1]}],
    }
    for release, partitions in ((V_4_2, [0]), (V_4_3, [0, 1])):
        log = Log(release)
        log.put(CONSUMER, Part.CURRENT, "m", **lists)
        (member,) = log.group.members
        assert member.assignment == tuple(
            AssignedPartition(topic=None, topic_id=uuid_text(T), partition=p) for p in partitions
        )
        assert len(member.pending_revocation or ()) == 1


def test_since_4_1_a_key_of_type_0_refuses_a_value_above_version_0() -> None:
    for release, count in ((V_4_0, 0), (V_4_1, 1)):
        loader = ReferenceLoader(release=release)
        loader.replay(
            record_offset=0,
            key=offset_key("g", "t", 0, record_type=0),
            value=offset_value(1, version=3, leaderEpoch=-1),
        )
        assert (len(loader.offsets), len(loader.replay_warnings)) == (1, count)
