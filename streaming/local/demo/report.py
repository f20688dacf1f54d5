"""The report of a demo: what the coordinators answer, and whether the tables agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow.compute as pc

from coordinator_state.replay.partitioner import partition_for
from streaming.local.demo.groups import DEMO_GROUPS, HANGING, NEIGHBOUR, ORDERS_PARTITIONS
from streaming.tables.reader import TableReader
from streaming.tables.schemas import GROUP_OFFSETS, LOAD_PROGRESS, PENDING_OFFSETS
from streaming.verify.answer import AnswerKey, Answers
from streaming.verify.broker_answers import BrokerAnswers
from streaming.verify.table_answers import TableAnswers
from streaming.verify.verification import Verification, compare
from streaming.views.text import Row

_OUTCOMES = ("applied", "superseded", "ignored", "quarantined", "pending")


class Section(NamedTuple):
    """A table of the report: its key in JSON, and its title, columns and rows in text."""

    name: str
    title: str
    columns: Sequence[str]
    rows: Sequence[Row]


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoReport:
    """The answers of coordinators and tables, read after the traffic stopped.

    Attributes:
        sections: the tables.
        facts: further values, for JSON.
        lines: the lines about these values, for text.
        verification: the comparison of all answers.
        is_accounted_for: whether every record that was read has an outcome.
    """

    sections: Sequence[Section]
    facts: Row
    lines: Sequence[str]
    verification: Verification
    is_accounted_for: bool = True

    @property
    def is_equal(self) -> bool:
        """Whether tables and coordinators agree on everything."""
        return self.verification.is_equal and self.is_accounted_for


def group_row(group_id: str, coordinator: Answers, verification: Verification) -> Row:
    """A group by its coordinator, and whether the tables agree on it."""
    group = coordinator.get(AnswerKey("group", group_id), {})
    counts = Counter(key.kind for key in coordinator if key.group_id == group_id)
    return {
        "group": group_id,
        "type": group.get("group_type"),
        "state": group.get("state"),
        "members": counts["member"] if group else None,
        "offsets": counts["offset"],
        "pending": counts["pending"],
        "equal": all(key.group_id != group_id for key in verification.differing),
    }


def read_report(
    broker: BrokerAnswers, reader: TableReader, verification: Verification
) -> DemoReport:
    """Ask both sides once more; the results in `verification` are replaced."""
    replayed = TableAnswers(reader)
    tables = replayed.answers()
    answers = broker.answers(pending=replayed.pending())
    verification.forget({key.group_id for key in answers.keys() | tables.keys()}.__contains__)
    verification.add(compare(answers, tables, answers))
    groups = [
        {
            **group_row(group.group_id, answers, verification),
            "traffic": group.traffic,
            "tables": _committed(group.group_id, tables),
            "broker": _committed(group.group_id, answers),
        }
        for group in DEMO_GROUPS
    ]
    partitions = " and ".join(f"{at.topic}:{at.partition}" for at in ORDERS_PARTITIONS)
    neighbour, records = _neighbour(reader), _records(reader)
    return DemoReport(
        sections=[
            Section(
                "groups",
                f"Committed offsets of {partitions}, in the tables and at the broker:",
                ("group", "traffic", "type", "state", "members", "tables", "broker", "equal"),
                groups,
            ),
            Section(
                "pending",
                "Pending in an ongoing transaction (the broker was asked for stable offsets):",
                ("group", "partition", "committed", "pending", "producer_id", "broker"),
                _pending(reader, tables, answers),
            ),
        ],
        facts={
            "neighbour": neighbour,
            "records": records | {"is_accounted_for": is_accounted_for(records)},
        },
        lines=[
            f"log partition {neighbour['log_partition']}: {HANGING.group_id} is pending since "
            f"record offset {neighbour['pending_record_offset']}, {NEIGHBOUR.group_id} continues "
            f"up to record offset {neighbour['record_offset']}",
            records_line(records),
        ],
        verification=verification,
        is_accounted_for=is_accounted_for(records),
    )


def is_accounted_for(records: Mapping[str, int]) -> bool:
    """Whether every record that was read has an outcome."""
    return records["read"] == sum(records[outcome] for outcome in _OUTCOMES)


def records_line(records: Mapping[str, int]) -> str:
    """The number of records that were read, and of those with each outcome."""
    outcomes = " + ".join(f"{records[outcome]:,} {outcome}" for outcome in _OUTCOMES)
    equals = "=" if is_accounted_for(records) else "≠"
    return f"load_progress: {records['read']:,} records read {equals} {outcomes}"


def _committed(group_id: str, answers: Answers) -> list[int | None]:
    offsets = (answers.get(AnswerKey("offset", group_id, *at), {}) for at in ORDERS_PARTITIONS)
    return [offset.get("committed_offset") for offset in offsets]


def _pending(reader: TableReader, tables: Answers, broker: Answers) -> list[Row]:
    order = [(column, "ascending") for column in ("group_id", "topic", "partition")]
    rows: list[Row] = []
    for row in reader.read(PENDING_OFFSETS.name).sort_by(order).to_pylist():
        at = (row["group_id"], row["topic"], row["partition"])
        rows.append(
            {
                "group": row["group_id"],
                "partition": f"{row['topic']}:{row['partition']}",
                "committed": tables.get(AnswerKey("offset", *at), {}).get("committed_offset"),
                "pending": row["committed_offset"],
                "producer_id": row["producer_id"],
                "broker": broker.get(AnswerKey("pending", *at), {}).get("error"),
            }
        )
    return rows


def _neighbour(reader: TableReader) -> dict[str, int | None]:
    """The neighbour's last commit beside the first one of the ongoing transaction."""
    committed = reader.read(
        GROUP_OFFSETS.name, ["record_offset"], [("group_id", "=", NEIGHBOUR.group_id)]
    )
    pending = reader.read(
        PENDING_OFFSETS.name, ["record_offset"], [("group_id", "=", HANGING.group_id)]
    )
    return {
        "log_partition": partition_for(HANGING.group_id, reader.log_partitions),
        "record_offset": pc.max(committed["record_offset"]).as_py(),
        "pending_record_offset": pc.min(pending["record_offset"]).as_py(),
    }


def _records(reader: TableReader) -> dict[str, int]:
    progress = reader.read(LOAD_PROGRESS.name)
    return {
        name: pc.sum(progress[f"records_{name}"], min_count=0).as_py()
        for name in ("read", *_OUTCOMES)
    }
