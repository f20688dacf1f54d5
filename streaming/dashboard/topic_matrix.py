"""The matrix of a topic: a row for each group, a column for each partition, lag in the cells."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from coordinator_state.insight.group_status import time_text
from coordinator_state.insight.lag_text import behind_text
from streaming.dashboard.shown import level
from streaming.served.snapshot import ServedSnapshot
from streaming.views.member_labels import member_labels
from streaming.views.text import printable

Row = dict[str, Any]

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
        of_groups = [row for row in rows if row["group_id"] in shown]
        labels = member_labels(snapshot.reader, of_groups)
        for row in of_groups:
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
