"""The list of topics, computed by columns: the same as from the rows of each topic."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from coordinator_state.insight.group_status import Status
from coordinator_state.insight.lag import GONE, PRESENT
from streaming.lag.evaluation import GROUP_LAG_ROW
from streaming.lag.unread_logs import UNREAD_LOGS
from streaming.served.topic_groups import topic_groups
from streaming.served.topic_list import topic_list

Row = dict[str, Any]
_TOPICS = st.sampled_from("tuv")
_PARTITIONS = st.integers(0, 4)
_VALUES = st.none() | st.integers(0, 3)
_ROWS = st.dictionaries(
    st.tuples(st.sampled_from("gh"), _TOPICS, _PARTITIONS),
    st.fixed_dictionaries(
        {
            **dict.fromkeys(("lag", "time_lag_ms", "retention_margin_ms"), _VALUES),
            "time_lag_at_least_ms": _VALUES,
            "status": st.sampled_from(list(Status)),
        }
    ),
)
_UNREAD = st.dictionaries(st.tuples(_TOPICS, _PARTITIONS), _VALUES)
_SILENT = st.sets(st.tuples(st.sampled_from("hi"), _TOPICS, _PARTITIONS))


@given(_ROWS, _UNREAD, _SILENT, st.sets(_TOPICS), st.dictionaries(_PARTITIONS, _VALUES))
def test_topics_are_those_of_their_rows(
    keyed: dict[tuple[str, str, int], Row],
    unread: dict[tuple[str, int], int | None],
    assigned: set[tuple[str, str, int]],
    gone: set[str],
    rates: dict[int, int | None],
) -> None:
    rows = [
        {
            **{"group_id": group, "topic": topic, "partition": partition, "reason": "because"},
            **{"produce_rate_per_s": rates.get(partition), "group_state": "Stable"},
            **{"topic_state": GONE if topic in gone else PRESENT, "member_id": None},
            **keyed[group, topic, partition],
            "rank": keyed[group, topic, partition]["status"].rank,
        }
        for group, topic, partition in sorted(keyed)
    ]
    read = {(topic, partition) for _, topic, partition in keyed}
    logs = [
        {"topic": topic, "partition": partition, "state": PRESENT, "produce_rate_per_s": rate}
        for (topic, partition), rate in unread.items()
        if (topic, partition) not in read and topic not in gone
    ]
    silent: dict[str, list[Row]] = {}
    for group, topic, partition in sorted(assigned - set(keyed)):
        silent.setdefault(group, []).append({"topic": topic, "partition": partition})
    topics = topic_list(
        pa.Table.from_pylist(rows, GROUP_LAG_ROW),
        pa.Table.from_pylist(logs, UNREAD_LOGS),
        silent,
    )
    known = {row["topic"] for row in (*rows, *logs, *(row for of in silent.values() for row in of))}
    by_topic = {row["topic"]: row for row in topics.rows(np.arange(len(topics)))}
    assert by_topic.keys() == known
    for topic in known:
        _holds(by_topic[topic], topic, rows, logs, silent)


def _holds(
    listed: Row, topic: str, rows: list[Row], logs: list[Row], silent: dict[str, list[Row]]
) -> None:
    topic_rows = [row for row in rows if row["topic"] == topic]
    unread = {row["partition"]: row for row in logs if row["topic"] == topic}
    assigned = {
        (group, row["partition"])
        for group, places in silent.items()
        for row in places
        if row["topic"] == topic
    }
    groups = topic_groups(topic_rows)
    read = {row["partition"] for row in topic_rows} | {partition for _, partition in assigned}
    assert listed["readers"] == len(
        {row["group_id"] for row in topic_rows} | {group for group, _ in assigned}
    )
    assert listed["partitions"] == 1 + max(read | set(unread))
    is_gone = any(row["topic_state"] == GONE for row in topic_rows) and not unread
    assert listed["unread"] == (None if is_gone else listed["partitions"] - len(read))
    rates = {
        row["partition"]: row["produce_rate_per_s"] for row in (*topic_rows, *unread.values())
    }.values()
    known = [rate for rate in rates if rate is not None]
    assert listed["produce_rate_per_s"] == (sum(known) if known else None)
    margins = [row["retention_margin_ms"] for row in topic_rows]
    assert listed["min_retention_margin_ms"] == min(
        (margin for margin in margins if margin is not None), default=None
    )
    worst = max(topic_rows, key=lambda row: row["rank"], default=None)
    assert (listed["rank"], listed["status"]) == (
        (worst["rank"], worst["status"].value) if worst else (None, None)
    )
    ranks = [row["rank"] for row in topic_rows if row["group_id"] == listed["worst"]]
    assert max(ranks, default=None) == listed["rank"]
    if not groups:
        assert listed["lag"] is None
        return
    slowest = max(map(_slowness, groups))
    assert (listed["max_time_lag_at_least_ms"], listed["lag"]) == tuple(
        None if value < 0 else value for value in slowest
    )
    if not assigned:
        (slowest_group,) = [group for group in groups if group["group_id"] == listed["slowest"]]
        assert _slowness(slowest_group) == slowest
        assert listed["max_time_lag_ms"] == slowest_group["max_time_lag_ms"]


def _slowness(group: Row) -> tuple[int, int]:
    values = group["max_time_lag_at_least_ms"], group["lag"]
    return tuple(-1 if value is None else value for value in values)  # type: ignore[return-value]
