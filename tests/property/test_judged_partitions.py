"""Statuses of many partitions at once: the same as those of the rules, one by one."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, get_type_hints

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator_state.insight.group_status import Status, StatusRules, Verdict
from coordinator_state.insight.lag import GONE, PRESENT
from coordinator_state.insight.partition_facts import PartitionFacts
from coordinator_state.insight.partition_status import partition_status
from coordinator_state.replay.groups import CONSUMER, SHARE
from streaming.lag.judged_groups import JudgedGroups
from streaming.lag.judged_partitions import _OF_LAG, JudgedPartitions
from streaming.lag.partition_facts import _is_well
from streaming.tables.rows import LagRow

_HINTS = get_type_hints(PartitionFacts)
_TYPES = {int: pa.int64(), bool: pa.bool_(), str: pa.string(), float: pa.float64()}
_LIMITS = sorted({getattr(StatusRules(), limit.name) for limit in fields(StatusRules)})
_INTEGERS = st.sampled_from([0, 1, 2, *(limit + more for limit in _LIMITS for more in (0, 1))])


# They are known where the rules name them.
_KNOWN = (
    *("log_start_offset", "last_stable_offset", "log_end_offset", "rewind_from", "rewind_to"),
    "committed_offset",
)


def _of(name: str, hint: Any) -> st.SearchStrategy[Any]:
    optional = str(hint).endswith("| None") and name not in _KNOWN
    kind = str(hint).removesuffix(" | None")
    values: st.SearchStrategy[Any] = {
        "int": _INTEGERS,
        "float": st.sampled_from([0.0, 1.0, 50.0]),
        "str": st.just("text"),
    }.get(kind, _INTEGERS if hint is int else st.booleans())
    return st.none() | values if optional else values


# Most facts are usual, so the shortcuts are taken often.
_USUAL: dict[str, Any] = {
    **{"topic_state": PRESENT, "behind_ms": 0, "sample_age_ms": 1_000, "data_lost": 0},
    **{"lag": 0, "lag_to_last_stable": 5, "time_lag_ms": 0, "time_lag_at_least_ms": 0},
    **{"rewound_from": None, "held_ms": None, "expires_in_ms": None, "aborted": 0},
    **{"uncommitted_ms": None, "recreated_at_ms": None},
    **{"commit_age_ms": 4_000, "has_members": True, "commits": 10, "commits_from_ms": 600_000},
    **{
        "is_out_of_range": False,
        "unsubscribed_expires_in_ms": None,
        "commit_waits": 9,
        "usual_commit_ms": 5_000,
    },
}
FACTS = st.fixed_dictionaries(
    {
        name: (
            st.sampled_from([_USUAL[name]] * 12) | _of(name, hint)
            if name in _USUAL
            else _of(name, hint)
        )
        for name, hint in _HINTS.items()
        if name != "topic_state"
    }
    | {"topic_state": st.sampled_from([PRESENT] * 8 + [GONE, None])}
    | {"group_type": st.sampled_from([CONSUMER, SHARE])}
)


def _table(rows: list[dict[str, Any]]) -> pa.Table:
    def kind(hint: Any) -> pa.DataType:
        for name, data_type in (("str", pa.string()), ("float", pa.float64()), ("int", pa.int64())):
            if str(hint).startswith(name) or (hint in _TYPES and data_type == _TYPES[hint]):
                return data_type
        return pa.bool_()

    schema = pa.schema([(name, kind(hint)) for name, hint in _HINTS.items()])
    facts = pa.Table.from_pylist(rows, schema=schema)
    return facts.append_column("is_well", _is_well(facts, StatusRules()))


def _lags(rows: list[dict[str, Any]]) -> pa.Table:
    columns: dict[str, Any] = {
        "group_id": [f"g{number // 2}" for number in range(len(rows))],
        "topic": ["t"] * len(rows),
        "partition": list(range(len(rows))),
    }
    known = _table(rows)
    for name in set(_OF_LAG[3:]) - {"member_id"}:
        columns[name] = known[name]
    columns["member_id"] = pa.nulls(len(rows), pa.string())
    assert set(columns) == set(_OF_LAG) <= {column.name for column in fields(LagRow)}
    return pa.table(columns)


@settings(max_examples=60)
@given(rows=st.lists(FACTS, min_size=1, max_size=5), stale=st.booleans())
def test_each_status_is_that_of_the_rules(rows: list[dict[str, Any]], stale: bool) -> None:
    rules, facts = StatusRules(), _table(rows)
    verdict = Verdict(Status.UNKNOWN, "nothing written") if stale else None
    judged = JudgedPartitions(_lags(rows), facts, rules, verdict)
    wanted = [verdict or partition_status(PartitionFacts(**row), rules) for row in rows]
    assert judged.ranks.tolist() == [each.status.rank for each in wanted]
    numbers = np.arange(len(rows))
    columns = [
        (row["status"], row["reason"], row["cause"], row["lag_text"])
        for row in judged.rows(numbers)
    ]
    assert columns == [(each.status.value, each.reason, *each[1:]) for each in wanted]
    assert judged.reasons(numbers).to_pylist() == [each.reason for each in wanted]
    growths = [row["growth_per_s"] for row in judged.rows(numbers)]
    assert judged.trends["growth_per_s"].to_pylist() == growths
    some = numbers[::2]
    assert judged.rows(some) == judged.rows(numbers)[::2]


@settings(max_examples=60)
@given(
    rows=st.lists(FACTS, min_size=1, max_size=5),
    stale=st.booleans(),
    members=st.integers(min_value=0, max_value=1),
)
def test_a_group_has_its_worst_status_and_its_totals(
    rows: list[dict[str, Any]], stale: bool, members: int
) -> None:
    verdict = Verdict(Status.UNKNOWN, "nothing written") if stale else None
    judged = JudgedPartitions(_lags(rows), _table(rows), StatusRules(), verdict)
    ids = [f"g{number}" for number in range((len(rows) + 1) // 2)]
    groups = pa.table(
        {
            "group_id": [*ids, "without"],
            **{"group_type": ["classic"] * (len(ids) + 1), "state": ["Stable"] * (len(ids) + 1)},
            "member_count": [1] * len(ids) + [members],
        }
    )
    verdicts = {
        "without": [Verdict(Status.IDLE, "no offsets")],
        "g0": [Verdict(Status.REBALANCING_LOOP, "rebalances")],
    }
    judged_groups = JudgedGroups(groups, judged, verdicts)
    table = {row["group_id"]: row for row in judged_groups.table.to_pylist()}
    reasons = judged_groups.reasons(np.arange(len(judged_groups))).to_pylist()
    by_number = judged.rows(np.arange(len(judged)))
    partitions = judged.columns.to_pylist()
    statuses = [Status(name) for name in judged.statuses.to_pylist()]
    for group_id, reason in zip(table, reasons, strict=True):
        row = table[group_id]
        numbers = [n for n, each in enumerate(partitions) if each["group_id"] == group_id]
        own = [each.status for each in verdicts.get(group_id, ())]
        worst = max((*own, *(statuses[n] for n in numbers)), key=lambda status: status.rank)
        assert row["status"] == (verdict.status if verdict else worst).value
        worst_rows = [by_number[n] for n in numbers if by_number[n]["status"] == row["status"]]
        if verdict or not worst_rows:
            assert (reason["topic"], reason["partition"]) == (None, None)
            texts = [each.reason for each in verdicts.get(group_id, ())]
            assert reason["reason"] in ([verdict.reason] if verdict else [*texts, ""])
        else:
            # Of equally bad partitions, the first of those with the most records to read, if
            # possible with a committed offset.
            is_new = {
                each["partition"]: judged.is_uncommitted[each["partition"]] for each in by_number
            }
            first = max(
                worst_rows, key=lambda each: (each["lag"] or 0, not is_new[each["partition"]])
            )
            assert (reason["topic"], reason["partition"]) == (first["topic"], first["partition"])
            is_alone = len(numbers) == 1
            if is_alone or (worst in {Status.OK, Status.IDLE} and not first["lag"]):
                cause = "rebalances; " if group_id == "g0" else ""
                assert reason["reason"] == cause + first["reason"]
        assert row["partitions"] == len(numbers)
        not_ok = [n for n in numbers if statuses[n] not in {Status.OK, Status.IDLE}]
        assert row["partitions_not_ok"] == len(not_ok)
        lags = [lag for n in numbers if (lag := partitions[n]["lag"]) is not None]
        nothing = None if numbers or members else 0
        assert row["lag"] == (sum(lags) if lags else nothing)
        margins = [partitions[n]["retention_margin_ms"] for n in numbers]
        known = [margin for margin in margins if margin is not None]
        assert row["min_retention_margin_ms"] == min(known, default=None)
        assert not stale or row["growth_per_s"] is None


_WELL: dict[str, Any] = {
    **dict.fromkeys(_HINTS, None),
    **_USUAL,
    **{"committed_offset": 5, "at_ms": 0, "same_commits": 1},
    **{"commit_rate_per_s": 1.0, "produce_rate_per_s": 1.0, "present_rate_per_s": 1.0},
}


def test_the_short_way_is_taken() -> None:
    late = _WELL | {"lag": 7, "time_lag_ms": 90_000}
    facts = _table([_WELL, _WELL | {"lag": 7}, late])
    assert facts["is_well"].to_pylist() == [True, True, False]


def test_the_reasons_of_groups_are_in_their_order() -> None:
    """Those of groups that are caught up are made apart from the others."""
    behind, left = _WELL | {"lag": 7}, _WELL | {"has_members": False}
    rows = [behind, _WELL, _WELL, _WELL, behind, behind, left, left, _WELL]
    judged = JudgedPartitions(_lags(rows), _table(rows), StatusRules(), None)
    groups = pa.table(
        {
            "group_id": [f"g{number}" for number in range(6)],
            **{"group_type": ["classic"] * 6, "state": ["Stable"] * 6, "member_count": [1] * 6},
        }
    )
    verdicts = {
        "g4": [Verdict(Status.REBALANCING_LOOP, "rebalances")],
        "g5": [Verdict(Status.IDLE, "no offsets")],
    }
    reasons = JudgedGroups(groups, judged, verdicts).reasons(np.array([5, 4, 3, 2, 1, 0]))
    assert [tuple(row.values()) for row in reasons.to_pylist()] == [
        (None, None, "no offsets"),
        (None, None, "rebalances"),
        ("t", 6, "caught up; the group has no members"),
        ("t", 4, "14 behind, oldest 0 s"),
        ("t", 2, "caught up"),
        ("t", 0, "7 behind, oldest 0 s"),
    ]
