"""The page of a topic: its groups, its partitions, and the matrix of both."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from starlette.exceptions import HTTPException

from coordinator_state.apply.columns import rows_of
from coordinator_state.insight.group_status import time_text
from coordinator_state.insight.lag_text import behind_text
from streaming.dashboard.rendered import Page, render_template
from streaming.dashboard.request import request
from streaming.dashboard.shown import level
from streaming.dashboard.tables_of_rows import PAGE_ROWS, chosen_values, list_page, rows_page
from streaming.served.snapshot import ServedSnapshot
from streaming.views.event_summary import member_labels
from streaming.views.list_query import columns
from streaming.views.lists import topic_groups, topic_partitions
from streaming.views.text import printable

Row = dict[str, Any]

AT_ONCE: Final = 64
"""The partitions that a page shows."""
_UNKNOWN: Final[Row] = {
    **dict.fromkeys(("log_start_offset", "last_stable_offset", "log_end_offset")),
    **{"produce_rate_per_s": None, "max_lag": None, "groups": 0},
}
"""A partition that nobody reads and that is not sampled."""


@dataclass(slots=True)
class TopicPartitions:
    """The partitions of a topic.

    Args:
        topic: a row of `topics`.
        read: the rows of the list `topic_partitions`.
        unread: the rows of `unread_logs`.
    """

    topic: Row
    read: Sequence[Row]
    unread: pa.Table

    def __len__(self) -> int:
        number: int = self.topic["partitions"]
        return number

    def shown(self, first: str) -> list[Row]:
        """The partitions from a number on: the rows of `topic_partitions`, and unread ones.

        `share` is the part of the records that is produced to the partition. `bar` is its produce
        rate in percent of the greatest one.
        """
        begin = int(first) if first.isdecimal() and len(first) < 10 else 0
        begin = max(min(begin, len(self) - 1), 0) // AT_ONCE * AT_ONCE
        is_of_topic = pc.equal(self.unread["topic"], self.topic["topic"])
        unread = self.unread.filter(is_of_topic).to_pylist()
        logs = {row["partition"]: row for row in (*unread, *self.read)}
        rates = [row["produce_rate_per_s"] or 0 for row in logs.values()]
        total, highest = sum(rates) or None, max(rates, default=0) or None
        rows = [
            {**_UNKNOWN, **logs.get(partition, {}), "partition": partition}
            for partition in range(begin, min(begin + AT_ONCE, len(self)))
        ]
        for row in rows:
            rate = row["produce_rate_per_s"]
            row["share"] = None if rate is None or total is None else rate / total
            row["bar"] = round(100 * (rate or 0) / (highest or 1))
        return rows


MAX_CELLS: Final = 1_536
"""The cells of a page; the page has fewer rows if the topic has many partitions."""
_MAX_OWNER: Final = 40
"""Characters of an owner's label: every cell repeats it. Labels differ at their end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A group in a partition; `level` is the severity of its status, and `about` the details."""

    lag: int | None
    level: str
    about: str


MATRIX_COLUMNS: Final = (
    *columns("group", group_id="Group"),
    *columns("number", lag="Lag", skew="Skew"),
)
"""The columns before those of the partitions."""


@dataclass(frozen=True, slots=True)
class Matrix:
    """Rows of cells; None where a group does not read a partition."""

    rows: Sequence[tuple[Mapping[str, Any], Sequence[Cell | None]]]

    @classmethod
    def of(
        cls,
        snapshot: ServedSnapshot,
        topic: str,
        groups: Sequence[Mapping[str, Any]],
        rows: Sequence[Row],
        columns: Sequence[Row],
    ) -> Matrix:
        """The matrix of these groups and partitions.

        Args:
            snapshot: the snapshot.
            topic: the topic.
            groups: rows of `topic_groups`, in the order of the matrix.
            rows: the rows of `group_lag` of the topic, with status.
            columns: the partitions to show.
        """
        shown = {group["group_id"] for group in groups}
        cells: dict[str, dict[int, Cell]] = defaultdict(dict)
        for group_id in shown:
            for place in snapshot.silent.get(group_id, ()):
                if place["topic"] == topic:
                    cells[group_id][place["partition"]] = _silent_cell()
        shown_rows = [row for row in rows if row["group_id"] in shown]
        labels = member_labels(snapshot.reader, shown_rows)
        for row in shown_rows:
            cells[row["group_id"]][row["partition"]] = _cell(row, labels)
        partitions = [column["partition"] for column in columns]
        return cls(
            [
                (group, [cells[group["group_id"]].get(partition) for partition in partitions])
                for group in groups
            ]
        )


def _cell(row: Row, labels: Mapping[tuple[str, str], str]) -> Cell:
    owner = "no owner"
    if row["member_id"] is not None:
        owner = f"owner {_short(labels[row['group_id'], row['member_id']])}"
    if row["lag"] is None:
        behind = row["time_lag_unknown"] or "lag unknown"
    else:
        behind = behind_text(row["lag"], is_lower_bound=row["is_lag_lower_bound"]) + _oldest(row)
    committed = row["committed_offset"]
    done = "nothing committed" if committed is None else f"committed {committed:,}"
    return Cell(
        lag=row["lag"],
        level=level(row["status"]),
        about="; ".join((row["status"], behind, done, owner)),
    )


def _oldest(row: Row) -> str:
    at_least_ms = row["time_lag_at_least_ms"]
    if not row["lag"] or at_least_ms is None:
        return ""
    bound = "" if at_least_ms == row["time_lag_ms"] else "at least "
    return f", oldest {bound}{time_text(at_least_ms)}"


def _silent_cell() -> Cell:
    return Cell(lag=None, level="unknown", about="assigned, nothing committed; lag unknown")


def _short(label: str) -> str:
    shown = printable(label)
    return shown if len(shown) <= _MAX_OWNER else f"…{shown[1 - _MAX_OWNER :]}"


def page() -> str:
    """Show one topic."""
    name = request.query_params.get("topic", "")
    snapshot = request.cluster.snapshot(request.at)
    known = rows_of(snapshot.topics.filter(pc.field("topic") == name))
    if not known:
        raise HTTPException(
            404, f"No group reads topic {name!r} at this moment, and it is not sampled."
        )
    (topic,) = known
    rows = snapshot.partitions_of_topic(name)
    logs = topic_partitions(name)
    partitions = TopicPartitions(topic, rows_of(snapshot.listed(logs)), snapshot.unread)
    columns = partitions.shown(request.query_params.get("first", "0"))
    query = topic_groups(
        name,
        search=request.query_params.get("search", ""),
        statuses=chosen_values("status"),
        sort=request.query_params.get("sort", ""),
    )
    page_rows = min(PAGE_ROWS, MAX_CELLS // max(len(columns), 1))
    groups = list_page(snapshot, query, page_rows=page_rows)
    return render_template(
        "topic.html",
        snapshot=snapshot,
        topic=topic,
        partitions=partitions,
        columns=columns,
        logs=rows_page(columns, logs.shown, arguments={}, page_rows=AT_ONCE, sql=logs.sql),
        partitions_at_once=AT_ONCE,
        groups=groups,
        matrix_columns=MATRIX_COLUMNS,
        matrix=Matrix.of(snapshot, name, groups.rows, rows, columns),
        silent=_silent_groups(snapshot, name, {row["group_id"] for row in rows}),
    )


def _silent_groups(snapshot: ServedSnapshot, topic: str, known: set[str]) -> list[str]:
    """The groups with members on the topic that have committed nothing of it."""
    return [
        group_id
        for group_id, places in snapshot.silent.items()
        if group_id not in known and any(place["topic"] == topic for place in places)
    ]


PAGES = (Page("topic", "topic", page),)
