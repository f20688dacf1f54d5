"""The tab "Deliveries" of a share group: the delivery state of each partition."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from streaming.dashboard.group_tabs.shown_group import Row, ShownGroup
from streaming.dashboard.tables_of_rows import rows_page
from streaming.lag.share_offsets import NO_START
from streaming.tables.filters import of_groups
from streaming.tables.schemas import SHARE_PARTITIONS

PAGE_ROWS: Final = 100
_COLUMNS: Final = [
    *("topic", "topic_id", "partition", "start_offset", "delivery_complete_count"),
    *("state_batches", "delivery_timestamp", "state_epoch", "leader_epoch"),
]
_SORTED_BY: Final = (
    *("topic", "partition", "start_offset", "delivery_complete_count", "available"),
    *("acknowledged", "archived", "max_delivery_count", "delivery_timestamp", "state_epoch"),
)
_STATES: Final = {0: "available", 2: "acknowledged", 4: "archived"}
"""The delivery states that a share coordinator stores; it never stores 1, acquired."""


def deliveries(group: ShownGroup) -> dict[str, Any]:
    """The page of share partitions that the address selects."""
    partitions = group.snapshot.reader.read(
        SHARE_PARTITIONS.name, _COLUMNS, of_groups([group.group_id])
    ).to_pylist()
    rows = [_row(row) for row in partitions]
    rows.sort(key=lambda row: (row["topic"] or row["topic_id"], row["partition"]))
    return {
        "deliveries": rows_page(rows, sort="topic", columns=_SORTED_BY, page_rows=PAGE_ROWS),
        "is_unknown": group.snapshot.reader.lacks(SHARE_PARTITIONS.name),
    }


def _row(row: Row) -> Row:
    batches = sorted(row["state_batches"], key=lambda batch: batch["first_offset"])
    is_known = row["start_offset"] != NO_START
    return {
        **row,
        "start_offset": row["start_offset"] if is_known else None,
        **records_by_state(batches),
        "max_delivery_count": max((batch["delivery_count"] for batch in batches), default=None),
        "batches": [
            {**batch, "state": _STATES.get(batch["delivery_state"], str(batch["delivery_state"]))}
            for batch in batches
        ],
    }


def records_by_state(batches: Iterable[Row]) -> dict[str, int]:
    """The number of records in each delivery state.

    >>> records_by_state([{"first_offset": 3, "last_offset": 5, "delivery_state": 2}])
    {'available': 0, 'acknowledged': 3, 'archived': 0}
    """
    count_by_state = dict.fromkeys(_STATES.values(), 0)
    for batch in batches:
        state = _STATES.get(batch["delivery_state"])
        if state is not None:
            count_by_state[state] += batch["last_offset"] - batch["first_offset"] + 1
    return count_by_state
