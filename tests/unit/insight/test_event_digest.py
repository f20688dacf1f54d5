"""Events folded into rows, their order, and the labels of members in them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_state.insight.event_digest import BY_WEIGHT, folded_events
from coordinator_state.insight.group_events import EventName
from coordinator_state.insight.member_labels import labels_of, member_labels
from tests.support.tables.event_rows import (
    by_member,
    event_row,
    moved,
    partitions_of_orders,
)

Row = dict[str, Any]


def texts(*rows: Row) -> list[str]:
    return [folded.text for folded in folded_events(rows)]


def offsets_deleted(count: int, partitions: int) -> list[Row]:
    return [
        event_row(
            "offset_deleted",
            at_s=number,
            **{"topic": "returns", "partition": number % partitions, "offset_before": number},
        )
        for number in range(count)
    ]


def of_member(event: str, name: str | int, at_s: float | None = 0, **fields: Any) -> Row:
    return event_row(event, at_s, **fields, **by_member(f"search-consumer-{name}"))


def churn(times: int, *member_ids: str) -> list[Row]:
    """Members that join and leave in turn."""
    return [
        event_row(
            event,
            at_s=number * 3 + (event == "member_left"),
            member_count=2,
            **by_member(member_ids[number % len(member_ids)]),
        )
        for number in range(times)
        for event in ("member_joined", "member_left")
    ]


def test_every_kind_of_event_has_a_weight() -> None:
    assert set(BY_WEIGHT) == set(EventName)


def test_one_rewind_comes_before_hundreds_of_deletions() -> None:
    rewind = moved("offset_rewind", 990, 100, at_s=7, **by_member("search-consumer-1"))
    assert texts(*offsets_deleted(451, partitions=9), rewind) == [
        "orders:0 set back from 990 to 100 by search-consumer-1 at /10.0.0.1",
        "451 offsets deleted of 9 partitions of returns; client not recorded by Kafka: an admin "
        "tool, or the topic or group was deleted",
    ]


def test_equal_events_that_are_far_apart_are_two_rows() -> None:
    digest = folded_events([event_row("group_emptied", at_s) for at_s in (0, 299, 700)])
    assert [len(folded.rows) for folded in digest] == [1, 2]


def test_events_without_a_timestamp_are_folded() -> None:
    emptied = event_row("group_emptied", None)
    assert texts(emptied, emptied) == ["the last member left 2 times"]


def test_a_member_that_churns_is_one_line() -> None:
    (folded,) = folded_events(churn(99, "search-consumer-aaaa51f4"))
    assert folded.text == "99 joins, 99 leaves of search-consumer-51f4 at /10.0.0.1 in 4.9 min"
    assert folded.events == ("member_joined", "member_left")
    assert folded.who == "search-consumer-51f4 at /10.0.0.1"


def rebalances(*at_s: float) -> list[Row]:
    """Rebalances to generation 2, 3 and so on."""
    return [
        event_row("rebalance", at, epoch_before=n, epoch_after=n + 1)
        for n, at in enumerate(at_s, 1)
    ]


def test_rebalances_without_a_change_of_members_are_one_line() -> None:
    assert texts(*rebalances(*range(1, 9))) == ["8 rebalances in 7 s"]


def test_churn_and_the_rebalances_it_causes_are_one_line() -> None:
    rows = [*churn(5, *(f"search-consumer-{n:04}" for n in range(5))), *rebalances(*range(15))]
    (folded,) = folded_events([*rows, event_row("assignment_changed", 4, **by_member("x-1", "x"))])
    assert folded.text == (
        "15 rebalances, 1 assignment change, 5 joins, 5 leaves of search-consumer in 14 s"
    )
    assert folded.events == ("rebalance", "member_joined", "member_left", "assignment_changed")
    assert folded.count == 26
    assert folded.who is None


def test_a_deploy_is_one_line_beside_the_time_without_members() -> None:
    rows = [
        of_member(event, f"{age}{n}", 60 * n + pause)
        for n in range(3)
        for event, pause, age in (("member_left", 0, "old"), ("member_joined", 2, "new"))
    ]
    emptied = event_row("group_emptied", 60)
    assert texts(*rows, *rebalances(0, 2, 60, 62, 120, 122), emptied) == [
        "the last member left",
        "6 rebalances, 3 joins, 3 leaves of search-consumer in 2 min",
    ]


def test_partitions_of_a_reset_are_one_row_with_the_furthest() -> None:
    rows = [moved("offset_reset", 1_000 * n, 5, partition=n) for n in (1, 2, 3)]
    unknown = (
        "; client not recorded by Kafka: no member held the partition, so an admin tool or assign()"
    )
    assert texts(*rows) == [
        f"3 partitions of orders reset, furthest orders:3 from 3,000 to 5{unknown}"
    ]
    again = [moved("offset_rewind", 10 + n, 5, at_s=n) for n in (1, 2)]
    assert texts(*again) == [
        f"orders:0 set back 2 times in 1 s, furthest orders:0 from 12 to 5{unknown}"
    ]


@pytest.mark.parametrize(
    ("fields", "who"),
    [
        ({"member_count": 0}, "no member held the partition, so an admin tool or assign()"),
        (
            {"member_count": 2},
            "no member held the partition, so another member of the group",
        ),
        ({"member_count": 2, "producer_id": 7}, "a transaction of producer 7"),
        (
            {"member_count": 2, "group_type": "streams"},
            "tasks of a streams group do not name partitions",
        ),
    ],
)
def test_unknown_people_are_said_to_be_unknown(fields: Row, who: str) -> None:
    (folded,) = folded_events([moved("offset_rewind", 9, 5, **fields)])
    assert folded.who == f"not recorded by Kafka: {who}"
    assert folded.text == f"orders:0 set back from 9 to 5; client {folded.who}"


def test_the_other_events_have_sentences() -> None:
    hung: Row = {"topic": "orders", "duration_ms": 90_000, "outcome": "aborted", "producer_id": 5}
    assert texts(event_row("transaction_hung", partition=1, **hung)) == [
        "offsets of orders:1 pending for 90 s in a transaction of producer 5, then aborted"
    ]
    assert texts(event_row("transaction_hung", **(hung | {"topic": None}))) == [
        "offsets pending for 90 s in a transaction of producer 5, then aborted"
    ]
    two = [
        event_row("transaction_hung", partition=n, **(hung | {"producer_id": n, "outcome": ends}))
        for n, ends in ((1, "aborted"), (2, "committed"))
    ]
    assert texts(*two) == [
        "2 offsets of 2 partitions of orders pending for 90 s in transactions of 2 producers, then "
        "aborted or committed"
    ]
    expired: Row = {"topic": "orders", "partition": 0, "offset_before": 1_234}
    assert texts(event_row("offset_expired", **expired)) == ["offset 1,234 of orders:0 expired"]
    assert texts(event_row("group_created")) == ["classic group created"]
    assert texts(event_row("group_created", group_type=None)) == ["group created"]
    assert texts(event_row("rebalance", epoch_after=1_001)) == ["rebalance to generation 1,001"]
    assert texts(event_row("rebalance", epoch_after=2, group_type="share")) == [
        "rebalance to group epoch 2"
    ]
    assert texts(of_member("member_joined", 1)) == ["search-consumer-1 at /10.0.0.1 joined"]
    assert texts(of_member("member_left", 1)) == ["search-consumer-1 at /10.0.0.1 left"]
    assert texts(event_row("group_deleted")) == ["group deleted"]
    assert texts(event_row("something_new")) == ["something new"]
    assigned: Row = {"assignment_after": partitions_of_orders(0, 1)}
    rows = [of_member("assignment_changed", n, **assigned) for n in (1, 2)]
    assert texts(rows[0]) == [
        "assignment of search-consumer-1 at /10.0.0.1 changed from none to orders 0-1"
    ]
    assert texts(*rows) == ["2 assignment changes of search-consumer"]
    task = {"subtopology_id": "0", "partition": 1, "task_type": "active"}
    streams = of_member("assignment_changed", 1, tasks_after=[task])
    assert texts(streams)[0].endswith("from none to active 0_1")


def test_rewinds_of_several_members_name_their_client() -> None:
    rows = [
        moved("offset_rewind", 9, 5, partition=n, **by_member(f"search-consumer-{n}"))
        for n in (1, 2)
    ]
    (folded,) = folded_events(rows)
    assert folded.text == (
        "2 partitions of orders set back, furthest orders:1 from 9 to 5 by search-consumer"
    )
    assert folded.who is None
    unknown = [moved("offset_rewind", 9, 5, partition=n, producer_id=n) for n in (1, 2)]
    assert texts(*unknown)[0].endswith("from 9 to 5; client not recorded by Kafka")


_EVENTS = st.builds(
    lambda event, at_s, number, group_id, member, partition, producer_id, after, count: event_row(
        event,
        at_s,
        **{"record_offset": number, "group_id": group_id, "partition": partition, "topic": "t"},
        **{"offset_before": 50, "offset_after": after, "producer_id": producer_id},
        **{"epoch_after": 2, "member_count": count, "outcome": None, "duration_ms": 1},
        **({} if member is None else by_member(member, member[:1])),
    ),
    event=st.sampled_from([name.value for name in EventName]),
    at_s=st.none() | st.integers(0, 4_000),
    number=st.integers(0, 1_000),
    group_id=st.sampled_from("gh"),
    member=st.none() | st.sampled_from(["a-1", "a-2", "b-1"]),
    partition=st.integers(0, 2),
    producer_id=st.none() | st.integers(1, 2),
    after=st.integers(0, 100),
    count=st.integers(0, 2),
)


@given(st.lists(_EVENTS, max_size=40))
def test_folding_loses_no_event(rows: list[Row]) -> None:
    digest = folded_events(rows)

    assert sorted(id(row) for folded in digest for row in folded.rows) == sorted(map(id, rows))
    assert sum(folded.count for folded in digest) == len(rows)
    for folded in digest:
        assert {row["group_id"] for row in folded.rows} == {folded.group_id}
        assert {row["event"] for row in folded.rows} == set(folded.events)
        times = [row["record_timestamp"] for row in folded.rows if row["record_timestamp"]]
        assert folded.first_at == min(times, default=None)
        assert folded.last_at == max(times, default=None)
    assert [folded.rank for folded in digest] == sorted(folded.rank for folded in digest)


@given(st.lists(_EVENTS, max_size=40))
def test_every_rewind_stays_visible(rows: list[Row]) -> None:
    digest = folded_events(rows)
    rewinds = [folded for folded in digest if "offset_rewind" in folded.events]

    assert digest[: len(rewinds)] == rewinds
    for row in rows:
        if row["event"] == "offset_rewind":
            (folded,) = (folded for folded in rewinds if any(row is of for of in folded.rows))
            assert folded.events == ("offset_rewind",)
            assert {of["topic"] for of in folded.rows} == {row["topic"]}
            assert folded.text.startswith(("t:", "2 partitions of t", "3 partitions of t"))


# --- short labels of members


_IDS = st.text(st.sampled_from("ab-1"), min_size=1, max_size=8)
_MEMBERS = st.dictionaries(_IDS, st.none() | st.text(st.sampled_from("ab-1"), max_size=3))


def test_equal_ends_get_longer_and_others_stay_short() -> None:
    members = {"c-1aaaa": "c", "c-2aaaa": "c", "c-3bbbb": "c"}
    assert list(member_labels(members).values()) == ["c-1aaaa", "c-2aaaa", "c-bbbb"]


def test_a_member_without_a_client_id_has_the_end_of_its_id() -> None:
    assert member_labels({"4vTbnCfyQG2v0fOJvE8C0A": ""}) == {"4vTbnCfyQG2v0fOJvE8C0A": "8C0A"}


def test_a_label_names_one_member_of_its_group_only() -> None:
    rows = [
        {"group_id": group, "member_id": member, "client_id": "c"}
        for group, member in (("g", "c-1aaaa"), ("h", "c-2aaaa"), ("g", "c-1aaaa"), ("g", None))
    ]
    assert labels_of(rows) == {("g", "c-1aaaa"): "c-aaaa", ("h", "c-2aaaa"): "c-aaaa"}


@given(_MEMBERS)
def test_labels_of_a_group_are_distinct(members: dict[str, str | None]) -> None:
    labels = member_labels(members)
    assert labels.keys() == members.keys()
    assert len(set(labels.values())) == len(members)
    backwards = dict(reversed(list(members.items())))
    assert member_labels(backwards) == labels
