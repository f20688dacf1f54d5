"""Statuses of many partitions at once: the same as those of the rules, one by one."""

from __future__ import annotations

from dataclasses import fields
from datetime import datetime, timezone
from typing import Any, get_type_hints

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator_state.apply.columns import TIMESTAMP, columns_of, with_columns
from coordinator_state.insight.group_status import Cause, Status, StatusRules, Verdict
from coordinator_state.insight.lag import GONE, PRESENT
from coordinator_state.insight.partition_facts import PartitionFacts
from coordinator_state.insight.partition_status import partition_status
from coordinator_state.replay.groups import CONSUMER, SHARE
from streaming.lag.evaluation import GROUP_STATUS_ROW
from streaming.lag.group_lag import LAG_ROW
from streaming.lag.group_statuses import rows_of_groups
from streaming.lag.partition_facts import _is_well
from streaming.lag.partition_statuses import with_statuses

_HINTS = get_type_hints(PartitionFacts)
_TYPES = {"int": pa.int64(), "str": pa.string(), "float": pa.float64()}
_LIMITS = sorted({getattr(StatusRules(), limit.name) for limit in fields(StatusRules)})
_INTEGERS = st.sampled_from([0, 1, 2, *(limit + more for limit in _LIMITS for more in (0, 1))])


def _kind(hint: Any) -> str:
    """The name of a type without `None`."""
    return getattr(hint, "__name__", str(hint).removesuffix(" | None"))


# They are known where the rules name them.
_KNOWN = (
    *("log_start_offset", "last_stable_offset", "log_end_offset", "rewind_from", "rewind_to"),
    "committed_offset",
)


def _of(name: str, hint: Any) -> st.SearchStrategy[Any]:
    optional = str(hint).endswith("| None") and name not in _KNOWN
    values: st.SearchStrategy[Any] = {
        "int": _INTEGERS,
        "float": st.sampled_from([0.0, 1.0, 50.0]),
        "str": st.just("text"),
    }.get(_kind(hint), st.booleans())
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
    schema = pa.schema(
        [(name, _TYPES.get(_kind(hint), pa.bool_())) for name, hint in _HINTS.items()]
    )
    facts = pa.Table.from_pylist(rows, schema=schema)
    return facts.append_column("is_well", _is_well(facts, StatusRules()))


def _lags(rows: list[dict[str, Any]]) -> pa.Table:
    known = columns_of(_table(rows), LAG_ROW)
    keys: dict[str, Any] = {
        "group_id": pa.array([f"g{number // 2}" for number in range(len(rows))]),
        "topic": pa.repeat("t", len(rows)),
        "partition": pa.array(range(len(rows)), pa.int32()),
    }
    is_new = [row["uncommitted_ms"] is not None for row in rows]
    since = pa.array([datetime.now(timezone.utc) if new else None for new in is_new], TIMESTAMP)
    return with_columns(known, keys | {"uncommitted_since": since})


def _groups(ids: list[str], members: int = 1) -> pa.Table:
    names = {"group_type": "classic", "state": "Stable"}
    columns = {name: [value] * len(ids) for name, value in names.items()}
    counts = [1] * (len(ids) - 1) + [members]
    return pa.table({"group_id": ids, **columns, "member_count": counts})


@settings(max_examples=60)
@given(rows=st.lists(FACTS, min_size=1, max_size=5), stale=st.booleans())
def test_each_status_is_that_of_the_rules(rows: list[dict[str, Any]], stale: bool) -> None:
    rules, facts = StatusRules(), [PartitionFacts(**row) for row in rows]
    verdict = Verdict(Status.UNKNOWN, "nothing written") if stale else None
    evaluated = with_statuses(_lags(rows), _table(rows), rules, verdict)
    wanted = [verdict or partition_status(each, rules) for each in facts]
    assert evaluated["status"].to_pylist() == [each.status.value for each in wanted]
    assert evaluated["reason"].to_pylist() == [each.reason for each in wanted]
    assert evaluated["cause"].to_pylist() == [each.cause for each in wanted]
    assert evaluated["has_lag_text"].to_pylist() == [bool(each.lag_text) for each in wanted]
    growths = evaluated["growth_per_s"].to_pylist()
    is_well = _table(rows)["is_well"].to_pylist()
    for growth, each, well in zip(growths, facts, is_well, strict=True):
        assert well or growth == each.growth_per_s


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
    evaluated = with_statuses(_lags(rows), _table(rows), StatusRules(), verdict)
    ids = [f"g{number}" for number in range((len(rows) + 1) // 2)]
    verdicts = {
        "without": [Verdict(Status.IDLE, "no offsets")],
        "g0": [Verdict(Status.REBALANCING_LOOP, "rebalances", Cause.REBALANCES)],
    }
    groups = rows_of_groups(_groups([*ids, "without"], members), evaluated, verdicts, verdict)
    for row in columns_of(groups, GROUP_STATUS_ROW).to_pylist():
        group_id = row["group_id"]
        partitions = evaluated.filter(pc.field("group_id") == group_id).to_pylist()
        statuses = [Status(each["status"]) for each in partitions]
        own = [each.status for each in verdicts.get(group_id, ())]
        worst = max((*own, *statuses), key=lambda status: status.rank)
        assert row["status"] == (verdict.status if verdict else worst).value
        worst_rows = [each for each in partitions if each["status"] == row["status"]]
        if verdict or not worst_rows:
            assert (row["topic"], row["partition"]) == (None, None)
            texts = [each.reason for each in verdicts.get(group_id, ())]
            assert row["reason"] in ([verdict.reason] if verdict else [*texts, ""])
        else:
            # Of equally bad partitions, the first of those with the most records to read, if
            # possible with a committed offset.
            first = max(
                worst_rows, key=lambda each: (each["lag"] or 0, each["uncommitted_since"] is None)
            )
            assert (row["topic"], row["partition"]) == (first["topic"], first["partition"])
            is_of_loop = group_id == "g0" and worst in {Status.STALL, Status.STOP}
            assert row["cause"] == (Cause.REBALANCES if is_of_loop else first["cause"])
            is_alone = len(partitions) == 1
            if is_alone or (worst in {Status.OK, Status.IDLE} and not first["lag"]):
                cause = "rebalances; " if group_id == "g0" else ""
                assert row["reason"] == cause + first["reason"]
        assert row["partitions"] == len(partitions)
        not_ok = [status for status in statuses if status not in {Status.OK, Status.IDLE}]
        assert row["partitions_not_ok"] == len(not_ok)
        lags = [each["lag"] for each in partitions if each["lag"] is not None]
        nothing = None if partitions or members else 0
        assert row["lag"] == (sum(lags) if lags else nothing)
        margins = [each["retention_margin_ms"] for each in partitions]
        known = [margin for margin in margins if margin is not None]
        assert row["min_retention_margin_ms"] == min(known, default=None)
        assert not stale or row["growth_per_s"] is row["trend"] is None


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
    evaluated = with_statuses(_lags(rows), _table(rows), StatusRules(), None)
    verdicts = {
        "g4": [Verdict(Status.REBALANCING_LOOP, "rebalances")],
        "g5": [Verdict(Status.IDLE, "no offsets")],
    }
    groups = rows_of_groups(_groups([f"g{n}" for n in range(6)]), evaluated, verdicts, None)
    reasons = groups.select(["topic", "partition", "reason"]).to_pylist()
    assert [tuple(row.values()) for row in reasons] == [
        ("t", 0, "7 behind, oldest 0 s"),
        ("t", 2, "caught up"),
        ("t", 4, "14 behind, oldest 0 s"),
        ("t", 6, "caught up; the group has no members"),
        (None, None, "rebalances"),
        (None, None, "no offsets"),
    ]
