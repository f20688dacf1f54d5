"""The report of the demo: the answers of tables and broker side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow.compute as pc

from coordinator_state.replay.partitioner import partition_for
from streaming.local.demo.groups import (
    DEMO_GROUPS,
    HANGING,
    NEIGHBOUR,
    ORDERS_PARTITIONS,
    DemoGroup,
)
from streaming.tables.reader import TableReader
from streaming.tables.schemas import GROUP_OFFSETS, LOAD_PROGRESS, PENDING_OFFSETS
from streaming.verify.answer import AnswerKey, Answers, Fields
from streaming.verify.broker_answers import BrokerAnswers
from streaming.verify.table_answers import TableAnswers
from streaming.verify.verification import Verification, compare
from streaming.views.output import Output
from streaming.views.text import Row

_GROUP_COLUMNS = ("group", "traffic", "type", "state", "members", "tables", "broker", "equal")
_PENDING_COLUMNS = ("group", "partition", "committed", "pending", "producer_id", "broker")
_OUTCOMES = ("applied", "superseded", "ignored", "quarantined", "pending")


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoReport:
    """The answers of tables and broker about the demo's groups, read after the traffic stopped.

    `groups` has a row per group of the demo, `pending` one per pending offset. `neighbour` shows
    that the log partition of the ongoing transaction is not blocked. `records` counts the records
    that were read, and their outcomes.
    """

    groups: list[dict[str, Any]]
    pending: list[dict[str, Any]]
    neighbour: dict[str, Any]
    records: dict[str, int]
    verification: Verification

    @property
    def is_accounted_for(self) -> bool:
        """Whether every record that was read has an outcome."""
        return self.records["read"] == sum(self.records[outcome] for outcome in _OUTCOMES)

    @property
    def is_equal(self) -> bool:
        """Whether tables and broker agree on everything."""
        rows = (*self.groups, *self.pending)
        return (
            self.verification.is_equal
            and self.is_accounted_for
            and all(row["is_equal"] for row in rows)
        )


def read_report(
    asked: BrokerAnswers, reader: TableReader, verification: Verification
) -> DemoReport:
    """Ask both sides once; `verification` is the result of an earlier `verify`."""
    answers = TableAnswers(reader)
    replayed = answers.answers()
    broker = asked.answers(pending=answers.pending())
    differing = compare(broker, replayed, broker).differing
    return DemoReport(
        groups=[_group(group, replayed, broker, differing) for group in DEMO_GROUPS],
        pending=_pending(reader, replayed, broker),
        neighbour=_neighbour(reader),
        records=_records(reader),
        verification=verification,
    )


def show_report(report: DemoReport, output: Output, *, is_json: bool) -> None:
    """Print the report as one JSON object, or as two tables and three lines."""
    if is_json:
        output.result(_json_fields(report), "")
        return
    partitions = " and ".join(f"{at.topic}:{at.partition}" for at in ORDERS_PARTITIONS)
    output.result({}, f"Committed offsets of {partitions}, in the tables and at the broker:\n")
    output.rows([_group_cells(row) for row in report.groups], _GROUP_COLUMNS)
    output.result(
        {}, "\nPending in an ongoing transaction (the broker was asked for stable offsets):\n"
    )
    output.rows([_pending_cells(row) for row in report.pending], _PENDING_COLUMNS)
    of = report.records
    outcomes = " + ".join(f"{of[outcome]:,} {outcome}" for outcome in _OUTCOMES)
    at = report.neighbour
    lines = (
        f"\nlog partition {at['log_partition']}: {HANGING.group_id} is pending since record offset "
        f"{at['pending_record_offset']}, {NEIGHBOUR.group_id} continues up to record offset "
        f"{at['record_offset']}",
        f"load_progress: {of['read']:,} records read {'=' if report.is_accounted_for else '≠'} "
        f"{outcomes}",
        f"verify: {report.verification.summary}",
    )
    output.result({}, "\n".join(lines))


def _group(
    group: DemoGroup, tables: Answers, broker: Answers, differing: Mapping[AnswerKey, Any]
) -> dict[str, Any]:
    key = AnswerKey("group", group.group_id)
    offsets = [AnswerKey("offset", group.group_id, *at) for at in ORDERS_PARTITIONS]
    return {
        "group_id": group.group_id,
        "traffic": group.traffic,
        "log_partition": partition_for(group.group_id),
        "tables": _group_fields(key, tables),
        "broker": _group_fields(key, broker),
        "offsets": [
            {
                "topic": at.topic,
                "partition": at.partition,
                "tables": tables.get(at),
                "broker": broker.get(at),
            }
            for at in offsets
        ],
        "is_equal": not any(different.group_id == group.group_id for different in differing),
    }


def _group_fields(key: AnswerKey, answers: Answers) -> Fields | None:
    if key not in answers:
        return None
    members = sum(of.kind == "member" and of.group_id == key.group_id for of in answers)
    return {**answers[key], "members": members}


def _pending(reader: TableReader, tables: Answers, broker: Answers) -> list[dict[str, Any]]:
    rows = reader.read(PENDING_OFFSETS.name).to_pylist()
    pending = []
    for row in sorted(rows, key=lambda row: (row["group_id"], row["topic"], row["partition"])):
        at = (row["group_id"], row["topic"], row["partition"])
        committed = tables.get(AnswerKey("offset", *at))
        answer = broker.get(AnswerKey("pending", *at))
        pending.append(
            {
                **{name: row[name] for name in ("group_id", "topic", "partition", "producer_id")},
                "committed_offset": None if committed is None else committed["committed_offset"],
                "pending_offset": row["committed_offset"],
                "record_offset": row["record_offset"],
                "broker": None if answer is None else answer["error"],
                "is_equal": answer is not None,
            }
        )
    return pending


def _neighbour(reader: TableReader) -> dict[str, Any]:
    """The record offsets of the neighbour's last commit and of the transaction's first commit."""
    return {
        "log_partition": partition_for(HANGING.group_id, reader.log_partitions),
        "group_id": NEIGHBOUR.group_id,
        "record_offset": _record_offsets(reader, GROUP_OFFSETS.name, NEIGHBOUR)["max"],
        "pending_group_id": HANGING.group_id,
        "pending_record_offset": _record_offsets(reader, PENDING_OFFSETS.name, HANGING)["min"],
    }


def _record_offsets(reader: TableReader, table: str, group: DemoGroup) -> dict[str, int | None]:
    rows = reader.read(table, ["record_offset"], [("group_id", "=", group.group_id)])
    bounds: dict[str, int | None] = pc.min_max(rows["record_offset"]).as_py()
    return bounds


def _records(reader: TableReader) -> dict[str, int]:
    progress = reader.read(LOAD_PROGRESS.name)
    return {
        name: pc.sum(progress[f"records_{name}"], min_count=0).as_py()
        for name in ("read", *_OUTCOMES)
    }


def _json_fields(report: DemoReport) -> Row:
    verification = report.verification
    return {
        "is_equal": report.is_equal,
        "groups": report.groups,
        "pending": report.pending,
        "neighbour": report.neighbour,
        "records": {**report.records, "is_accounted_for": report.is_accounted_for},
        "verify": {
            "is_equal": verification.is_equal,
            "summary": verification.summary,
            "equal": dict(verification.counts),
            "differing": [str(key) for key in sorted(verification.differing)],
            "moving": [str(key) for key in sorted(verification.moving)],
            "behind": verification.behind,
            "notes": verification.notes,
        },
    }


def _group_cells(row: Row) -> Row:
    tables, broker = row["tables"] or {}, row["broker"] or {}
    return {
        "group": row["group_id"],
        "traffic": row["traffic"],
        "type": _both(tables.get("group_type"), broker.get("group_type")),
        "state": _both(tables.get("state"), broker.get("state")),
        "members": _both(tables.get("members"), broker.get("members")),
        "tables": _committed(row["offsets"], "tables"),
        "broker": _committed(row["offsets"], "broker"),
        "equal": row["is_equal"],
    }


def _both(tables: Any, broker: Any) -> Any:
    """One cell for both answers; it shows both only if they differ."""
    return tables if tables == broker else f"{tables} ≠ {broker}"


def _committed(offsets: list[Row], side: str) -> str:
    return ", ".join(str(at[side]["committed_offset"]) if at[side] else "-" for at in offsets)


def _pending_cells(row: Row) -> Row:
    return {
        "group": row["group_id"],
        "partition": f"{row['topic']}:{row['partition']}",
        "committed": row["committed_offset"],
        "pending": row["pending_offset"],
        "producer_id": row["producer_id"],
        "broker": row["broker"],
    }
