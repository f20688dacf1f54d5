"""The tab "Deliveries" of a share group: the delivery state of each partition."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from coordinator_state.apply.columns import rows_of
from streaming.dashboard.group_tabs.shown_group import Row, ShownGroup
from streaming.dashboard.tables_of_rows import rows_page
from streaming.lag.share_offsets import NO_START
from streaming.views.list_query import Column, columns
from streaming.views.lists import share_partitions

PAGE_ROWS: Final = 100
_COLUMNS: Final = (
    Column("topic", "Topic", "own", "topic", is_ascending=True),
    *columns("place", partition="Partition"),
    *columns("number", start_offset="Start offset", delivery_complete_count="Delivery complete"),
    *columns("number", available="Available again", acknowledged="Acknowledged"),
    *columns("number", archiving="Archiving", archived="Archived", other="Other"),
    *columns("number", max_delivery_count="Most deliveries"),
    *columns("own", batches="State batches"),
    *columns("ago", delivery_timestamp="Last delivery"),
    *columns("number", state_epoch="State epoch"),
)
_STATES: Final = {0: "available", 2: "acknowledged", 3: "archiving", 4: "archived"}
"""The delivery states that a share coordinator stores; it never stores 1, acquired."""
_OTHER: Final = "other"
"""The count of records in delivery states that Kafka 4.4 does not have."""


def deliveries(group: ShownGroup) -> dict[str, Any]:
    """The page of share partitions that the address selects."""
    query = share_partitions(group.group_id)
    rows = [_row(row) for row in rows_of(group.snapshot.listed(query))]
    rows.sort(key=lambda row: (row["topic"] or row["topic_id"], row["partition"]))
    return {
        "deliveries": rows_page(rows, _COLUMNS, sort="topic", page_rows=PAGE_ROWS, sql=query.sql),
        "is_unknown": group.snapshot.reader.lacks(query.source),
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
            {**batch, "state": _STATES.get(state, f"{_OTHER} ({state})")}
            for batch in batches
            for state in [batch["delivery_state"]]
        ],
    }


def records_by_state(batches: Iterable[Row]) -> dict[str, int]:
    """The number of records in each delivery state.

    >>> records_by_state([{"first_offset": 3, "last_offset": 5, "delivery_state": 2}])
    {'available': 0, 'acknowledged': 3, 'archiving': 0, 'archived': 0, 'other': 0}
    """
    count_by_state = dict.fromkeys([*_STATES.values(), _OTHER], 0)
    for batch in batches:
        state = _STATES.get(batch["delivery_state"], _OTHER)
        count_by_state[state] += batch["last_offset"] - batch["first_offset"] + 1
    return count_by_state
