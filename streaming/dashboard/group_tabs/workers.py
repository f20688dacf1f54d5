"""The tab "Workers" of a group of Kafka Connect: its connectors, and their tasks by worker."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from coordinator_state.insight.member_labels import labels_of
from coordinator_state.insight.partition_text import ranges_text
from streaming.dashboard.group_tabs.members import PAGE_ROWS, joined_at
from streaming.dashboard.group_tabs.shown_group import SINK_PREFIX, Row, ShownGroup
from streaming.dashboard.tables_of_rows import rows_page
from streaming.views.list_query import Column, columns
from streaming.views.lists import group_members

CONNECTOR: Final = -1
"""The number of the task that stands for the connector itself."""
_COLUMNS: Final = ["member_id", "client_id", "client_host", "subscription_json", "assignment_json"]
_CONNECTORS: Final = (
    *columns("text", connector="Connector"),
    *columns("own", worker="Runs on", of_workers="Tasks by worker"),
    *columns("group", group_id="Consumer group"),
)
_WORKERS: Final = (
    Column("label", "Worker", "own", "label", is_ascending=True),
    *columns("text", url="URL"),
    *columns("number", connectors="Connectors", tasks="Tasks"),
    Column("text", "Assignment", "own", css="assigned"),
    *columns("own", revoked="Revoked"),
    *columns("number", config_offset="Config offset"),
    *columns("own", joined="Joined"),
)


def workers(group: ShownGroup) -> dict[str, Any]:
    """The connectors and the workers of a cluster of Kafka Connect."""
    members = group.snapshot.reader.own("group_members", _COLUMNS, [group.group_id]).to_pylist()
    labels = labels_of(members)
    rows = [_worker(row, labels[group.group_id, row["member_id"]]) for row in members]
    connectors = _connectors(rows)
    sinks = group.snapshot.groups([f"{SINK_PREFIX}{row['connector']}" for row in connectors])
    for row in connectors:
        group_id = f"{SINK_PREFIX}{row['connector']}"
        row["group_id"] = group_id if group_id in sinks else None
    sql = group_members(group.group_id).sql
    page = rows_page(rows, _WORKERS, sort="label", page_rows=PAGE_ROWS, sql=sql)
    return {
        # The address has one order and page; it is that of the workers.
        "connectors": rows_page(connectors, _CONNECTORS, arguments={}, page_rows=500),
        "workers": page,
        "joined": joined_at(group, [row["member_id"] for row in page.rows]),
    }


def _worker(row: Row, label: str) -> Row:
    """A worker; fields are None if its bytes cannot be decoded."""
    subscription: Row = json.loads(row["subscription_json"] or "{}")
    assignment: Row = json.loads(row["assignment_json"] or "{}")
    assigned = _tasks(assignment.get("assignment"))
    return {
        **{"member_id": row["member_id"], "label": label, "client_host": row["client_host"]},
        "url": subscription.get("url"),
        "config_offset": subscription.get("config-offset"),
        "is_leader": assignment.get("leader") == row["member_id"],
        "assigned": assigned,
        "connectors": sum(CONNECTOR in numbers for numbers in assigned.values()),
        "tasks": sum(number != CONNECTOR for numbers in assigned.values() for number in numbers),
        "text": tasks_text(assigned),
        "revoked": tasks_text(_tasks(assignment.get("revoked"))),
        "delay_ms": assignment.get("delay") or None,
        "error": assignment.get("error") or None,
    }


def _tasks(assignment: Iterable[Row] | None) -> Mapping[str, Sequence[int]]:
    return {row["connector"]: row["tasks"] for row in assignment or ()}


def _connectors(workers: Iterable[Row]) -> list[Row]:
    """Each connector with the worker that runs it, and its tasks by worker."""
    by_connector: dict[str, Row] = defaultdict(lambda: {"worker": None, "of_workers": []})
    for worker in workers:
        for connector, numbers in worker["assigned"].items():
            tasks = [number for number in numbers if number != CONNECTOR]
            if CONNECTOR in numbers:
                by_connector[connector]["worker"] = worker["label"]
            if tasks:
                by_connector[connector]["of_workers"].append((worker["label"], ranges_text(tasks)))
    ordered = sorted(by_connector.items(), key=lambda item: item[0].casefold())
    return [{"connector": connector, **row} for connector, row in ordered]


def tasks_text(assigned: Mapping[str, Sequence[int]]) -> str:
    """The tasks of a worker by connector.

    >>> tasks_text({"sink": [-1, 0, 1, 2], "source": [3], "idle": [-1]})
    'sink: connector, tasks 0-2; source: task 3; idle: connector'
    """
    texts = []
    for connector, numbers in assigned.items():
        tasks = [number for number in numbers if number != CONNECTOR]
        parts = ["connector"] if CONNECTOR in numbers else []
        if tasks:
            parts.append(f"task{'s' if len(tasks) > 1 else ''} {ranges_text(tasks)}")
        texts.append(f"{connector}: {', '.join(parts)}")
    return "; ".join(texts)
