"""`python -m bench.hour FOLDER`: a tables folder as an hour of a large cluster leaves it.

`Hour.write` writes what `run` writes, with its writer: in each micro-batch, one a second, all of
`group_offsets`, a file of each table of history, and `load_progress`; offset samples every five
seconds; and its compaction and maintenance. It takes some minutes.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from functools import cached_property
from typing import Any, Final
from unittest import mock

import click
import numpy as np
import pyarrow as pa

from coordinator_state.insight.group_events import EventName
from coordinator_state.insight.lag import PRESENT
from coordinator_state.records.internal_topics import OFFSETS_TOPIC
from coordinator_state.replay.offsets import Outcome, Semantics
from coordinator_state.replay.partitioner import partition_for
from streaming.lag.evaluation import Evaluation
from streaming.run.evaluation import StatusEvaluation
from streaming.run.jobs import TIDY_UP_EVERY
from streaming.tables import folder as tables_folder
from streaming.tables import reader
from streaming.tables.clock import SteadyClock
from streaming.tables.load_progress import LoadProgress
from streaming.tables.maintenance import maintain_tables, tidy_up
from streaming.tables.opening import open_for_writing
from streaming.tables.schemas import (
    GROUP_EVENTS,
    GROUP_MEMBERS,
    GROUP_OFFSETS,
    GROUPS,
    LOG_OFFSETS,
    OFFSET_COMMITS,
    STATE_CURRENT,
    Table,
)
from streaming.tables.topic_progress import Progress
from streaming.tables.writer import Writer
from streaming.tables.writer_epoch import WriterEpoch

LOG_PARTITIONS: Final = 50
PARTITIONS_PER_TOPIC: Final = 50
MICRO_BATCH: Final = timedelta(seconds=1)
SAMPLE_EVERY: Final = 5
"""Rounds of samples, maintenance and rebalances: one in so many micro-batches."""
_CONFIRM_EVERY: Final = 60
_TIDY_UP_EVERY: Final = round(TIDY_UP_EVERY / MICRO_BATCH)
_MAINTAIN_EVERY: Final = 600
_REBALANCE_EVERY: Final = 10
_COMMIT_EVERY: Final = 10
_RECORDS_PER_S: Final = 100
_IDLE_END: Final = 1_000_000
_STOPPED_FOR: Final = 1_200
HISTORY_RETENTION: Final = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Shape:
    """The size of a cluster.

    Of the topic partitions one in ten is written to. Their groups commit every ten seconds; one in
    fifty of these groups stops in the last twenty minutes. All other groups are caught up.
    """

    groups: int = 10_000
    partitions_per_group: int = 4
    topic_partitions: int = 10_000
    micro_batches: int = 3_600

    @property
    def busy_logs(self) -> int:
        """The topic partitions that are written to; they have the smallest numbers."""
        return self.topic_partitions // 10


@dataclass(slots=True)
class Hour:
    """Writes the folder; `ends_at` is the time of the last micro-batch."""

    tables: str
    shape: Shape
    ends_at: datetime
    _writer: Writer = field(init=False)
    _progress: LoadProgress = field(init=False)

    def write(self) -> None:
        """Write the whole hour."""
        progress = LoadProgress(
            cluster_id="bench", topic_id="bench", semantics=Semantics.COORDINATOR
        )
        tables_folder.create(
            self.tables, progress, log_partitions=LOG_PARTITIONS, change_data_feed=False
        )
        epoch = WriterEpoch.current(self.tables)
        self._writer, self._progress = Writer.of(epoch), progress
        for log_partition in range(LOG_PARTITIONS):
            progress.rows[log_partition] = Progress(state=STATE_CURRENT, has_caught_up=True)
        keys = _Keys.of(self.shape)
        state = keys.first(self._at(0))
        for number in range(self.shape.micro_batches):
            self._micro_batch(number, keys, state)
            if number % SAMPLE_EVERY == 0:
                self._append(LOG_OFFSETS, self._samples(number))
            if number % _TIDY_UP_EVERY == _TIDY_UP_EVERY // 2:
                tidy_up(epoch)
            if number == 0 or number % _MAINTAIN_EVERY == _MAINTAIN_EVERY // 2:
                list(maintain_tables(epoch, HISTORY_RETENTION, now=self._at(number)))

    def _micro_batch(self, number: int, keys: _Keys, state: dict[str, Any]) -> None:
        at = self._at(number)
        rows = keys.committing(number, self.shape)
        behind = np.random.default_rng(number).integers(0, 3 * _RECORDS_PER_S, rows.size)
        state["committed_offset"][rows] = self._busy_end(number) - behind
        state["commit_timestamp_ms"][rows] = round(at.timestamp() * 1000)
        for row in rows:
            progress = self._progress.rows[int(keys.log_partitions[row])]
            state["record_offset"][row] = progress.next_offset
            progress.next_offset += 1
            progress.records_read += 1
            progress.records_applied += 1
        self._overwrite(GROUP_OFFSETS, keys.offsets(state))
        self._append(OFFSET_COMMITS, keys.commits(rows, state, at))
        self._append(GROUP_EVENTS, self._events(number, keys, at))
        if number % _REBALANCE_EVERY == 0:
            self._overwrite(GROUPS, keys.groups())
            self._overwrite(GROUP_MEMBERS, keys.members())
        self._progress.batch_id = number
        for row in self._progress.rows.values():
            row.high_watermark, row.current_at = row.next_offset, at
        self._progress.write(self._writer, now=at)

    def _events(self, number: int, keys: _Keys, at: datetime) -> dict[str, Any]:
        group = number % self.shape.groups
        return {
            "log_partition": [keys.of_groups[group]],
            "record_offset": number,
            "event_number": 0,
            "record_timestamp": at,
            "event": EventName.REBALANCE.value,
            "group_id": f"group-{group}",
            "group_type": "classic",
            "epoch_before": number,
            "epoch_after": number + 1,
            "day": at.date(),
        }

    def _samples(self, number: int) -> dict[str, Any]:
        """A round of samples; the end of an idle log is confirmed every minute."""
        at = self._at(number)
        busy = self.shape.busy_logs
        logs = self.shape.topic_partitions if number % _CONFIRM_EVERY == 0 else busy
        numbers = np.arange(logs)
        ends = np.where(numbers < busy, self._busy_end(number), _IDLE_END)
        own = self._progress.rows
        topics = [f"topic-{log // PARTITIONS_PER_TOPIC}" for log in numbers]
        log_ends = np.append(ends, [row.next_offset for row in own.values()])
        return {
            "topic": topics + [OFFSETS_TOPIC] * len(own),
            "partition": [*(numbers % PARTITIONS_PER_TOPIC), *own],
            "sampled_at": at,
            "state": PRESENT,
            "topic_id": "id",
            "log_start_offset": 0,
            "log_end_offset": log_ends,
            "last_stable_offset": log_ends,
            "day": at.date(),
        }

    @staticmethod
    def _busy_end(number: int) -> int:
        return _IDLE_END + number * _RECORDS_PER_S

    def _at(self, number: int) -> datetime:
        return self.ends_at - (self.shape.micro_batches - 1 - number) * MICRO_BATCH

    def _overwrite(self, table: Table, columns: Mapping[str, Any]) -> None:
        version = self._writer.overwrite(table, rows_of(table, columns))
        self._progress.table_versions[table.name] = version

    def _append(self, table: Table, columns: Mapping[str, Any]) -> None:
        version = self._writer.append(table, rows_of(table, columns))
        if table is not LOG_OFFSETS:
            self._progress.table_versions[table.name] = version


@dataclass(frozen=True)
class _Keys:
    """The committed offsets of all groups, as columns; a row for each."""

    group: Any
    log: Any
    log_partitions: Any
    of_groups: list[int]

    @classmethod
    def of(cls, shape: Shape) -> _Keys:
        size = shape.partitions_per_group
        group = np.repeat(np.arange(shape.groups), size)
        log_partitions = [
            partition_for(f"group-{number}", LOG_PARTITIONS) for number in range(shape.groups)
        ]
        return cls(
            group,
            np.arange(group.size) % shape.topic_partitions,
            np.array(log_partitions)[group],
            log_partitions,
        )

    def first(self, at: datetime) -> dict[str, Any]:
        """The state before the hour: each group has committed hours ago."""
        ago_s = 3_600 + np.random.default_rng(0).integers(0, 36_000, self.group.size)
        return {
            "committed_offset": np.full(self.group.size, _IDLE_END),
            "commit_timestamp_ms": round(at.timestamp() * 1000) - 1000 * ago_s,
            "record_offset": np.zeros(self.group.size, np.int64),
        }

    def committing(self, number: int, shape: Shape) -> Any:
        """The rows that a micro-batch commits."""
        is_due = (self.log < shape.busy_logs) & (
            self.group % _COMMIT_EVERY == number % _COMMIT_EVERY
        )
        if number == 0:
            is_due = self.log < shape.busy_logs
        if number > shape.micro_batches - _STOPPED_FOR:
            is_due &= self.group % 50 != 7
        return np.flatnonzero(is_due)

    @cached_property
    def _names(self) -> dict[str, Any]:
        topics = pa.array([f"topic-{log // PARTITIONS_PER_TOPIC}" for log in self.log])
        return {
            "group_id": pa.array([f"group-{group}" for group in self.group]),
            "topic": topics,
            "partition": pa.array(self.log % PARTITIONS_PER_TOPIC, pa.int32()),
            "log_partition": pa.array(self.log_partitions, pa.int32()),
        }

    def offsets(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """All rows of `group_offsets`."""
        times = pa.array(state["commit_timestamp_ms"], pa.timestamp("ms", "UTC"))
        offsets = {name: state[name] for name in ("committed_offset", "record_offset")}
        return {**self._names, **offsets, "commit_timestamp": times, "metadata": ""}

    def commits(self, rows: Any, state: Mapping[str, Any], at: datetime) -> dict[str, Any]:
        """The rows of `offset_commits` that a micro-batch adds."""
        offsets = state["record_offset"][rows]
        return {
            **{name: column.take(pa.array(rows)) for name, column in self._names.items()},
            "record_offset": offsets,
            "record_timestamp": at,
            "is_tombstone": False,
            "committed_offset": state["committed_offset"][rows],
            "commit_timestamp": at,
            "outcome": Outcome.COMMITTED.value,
            "outcome_record_offset": offsets,
            "outcome_timestamp": at,
            "day": at.date(),
        }

    def groups(self) -> dict[str, Any]:
        """All rows of `groups`."""
        names = [f"group-{number}" for number in range(len(self.of_groups))]
        return {"log_partition": self.of_groups, "group_id": names, **_GROUP}

    def members(self) -> dict[str, Any]:
        """All rows of `group_members`: one member for each group."""
        size = self.group.size // len(self.of_groups)
        topics = self._names["topic"].to_pylist()
        places = [
            {"topic": topics[row], "partition": int(self.log[row]) % PARTITIONS_PER_TOPIC}
            for row in range(self.group.size)
        ]
        names = self.groups()["group_id"]
        return {
            "log_partition": self.of_groups,
            "group_id": names,
            "member_id": [f"{name}-member" for name in names],
            "assignment": [places[at : at + size] for at in range(0, len(places), size)],
            **_MEMBER,
        }


_GROUP = {
    **{"group_type": "classic", "state": "Stable", "protocol_type": "consumer"},
    **{"member_count": 1, "record_offset": 0},
}
_MEMBER = {"client_id": "client", "client_host": "/10.0.0.1", "record_offset": 0}


def rows_of(table: Table, columns: Mapping[str, Any]) -> pa.Table:
    """Rows of a table; one value stands for that of every row, a column left out is null."""
    size = max(len(column) for column in columns.values() if _is_column(column))
    arrays = []
    for of_column in table.schema:
        values = columns.get(of_column.name)
        if not _is_column(values):
            values = pa.repeat(pa.scalar(values, of_column.type), size)
        elif not isinstance(values, pa.Array):
            values = pa.array(values, of_column.type)
        arrays.append(values.cast(of_column.type))
    return pa.table(arrays, schema=table.schema)


def _is_column(values: object) -> bool:
    return isinstance(values, (list, tuple, range, np.ndarray, pa.Array))


@contextmanager
def clock_at(moment: datetime) -> Iterator[None]:
    """Let the program take a moment for the current time: the folder was written before it."""
    with mock.patch.object(SteadyClock, "now", lambda _: moment):
        yield


def write_hour(tables: str, shape: Shape, *, is_evaluated: bool = True) -> datetime:
    """Write the tables, and return the time of their last micro-batch, which is in the future.

    Moments of snapshots never go back, so the hour begins now. The last micro-batch is evaluated.
    """
    ends_at = datetime.now(timezone.utc) + shape.micro_batches * MICRO_BATCH
    Hour(tables, shape, ends_at).write()
    if is_evaluated:
        with clock_at(ends_at):
            evaluation = Evaluation.of(reader.TableReader(tables))
            StatusEvaluation(open_for_writing(tables, "bench")).keep(evaluation)
    return ends_at


folder_option = click.option(
    "--folder", help="A folder that `python -m bench.hour FOLDER` wrote; by default a new one."
)


@contextmanager
def read_hour(
    folder: str | None, shape: Shape | None = None, *, is_evaluated: bool = True
) -> Iterator[str]:
    """The tables of an hour, or of a shape, to be read as if they were written just now."""
    with tempfile.TemporaryDirectory(prefix="coordinator-state-bench-") as temporary:
        tables = f"{folder or temporary}/tables"
        if folder is None:
            write_hour(tables, shape or Shape(), is_evaluated=is_evaluated)
        written_at = reader.TableReader(tables).written_at
        with clock_at(written_at + MICRO_BATCH):
            yield tables


@click.command()
@click.argument("folder")
def bench(folder: str) -> None:
    """Write the tables to FOLDER/tables."""
    write_hour(f"{folder}/tables", Shape())


if __name__ == "__main__":
    bench(prog_name="python -m bench.hour")
