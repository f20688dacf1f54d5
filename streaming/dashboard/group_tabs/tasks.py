"""The tab "Tasks" of a streams group: its topology, and the tasks of each member."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final

from coordinator_state.insight.member_labels import labels_of
from coordinator_state.insight.partition_text import ranges_text
from streaming.dashboard.group_tabs.members import PAGE_ROWS
from streaming.dashboard.group_tabs.shown_group import Row, ShownGroup
from streaming.dashboard.tables_of_rows import rows_page
from streaming.tables.schemas import COORDINATOR_RECORDS
from streaming.views.list_query import Column, columns
from streaming.views.lists import group_members

TASK_TYPES: Final = ("active", "standby", "warmup")
_TOPOLOGY: Final = "StreamsGroupTopology"
_MEMBER: Final = "StreamsGroupMemberMetadata"
_SHOWN: Final = (
    Column("label", "Member", "own", "label", is_ascending=True),
    *columns("text", process_id="Process", client_host="Host"),
    Column("active", "Active", "own", "active_count"),
    Column("standby", "Standby", "own", "standby_count"),
    Column("warmup", "Warm-up", "own", "warmup_count"),
    *columns("own", target="Target"),
    Column("member_state", "State", "own", "member_state", is_ascending=True),
)
_COLUMNS: Final = ["member_id", "client_id", "member_epoch", "member_state", "tasks"]


def tasks(group: ShownGroup) -> dict[str, Any]:
    """The subtopologies of a streams group, and the page of its members with their tasks."""
    reader = group.snapshot.reader
    columns = [*_COLUMNS, "client_host", "target_tasks"]
    rows = reader.own("group_members", columns, [group.group_id]).to_pylist()
    labels = labels_of(rows)
    records = _records(group)
    processes = {key["memberId"]: value["processId"] for key, value in records.get(_MEMBER, ())}
    for row in rows:
        held, target = row.pop("tasks") or (), row.pop("target_tasks") or ()
        row["label"] = labels[group.group_id, row["member_id"]]
        row["process_id"] = processes.get(row["member_id"])
        for task_type in TASK_TYPES:
            of_type = [task for task in held if task["task_type"] == task_type]
            row[task_type] = tasks_by_subtopology(of_type)
            row[f"{task_type}_count"] = len(of_type)
        is_moving = {tuple(task.values()) for task in held} != {
            tuple(task.values()) for task in target
        }
        row["target"] = tasks_by_type(target) if is_moving else None
    topology = [value for _, value in records.get(_TOPOLOGY, ())]
    return {
        "members": rows_page(
            rows,
            _SHOWN,
            sort="label",
            page_rows=PAGE_ROWS,
            sql=group_members(group.group_id).sql,
        ),
        "topology": topology[0] if topology else None,
    }


def _records(group: ShownGroup) -> Mapping[str, list[tuple[Row, Row]]]:
    """Key and value of the last records of the topology and of the members, by record type."""
    records = group.snapshot.reader.own(
        COORDINATOR_RECORDS.name,
        ["record_type_name", "record_key", "value", "is_tombstone"],
        [group.group_id],
    )
    by_type: dict[str, list[tuple[Row, Row]]] = defaultdict(list)
    for row in records.to_pylist():
        if row["record_type_name"] in (_TOPOLOGY, _MEMBER) and not row["is_tombstone"]:
            pair = json.loads(row["record_key"]), json.loads(row["value"])
            by_type[row["record_type_name"]].append(pair)
    return by_type


def tasks_by_subtopology(tasks: Iterable[Row]) -> str:
    """Tasks of one type.

    >>> tasks_by_subtopology({"subtopology_id": "0", "partition": n} for n in (0, 1, 3))
    '0_0-1, 3'
    """
    partitions: dict[str, list[int]] = defaultdict(list)
    for task in tasks:
        partitions[task["subtopology_id"]].append(task["partition"])
    return "; ".join(
        f"{subtopology}_{ranges_text(partitions[subtopology])}"
        for subtopology in sorted(partitions)
    )


def tasks_by_type(tasks: Iterable[Row]) -> str:
    """Tasks of all types.

    >>> tasks_by_type([{"task_type": "standby", "subtopology_id": "1", "partition": 2}])
    'standby 1_2'
    """
    every = list(tasks)
    text_by_type = {
        task_type: tasks_by_subtopology(task for task in every if task["task_type"] == task_type)
        for task_type in TASK_TYPES
    }
    return (
        ", ".join(f"{task_type} {text}" for task_type, text in text_by_type.items() if text)
        or "none"
    )
