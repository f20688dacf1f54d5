"""Micro-batches that write every table, and a load of as many that nobody disturbed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from shutil import copyfile, copytree
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa

from coordinator_state.records.internal_topics import OTHER_TOPICS
from coordinator_state.replay.offsets import OffsetKey, Semantics
from streaming.engine.micro_batch import MicroBatchApply
from streaming.tables import folder as tables_folder
from streaming.tables.load_progress import LoadProgress
from streaming.tables.locations import local_path
from streaming.tables.reader import TableReader
from streaming.tables.schemas import PENDING_OFFSETS
from tests.support.logs.log_rows import (
    LOG_PARTITION,
    Row,
    commit,
    marker,
    progress_row,
    record,
    table_of,
)
from tests.support.logs.logs import group_value
from tests.support.logs.topic_logs import (
    NOW_MS,
    TopicLog,
    follow,
    share_key,
    share_snapshot,
    transaction_key,
    transaction_value,
)
from tests.support.tables.tables_folder import created_now, start_apply
from tests.support.tables.undisturbed import Rows, differences, table_rows

RECORDS = 6
"""Of a micro-batch."""


def create(tables: str, **options: Any) -> None:
    """As `create_without_copy`, but local tables are copies of some that the process created."""
    if local_path(tables) is None:
        create_without_copy(tables, **options)
        return
    created = _created(tuple(sorted(options.items())))
    copytree(created.name, tables, copy_function=copyfile, dirs_exist_ok=True)
    for entry in Path(tables).glob(f"*/_delta_log/{0:020}.json"):
        created_now(entry)


def create_without_copy(
    tables: str,
    *,
    semantics: Semantics = Semantics.COORDINATOR,
    log_partitions: int = 50,
    **options: Any,
) -> None:
    """Tables without rows; the options are those of `streaming.tables.folder.create`."""
    nothing = LoadProgress(cluster_id="c", topic_id="t", semantics=semantics)
    tables_folder.create(tables, nothing, log_partitions=log_partitions, **options)


@cache
def _created(options: tuple[tuple[str, Any], ...]) -> TemporaryDirectory[str]:
    folder = TemporaryDirectory(prefix="created-")
    create_without_copy(folder.name, **dict(options))
    return folder


def apply_next(apply: MicroBatchApply[pa.Table], at_ms: int | None = None) -> None:
    """One micro-batch, from where the tables are; `at_ms` is the time of its records."""
    row = apply.progress.rows.get(LOG_PARTITION)
    apply_logs(apply, 0 if row is None else row.next_offset, [at_ms])


def apply_logs(
    apply: MicroBatchApply[pa.Table], start: int, at_ms: Sequence[int | None], variant: int = 0
) -> None:
    """One micro-batch with the records of several, each with its time; ends at the log end.

    Another `variant` has other keys.
    """
    rows = [
        row
        for index, time_ms in enumerate(at_ms)
        for row in _records(start + index * RECORDS, time_ms, variant)
    ]
    end = start + len(at_ms) * RECORDS
    others = [log.rows(start // RECORDS, end // RECORDS) for log in _topic_logs(end, at_ms[-1])]
    follow(apply.progress, OTHER_TOPICS)
    of_topics = pa.concat_tables([table_of([*rows, progress_row(start, end)]), *others])
    apply.apply(of_topics, start // RECORDS, "query")


def _topic_logs(end: int, at_ms: int | None) -> list[TopicLog]:
    """The logs of the other topics, with a record for each micro-batch."""
    transactions, share_groups = map(TopicLog, OTHER_TOPICS)
    timestamp_ms = NOW_MS if at_ms is None else at_ms
    for number in range(end // RECORDS):
        state = "CompleteCommit" if number % 2 else "Ongoing"
        value = transaction_value(state, transactionStartTimestampMs=NOW_MS + number // 2)
        transactions.append((transaction_key(), value), timestamp_ms=timestamp_ms)
        share_groups.append((share_key(number), share_snapshot(number)), timestamp_ms=timestamp_ms)
    return [transactions, share_groups]


def _records(start: int, at_ms: int | None, variant: int) -> list[Row]:
    number = start // RECORDS
    name = number + variant
    rows = [
        commit(start, name),
        commit(start + 1, name, key=OffsetKey("g", "u", name)),
        record(start + 2, group_value([f"member-{name}"])),
        commit(start + 3, name, producer_id=9, key=OffsetKey("g", "in transaction", name)),
        *([marker(start + 4, 9)] if number % 2 else [commit(start + 4, None)]),
        {**commit(start + 5, 0), "row_kind": "undecodable", "reason": "damaged"},
    ]
    return rows if at_ms is None else [{**row, "record_timestamp_ms": at_ms} for row in rows]


def micro_batches(tables: str) -> int:
    """How many the tables have."""
    state = TableReader(tables).load_states.get(LOG_PARTITION)
    return 0 if state is None else state.next_offset // RECORDS


def assert_undisturbed(tables: str) -> None:
    """Every row is that of a load of as many micro-batches that nobody disturbed."""
    rows_of = table_rows(tables)
    assert all(rows for name, rows in rows_of.items() if name != PENDING_OFFSETS.name)
    different = list(differences(rows_of, _undisturbed_rows(micro_batches(tables))))
    assert different == []


def load(tables: str, count: int) -> str:
    """Create tables and apply micro-batches; return the folder."""
    create(tables)
    apply = start_apply(tables)
    for _ in range(count):
        apply_next(apply)
    return tables


def copy_of_load(folder: Path, count: int) -> str:
    """A copy of tables that are loaded once for each process; its files are new."""
    return str(copytree(_loaded(count).name, folder / "tables", copy_function=copyfile))


@cache
def _loaded(count: int) -> TemporaryDirectory[str]:
    folder = TemporaryDirectory(prefix="loaded-")
    load(folder.name, count)
    return folder


@cache
def _undisturbed_rows(count: int) -> Rows:
    return table_rows(_loaded(count).name)
