"""`verify`: a broker and tables with fixed answers are compared, round by round."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import chain, count, repeat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from coordinator_state.replay.partitioner import partition_for
from streaming.tables.reader import TableReader
from streaming.verify.answer import IS_PENDING, AnswerKey, Answers
from streaming.verify.table_answers import TableAnswers
from streaming.verify.verification import Verification
from streaming.verify.verify import LEAST_ROUNDS, verify
from tests.support.tables.tables_folder import apply_micro_batch, create_tables

EMPTY = {
    **{"group_type": "classic", "state": "Empty", "protocol_type": "consumer"},
    **{"group_epoch": None, "assignment_epoch": None},
}


def group(name: str = "g", **fields: Any) -> dict[AnswerKey, Mapping[str, Any]]:
    return {AnswerKey("group", name): EMPTY | fields}


def offset(number: int, name: str = "g", **fields: Any) -> dict[AnswerKey, Mapping[str, Any]]:
    body = {"committed_offset": number, "leader_epoch": -1, "metadata": ""}
    return {AnswerKey("offset", name, "t", 0): body | fields}


def member(name: str = "g", **fields: Any) -> dict[AnswerKey, Mapping[str, Any]]:
    body = {"client_id": "c", "client_host": "/h", "assignment": b""}
    return {AnswerKey("member", name, member_id="m"): body | fields}


def pending(name: str = "g") -> dict[AnswerKey, Mapping[str, Any]]:
    return {AnswerKey("pending", name, "t", 0): IS_PENDING}


class Broker:
    """Answers what it is told to, each time the next thing, the last one for ever."""

    def __init__(self, *answers: Answers, high_watermarks: Mapping[int, int] | None = None) -> None:
        self._answers = list(answers)
        self._high_watermarks = high_watermarks or {}
        self.asked: list[tuple[Collection[str] | None, set[tuple[str, str, int]]]] = []

    def answers(
        self,
        group_ids: Collection[str] | None = None,
        pending: Iterable[tuple[str, str, int]] = (),
    ) -> Answers:
        self.asked.append((group_ids, set(pending)))
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        return {k: v for k, v in answer.items() if group_ids is None or k.group_id in group_ids}

    def high_watermarks(self) -> Mapping[int, int]:
        return self._high_watermarks

    def topic_names(self, topic_ids: Collection[str]) -> Mapping[str, str]:
        return {topic_id: topic_id.lower() for topic_id in topic_ids}


class Tables:
    """One snapshot with fixed answers."""

    def __init__(
        self,
        answers: Answers,
        *,
        next_offsets: Mapping[int, int] | None = None,
        topic_ids: Collection[str] = (),
    ) -> None:
        self._answers = answers
        self.next_offsets = next_offsets or {}
        self._topic_ids = set(topic_ids)
        self.topic_names: list[Mapping[str, str] | None] = []

    def topic_ids(self, _group_ids: Collection[str] | None = None) -> set[str]:
        return self._topic_ids

    def pending(self, group_ids: Collection[str] | None = None) -> set[tuple[str, str, int]]:
        return {
            (key.group_id, key.topic, key.partition)
            for key in self.answers(group_ids)
            if key.kind == "pending"
        }

    def answers(
        self,
        group_ids: Collection[str] | None = None,
        topic_names: Mapping[str, str] | None = None,
    ) -> Answers:
        self.topic_names.append(topic_names)
        return {
            k: v for k, v in self._answers.items() if group_ids is None or k.group_id in group_ids
        }


def counted(**counts: int) -> dict[str, int]:
    return {"group": 0, "member": 0, "offset": 0, "pending": 0} | counts


def verified(broker: Any, *snapshots: Any, **options: Any) -> Verification:
    """Verify with these snapshots in turn, the last one for ever."""
    turns = chain(snapshots, repeat(snapshots[-1]))
    at_once = {"timeout_s": 0, "settle_timeout_s": 0}
    return verify(broker, turns.__next__, **at_once | options)


def test_what_both_sides_answer_alike_is_equal_and_counted_by_kind() -> None:
    both = group() | offset(1) | member() | pending() | group("h")
    broker = Broker(both)

    result = verified(broker, Tables(both))

    assert result.is_equal
    assert result.counts == counted(group=2, offset=1, member=1, pending=1)
    assert result.summary == "equal: 2 groups, 1 committed offsets, 1 pending offsets, 1 members"
    # One round: before and after, with the tables' pending offsets asked for by name.
    assert broker.asked == [(None, {("g", "t", 0)})] * 2


@pytest.mark.parametrize(
    ("broker", "tables", "field", "values"),
    [
        (offset(1), offset(2), "committed_offset", (1, 2)),
        (offset(1, leader_epoch=3), offset(1), "leader_epoch", (3, -1)),
        (offset(1, metadata="m"), offset(1), "metadata", ("m", "")),
        (group(state="Stable"), group(), "state", ("Stable", "Empty")),
        (member(client_id="d"), member(), "client_id", ("d", "c")),
    ],
)
def test_a_field_that_differs_twice_is_a_difference(
    broker: Answers, tables: Answers, field: str, values: tuple[object, object]
) -> None:
    result = verified(Broker(broker), Tables(tables))

    assert not result.is_equal
    (difference,) = result.differences
    assert (difference.field, difference.broker, difference.tables) == (field, *values)
    assert result.summary.startswith("different: 1 answers; equal: 0 groups")


@pytest.mark.parametrize("answers", [group(), offset(1), member(), pending()])
def test_an_answer_that_only_one_side_has_is_a_difference(answers: Answers) -> None:
    ((key, fields),) = answers.items()

    (missing,) = verified(Broker(answers), Tables({})).differences
    assert (missing.key, missing.field, missing.broker, missing.tables) == (key, None, fields, None)
    (extra,) = verified(Broker({}), Tables(answers)).differences
    assert (extra.key, extra.field, extra.broker, extra.tables) == (key, None, None, fields)


def test_a_key_that_moved_is_asked_again_with_its_group_alone() -> None:
    broker = Broker(group() | offset(1), group() | offset(2))

    result = verified(broker, *[Tables(group() | offset(0))] * 2, Tables(group() | offset(2)))

    assert result.is_equal
    assert result.counts == counted(group=1, offset=1)
    assert [groups for groups, _ in broker.asked] == [None, None, {"g"}, {"g"}]


def test_a_difference_seen_once_only_is_none() -> None:
    # The commit went there and back: 1 before, 2 when the tables were read, 1 after.
    result = verified(
        Broker(offset(1)), Tables({}), Tables(offset(2)), Tables({}), Tables(offset(1))
    )

    assert result.is_equal
    assert result.counts == counted(offset=1)


def test_what_never_rests_is_told_and_not_counted_as_equal() -> None:
    moving = [group() | offset(number) for number in range(2 * LEAST_ROUNDS)]

    result = verified(Broker(*moving), Tables(group() | offset(-5)))

    assert result.is_equal
    assert not result.is_complete
    assert result.moving == {AnswerKey("offset", "g", "t", 0)}
    assert result.summary == (
        "equal: 1 groups, 0 committed offsets, 0 pending offsets, 0 members; "
        "1 answers changed in every round and were not compared"
    )


def test_a_difference_is_found_beside_what_moves() -> None:
    moving = [offset(number) | offset(5, "still") for number in range(2 * LEAST_ROUNDS)]

    result = verified(Broker(*moving), Tables(offset(-5) | offset(6, "still")))

    assert [difference.key.group_id for difference in result.differences] == ["still"]
    assert len(result.moving) == 1


def test_a_difference_that_the_last_round_sees_first_counts_as_moving() -> None:
    moving = [offset(number) for number in range(2 * LEAST_ROUNDS - 2)]
    broker = Broker(*moving, offset(100))

    result = verified(broker, Tables(offset(-5)))

    assert result.is_equal
    assert len(result.moving) == 1


def test_transactions_that_come_and_go_are_no_difference() -> None:
    """In some rounds in a row, one is open only while the tables are read."""
    read = [Tables(group() | pending())] * 2 * (LEAST_ROUNDS - 1)

    result = verified(Broker(group()), *read, Tables(group()))
    assert result.is_equal
    assert result.is_complete

    result = verified(Broker(group()), Tables(group() | pending()))
    assert [str(difference.key) for difference in result.differences] == ["pending g t:0"]


def test_a_changing_answer_is_equal_if_the_tables_give_one_of_its_values() -> None:
    # 1 before, 2 while the tables catch up, 3 after; the tables were at 2.
    moving = [offset(number) | group() for number in (0, 0, 1, 2, 3)]
    broker = Broker(*moving, high_watermarks={0: 10})
    late = Tables({}, next_offsets={0: 9})
    read = Tables(offset(2) | group(), next_offsets={0: 10})
    first = Tables({}, next_offsets={0: 10})
    result = verified(broker, first, first, late, late, read, timeout_s=10)

    assert result.is_equal
    assert result.is_complete
    assert result.counts == counted(group=1, offset=1)
    assert [groups for groups, _ in broker.asked] == [None, None, {"g"}, {"g"}, {"g"}]


def test_each_of_several_changing_answers_needs_one_round_alone() -> None:
    """Two partitions that never rest, of which each round finds only one at a known value."""

    def both(first: int, second: int) -> dict[AnswerKey, Mapping[str, Any]]:
        ((_, fields),) = offset(second).items()
        return offset(first) | {AnswerKey("offset", "g", "t", 1): fields}

    result = verified(
        Broker(*(both(number, number) for number in range(6))),
        *([Tables(both(0, -5))] * 2 + [Tables(both(-5, 2))] * 2),
    )

    assert result.is_complete
    assert result.counts == counted(offset=2)


def test_changing_answers_are_compared_until_the_time_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = Broker(*(offset(number) for number in range(1_000)))
    seconds = count()
    clock = SimpleNamespace(monotonic=seconds.__next__)
    monkeypatch.setattr("streaming.verify.verify.time", clock)

    result = verified(broker, Tables(offset(-5)), settle_timeout_s=20)

    assert next(seconds) > 20
    assert len(broker.asked) > 2 * LEAST_ROUNDS
    assert not result.is_complete


def test_tables_that_do_not_catch_up_are_behind() -> None:
    broker = Broker(offset(1), high_watermarks={0: 10, 1: 4, 2: 0})

    result = verified(broker, Tables(offset(1), next_offsets={0: 7}))

    assert not result.is_equal
    assert result.behind == {0: 3, 1: 4}
    assert result.summary == "behind: the tables lack 7 record offsets in 2 log partitions (0, 1)"
    assert not result.equal


def test_only_some_log_partitions_are_compared_when_asked_for() -> None:
    broker = Broker(offset(1, "a") | offset(1, "b"), high_watermarks={0: 1, 1: 1})
    tables = Tables(offset(1, "a"), next_offsets={0: 1})
    places = {"a": 0, "b": 1}

    result = verified(broker, tables, log_partition_of=places.__getitem__, log_partitions=[0])

    assert result.is_equal
    assert result.counts == counted(offset=1)


STABLE = group(state="Stable") | member()
REBALANCING = "1 group rebalancing (not in the log): only offsets are compared"
NOT_READY = {"group_type": "streams", "state": "NotReady"}
NO_TOPOLOGY = (
    "1 group without a topology (the coordinator cannot describe it): epochs and members are "
    "not compared"
)


@pytest.mark.parametrize(
    ("answers", "tables", "counts", "notes"),
    [
        *(
            ([group(state=state) | offset(1)], STABLE | offset(1), {"offset": 1}, [REBALANCING])
            for state in ("PreparingRebalance", "CompletingRebalance")
        ),
        # The rebalance ends in time.
        ([group(state="CompletingRebalance"), STABLE], STABLE, {"group": 1, "member": 1}, []),
        # A streams group that cannot be described is compared as it is listed.
        (
            [group(**NOT_READY)],
            group(**NOT_READY, group_epoch=1, assignment_epoch=0) | member(),
            {"group": 1},
            [NO_TOPOLOGY],
        ),
        # A broker that tells no type is believed in the rest.
        ([group(group_type=None)], group(), {"group": 1}, []),
    ],
)
def test_what_a_coordinator_cannot_tell_is_not_compared(
    answers: list[Answers], tables: Answers, counts: dict[str, int], notes: list[str]
) -> None:
    result = verified(Broker(*answers), Tables(tables))

    assert result.is_equal
    assert result.counts == counted(**counts)
    assert result.notes == notes


@pytest.mark.parametrize("group_type", ["consumer", "share", "streams"])
def test_groups_of_every_type_are_compared_whole(group_type: str) -> None:
    epochs = group(group_type=group_type, group_epoch=4, assignment_epoch=4)
    earlier = Tables(group(group_type=group_type, group_epoch=4, assignment_epoch=3))

    epoch, missing = sorted(verified(Broker(epochs | member()), earlier).differences, key=str)

    assert (epoch.field, epoch.broker, epoch.tables) == ("assignment_epoch", 4, 3)
    assert str(missing.key) == "member m of g"


def test_topics_are_those_that_the_cluster_has() -> None:
    tables = Tables(group(), topic_ids=["T"])
    verified(Broker(group()), tables)

    assert {"T": "t"} in tables.topic_names


def test_the_tables_answer_as_a_coordinator_would(tmp_path: Path) -> None:
    own, other, share = partition_for("g", 4), partition_for("g", 4) - 1, "share group"
    row = {"log_partition": own, "group_id": "g"}
    row_of_share = {"log_partition": partition_for(share, 4), "group_id": share}
    gone = {"log_partition": partition_for("gone", 4), "group_id": "gone"}
    at = {"topic": "t", "partition": 0, "committed_offset": 1}
    assigned = [
        {"topic": None, "topic_id": "T", "partition": 1},
        {"topic": "gone", "topic_id": "G", "partition": 0},
    ]
    member_of_share = {"member_id": "m", "member_epoch": 3, "assignment": assigned}
    tables = create_tables(tmp_path, log_partitions="4")
    apply_micro_batch(
        tables,
        groups=[row, row | {"log_partition": other}, row_of_share | {"group_type": "share"}],
        group_members=[
            row | {"member_id": "m", "assignment_bytes": b"a"},
            row_of_share | member_of_share | {"subscribed_topics": ["u", "t"]},
        ],
        group_offsets=[
            row | at | {"leader_epoch": 4, "metadata": "x"},
            row | at | {"partition": 1, "log_partition": other},
            *(gone | at, row_of_share | at),
        ],
        pending_offsets=[row | at, row | at | {"producer_id": 8}],
        progress=[{"log_partition": own, "next_offset": 9}],
    )
    stored = TableAnswers(TableReader(tables))

    assert stored.next_offsets == {own: 9}
    assert stored.topic_ids() == {"T", "G"}
    assert stored.pending() == {("g", "t", 0)}
    answers_of_g = (
        group(protocol_type="")
        | member(client_host="/127.0.0.1", assignment=b"a")
        | offset(1, leader_epoch=4, metadata="x")
        | pending()
    )
    only_of_share = {"member_epoch": 3, "rack_id": None, "subscribed_topics": ["t", "u"]}
    answers_of_share = group(share, group_type="share", protocol_type="") | member(
        share, client_host="/127.0.0.1", assignment=["t:1"], **only_of_share
    )
    assert stored.answers(topic_names={"T": "t"}) == answers_of_g | answers_of_share
    assert stored.answers({"g"}) == answers_of_g
    assert stored.answers({"x"}) == {}
