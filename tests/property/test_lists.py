"""Lists and the view `topics`, held to the same answers from the rows one by one."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_state.insight.group_status import Status
from coordinator_state.insight.lag import GONE, PRESENT
from streaming.lag.evaluation import GROUP_LAG_ROW, GROUP_STATUS_ROW
from streaming.lag.unread_logs import UNREAD_LOGS
from streaming.views import lists
from streaming.views.list_query import ListQuery
from streaming.views.query import asking
from streaming.views.topics_view import topics_of

Row = dict[str, Any]
_TOPICS = st.sampled_from("tuv")
_PARTITIONS = st.integers(0, 4)
_VALUES = st.none() | st.integers(0, 3)
_KEYED = st.dictionaries(
    st.tuples(st.sampled_from("gh"), _TOPICS, _PARTITIONS),
    st.fixed_dictionaries(
        {
            **dict.fromkeys(("lag", "time_lag_ms", "retention_margin_ms"), _VALUES),
            **{"time_lag_at_least_ms": _VALUES, "committed_offset": _VALUES},
            "is_lag_lower_bound": st.none() | st.booleans(),
            "group_type": st.sampled_from(["classic", "share"]),
            "status": st.sampled_from([status.value for status in Status]),
            "member_id": st.sampled_from(["m", "n", None]),
        }
    ),
)
_UNREAD = st.dictionaries(st.tuples(_TOPICS, _PARTITIONS), _VALUES)
_SILENT = st.sets(st.tuples(st.sampled_from("hi"), _TOPICS, _PARTITIONS))


def listed(query: ListQuery, /, **tables: pa.Table) -> list[Row]:
    """The rows of a list over these tables."""
    with asking(tables.__getitem__) as ask:
        rows: list[Row] = ask(query.sql).to_pylist()
    return rows


def lag_rows(keyed: dict[tuple[str, str, int], Row]) -> list[Row]:
    return [
        {
            **{"group_id": group, "topic": topic, "partition": partition},
            **{"reason": f"in {partition}", "group_state": "Stable", "topic_state": PRESENT},
            **keyed[group, topic, partition],
        }
        for group, topic, partition in sorted(keyed)
    ]


@given(keyed=_KEYED, by=st.sampled_from(["topic", "member_id"]))
def test_the_totals_of_groups(keyed: dict[tuple[str, str, int], Row], by: str) -> None:
    rows = lag_rows(keyed)
    lags = pa.Table.from_pylist(rows, GROUP_LAG_ROW)
    totals = listed(lists.group_totals(["g", "h"], by), group_lag=lags)
    expected = {
        (group, key): _totals([row for row in rows if row["group_id"] == group], by, key)
        for group, key in {(row["group_id"], row[by]) for row in rows}
    }
    for row in totals:
        key = row["group_id"], row[by]
        share = expected[key].pop("share")
        assert row.pop("share") == (None if share is None else pytest.approx(share))
        assert row == {"group_id": key[0], by: key[1], **expected[key]}
    assert len(totals) == len(expected)
    for group in "gh":
        known = [
            -1 if row["lag"] is None else row["lag"] for row in totals if row["group_id"] == group
        ]
        assert known == sorted(known, reverse=True)


def _totals(rows: list[Row], by: str, key: str | None) -> Row:
    own = [row for row in rows if row[by] == key]
    whole, lag = _sum("lag", rows), _sum("lag", own)
    return {
        "status": max((row["status"] for row in own), key=lambda status: Status(status).rank),
        **_sums(own),
        "share": lag / whole if whole and lag is not None else None,
    }


def _sums(rows: list[Row]) -> Row:
    return {
        **{"partitions": len(rows), "lag": _sum("lag", rows), "max_lag": _max("lag", rows)},
        "is_lag_lower_bound": _max("is_lag_lower_bound", rows),
        **{f"max_{name}": _max(name, rows) for name in ("time_lag_ms", "time_lag_at_least_ms")},
    }


@given(keyed=_KEYED)
def test_the_groups_of_a_topic(keyed: dict[tuple[str, str, int], Row]) -> None:
    rows = lag_rows(keyed)
    lags = pa.Table.from_pylist(rows, GROUP_LAG_ROW)
    groups = {row["group_id"]: row for row in listed(lists.topic_groups("t"), group_lag=lags)}
    topic_rows = [row for row in rows if row["topic"] == "t"]
    assert groups.keys() == {row["group_id"] for row in topic_rows}
    for group_id, group in groups.items():
        own = [row for row in topic_rows if row["group_id"] == group_id]
        worst = max(own, key=_badness)
        skew = group.pop("skew")
        assert group == {
            **{name: worst[name] for name in ("group_id", "status", "reason")},
            **{"group_state": "Stable", "topic_state": PRESENT, **_sums(own)},
            "readers": len({row["member_id"] for row in own} - {None}),
        }
        known = [row["lag"] for row in own if row["lag"] is not None]
        mean = sum(known) / len(known) if known else 0
        assert skew == (pytest.approx(max(known) / mean) if mean else None)
    ranks = [Status(group["status"]).rank for group in groups.values()]
    assert ranks == sorted(ranks, reverse=True)


def _badness(row: Row) -> tuple[int, int, int]:
    lag = -1 if row["lag"] is None else row["lag"]
    return Status(row["status"]).rank, lag, -row["partition"]


GROUPS: list[Row] = [
    {"group_id": "Alpha", "status": "OK", "group_state": "Stable", "group_type": "classic"},
    {"group_id": "beta", "status": "STOP", "group_state": "Empty", "group_type": "consumer"},
    {"group_id": "ÄLPHA", "status": "STOP", "group_state": "Dead", "growth_per_s": 3.0},
    {"group_id": "it's", "status": "IDLE", "group_state": "Empty", "growth_per_s": -3.0},
]


@pytest.mark.parametrize(
    ("arguments", "ids"),
    [
        ({}, ["beta", "ÄLPHA", "Alpha", "it's"]),
        ({"sort": "group_id"}, ["Alpha", "beta", "it's", "ÄLPHA"]),
        ({"sort": "-group_id"}, ["ÄLPHA", "it's", "beta", "Alpha"]),
        ({"sort": "growth_per_s"}, ["it's", "ÄLPHA", "Alpha", "beta"]),
        ({"sort": "; DROP"}, ["beta", "ÄLPHA", "Alpha", "it's"]),
        ({"search": "LPH"}, ["ÄLPHA", "Alpha"]),
        ({"search": "älp"}, ["ÄLPHA"]),
        ({"search": "T'S"}, ["it's"]),
        ({"group_ids": ["beta", "nobody"]}, ["beta"]),
        ({"statuses": ["OK", "STOP"]}, ["beta", "ÄLPHA", "Alpha"]),
        ({"states": ["Empty"], "types": ["consumer"]}, ["beta"]),
        ({"topics": ["Orders"]}, ["beta"]),
        ({"topics": ["orders"]}, []),
        ({"topic_part": "ORD"}, ["beta"]),
        ({"topic_part": "ORD", "topics": ["images"]}, []),
        ({"is_growing": True}, ["ÄLPHA"]),
    ],
)
def test_the_groups_that_filters_select(arguments: dict[str, Any], ids: list[str]) -> None:
    lags: list[Row] = [
        {"group_id": "beta", "topic": "Orders", "partition": 0},
        {"group_id": "Alpha", "topic": "images", "partition": 0},
    ]
    rows = listed(
        lists.groups(**arguments),
        group_status=pa.Table.from_pylist(GROUPS, GROUP_STATUS_ROW),
        group_lag=pa.Table.from_pylist(lags, GROUP_LAG_ROW),
    )
    assert [row["group_id"] for row in rows] == ids


@given(_KEYED, _UNREAD, _SILENT, st.sets(_TOPICS), st.dictionaries(_PARTITIONS, _VALUES))
def test_topics_are_those_of_their_rows(
    keyed: dict[tuple[str, str, int], Row],
    unread: dict[tuple[str, int], int | None],
    assigned: set[tuple[str, str, int]],
    gone: set[str],
    rates: dict[int, int | None],
) -> None:
    rows = [
        {
            **row,
            "produce_rate_per_s": rates.get(row["partition"]),
            "topic_state": GONE if row["topic"] in gone else PRESENT,
        }
        for row in lag_rows(keyed)
    ]
    read = {(topic, partition) for _, topic, partition in keyed}
    logs = [
        {"topic": topic, "partition": partition, "state": PRESENT, "produce_rate_per_s": rate}
        for (topic, partition), rate in unread.items()
        if (topic, partition) not in read and topic not in gone
    ]
    silent: dict[str, list[Row]] = {}
    for group, topic, partition in sorted(assigned - set(keyed)):
        silent.setdefault(group, []).append(
            {"topic": topic, "partition": partition, "member_id": "m"}
        )
    topics = topics_of(
        pa.Table.from_pylist(rows, GROUP_LAG_ROW),
        pa.Table.from_pylist(logs, UNREAD_LOGS),
        silent,
    ).to_pylist()
    known = {row["topic"] for row in (*rows, *logs, *(row for of in silent.values() for row in of))}
    assert [row["topic"] for row in topics] == sorted(known)
    for topic in topics:
        _holds(topic, rows, logs, silent)


def _is_read(row: Row) -> bool:
    is_named = row["committed_offset"] is not None or row["member_id"] is not None
    return is_named or row["group_type"] == "share"


def _holds(listed: Row, all_rows: list[Row], logs: list[Row], silent: dict[str, list[Row]]) -> None:
    topic = listed["topic"]
    rows = [row for row in all_rows if row["topic"] == topic]
    unread = {row["partition"]: row for row in logs if row["topic"] == topic}
    assigned = {
        (group, row["partition"])
        for group, places in silent.items()
        for row in places
        if row["topic"] == topic
    }
    by_group: dict[str, list[Row]] = {}
    for row in rows:
        by_group.setdefault(row["group_id"], []).append(row)
    read = {row["partition"] for row in rows if _is_read(row)}
    read |= {partition for _, partition in assigned}
    named = {row["partition"] for row in rows} | read | set(unread)
    assert listed["readers"] == len(by_group.keys() | {group for group, _ in assigned})
    assert listed["partitions"] == 1 + max(named)
    is_gone = any(row["topic_state"] == GONE for row in rows) and not unread
    assert listed["partitions_unread"] == (None if is_gone else listed["partitions"] - len(read))
    rates = {row["partition"]: row["produce_rate_per_s"] for row in (*rows, *unread.values())}
    known = [rate for rate in rates.values() if rate is not None]
    assert listed["produce_rate_per_s"] == (sum(known) if known else None)
    margins = [row["retention_margin_ms"] for row in rows]
    known = [margin for margin in margins if margin is not None]
    assert listed["min_retention_margin_ms"] == min(known, default=None)
    statuses = [row["status"] for row in rows]
    worst = max(statuses, key=lambda status: Status(status).rank, default=None)
    assert listed["status"] == worst
    if worst is None:
        assert listed["lag"] is None
        return
    assert worst in {row["status"] for row in by_group[listed["worst_group_id"]]}
    slowest = max(map(_slowness, by_group.values()))
    assert (listed["max_time_lag_at_least_ms"], listed["lag"]) == tuple(
        None if value < 0 else value for value in slowest
    )
    if not assigned:
        slowest_rows = by_group[listed["slowest_group_id"]]
        assert _slowness(slowest_rows) == slowest
        assert listed["max_time_lag_ms"] == _max("time_lag_ms", slowest_rows)


def _slowness(rows: list[Row]) -> tuple[int, int]:
    values = _max("time_lag_at_least_ms", rows), _sum("lag", rows)
    at_least_ms, lag = (-1 if value is None else value for value in values)
    return at_least_ms, lag


def _sum(name: str, rows: list[Row]) -> int | None:
    known = [row[name] for row in rows if row[name] is not None]
    return sum(known) if known else None


def _max(name: str, rows: list[Row]) -> int | None:
    return max((row[name] for row in rows if row[name] is not None), default=None)
