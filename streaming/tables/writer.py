"""Writes to the Delta tables of a folder, by delta-rs: a commit takes a few milliseconds.

Spark's own MERGE of a thousand rows takes most of a second, and its smallest write half a second,
however warm the JVM is. A planned micro-batch is on the driver anyway. docs/speed.md has the
figures.

Every write has a number of its own, which its commit carries as a Delta transaction id
(`writer_epoch.WRITER`). A write that was committed although it reported a failure is recognised by
it and not repeated.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from coordinator_state.apply.merge import columns_of, merged
from streaming.tables import delta
from streaming.tables.creation import properties_of, set_properties
from streaming.tables.merging import merge_rows
from streaming.tables.schemas import GONE, LOST, Table
from streaming.tables.writer_epoch import NUMBER_BITS, WRITER, WriterEpoch, committed

Action = Callable[[DeltaTable, CommitProperties], object]


@dataclass(frozen=True, slots=True)
class Writer:
    """The one writer of a folder, under its epoch.

    Every write returns the table's version after it.

    Raises:
        WriterFenced: from every write, if a newer writer has taken over.
        TablesUnavailable: from every write, if the table cannot be written.
    """

    epoch: WriterEpoch
    _numbers: Iterator[int]

    @classmethod
    def of(cls, epoch: WriterEpoch) -> Writer:
        """The writer of an epoch that this process has taken; at most one for each epoch."""
        return cls(epoch, itertools.count((epoch.number << NUMBER_BITS) + 1))

    @property
    def tables(self) -> str:
        """The tables folder."""
        return self.epoch.tables

    def next_number(self) -> int:
        """The number of a write that `append` may be asked for more than once."""
        return next(self._numbers)

    def merge(
        self,
        table: Table,
        source: pa.Table,
        *,
        guard: str,
        deletes: str | None = None,
        replaced: Collection[int] = (),
    ) -> int:
        """MERGE rows into a table by its key.

        A source row replaces or deletes the table's row of the same key, unless the table's row has
        a greater record offset.

        Args:
            table: the table, which has a `record_offset`.
            source: at most one row for each key, with the table's columns and those that are named
                here; columns of the table that it lacks become null.
            guard: the column that the `record_offset` of the table's row must not be greater than.
            deletes: the Boolean column that says whether a row only deletes, if any; null is false.
            replaced: log partitions of which the table keeps nothing but the rows of `source`.
        """

        def action(opened: DeltaTable, properties: CommitProperties) -> None:
            if delta.has_change_data_feed(opened):
                # Only a deletion must know which keys exist.
                keys = None if deletes is None else self._rows(opened, table, list(table.key))
                merge_rows(
                    opened, table, source, guard, deletes, replaced, keys, properties=properties
                )
                return
            target = self._rows(opened, table)
            if replaced:
                is_theirs = pc.is_in(target["log_partition"], pa.array(replaced, pa.int32()))
                target = target.filter(pc.invert(is_theirs))
            # delta-rs's own MERGE (1.6) writes strings as views, by which pyarrow 26 cannot filter.
            rows = merged(target, source, key=table.key, guard=guard, deletes=deletes)
            write_deltalake(opened, rows, mode="overwrite", commit_properties=properties)

        return self._commit(table, action)

    def append(self, table: Table, rows: pa.Table, *, number: int | None = None) -> int:
        """Append rows.

        A caller that repeats an append after a failure gives each attempt the same `number`, from
        `next_number`.
        """
        written = columns_of(rows, table.schema)
        return self._commit(
            table,
            lambda opened, properties: write_deltalake(
                opened, written, mode="append", commit_properties=properties
            ),
            number,
        )

    def overwrite(self, table: Table, rows: pa.Table) -> int:
        """Replace all rows of a small table."""
        written = columns_of(rows, table.schema)
        return self._commit(
            table,
            lambda opened, properties: write_deltalake(
                opened, written, mode="overwrite", commit_properties=properties
            ),
        )

    def restore(self, table: Table, version: int) -> int:
        """Give a table the rows that it had at a version; its properties stay as they are now."""
        kept: dict[str, str] = {}

        def action(opened: DeltaTable, properties: CommitProperties) -> None:
            kept.update(opened.metadata().configuration)
            opened.restore(version, commit_properties=properties)

        version = self._commit(table, action)
        found = properties_of(self.tables, table)
        lost = {name: value for name, value in kept.items() if found.get(name) != value}
        return set_properties(self.epoch, table, lost) if lost else version

    def delete_from(self, table: Table, from_offsets: Mapping[int, int]) -> int:
        """Delete the rows at or past a record offset of each log partition.

        Rows about lost records stay.

        An append is a file of its own, which is deleted as a whole. The rest of a file that was
        compacted since is rewritten, with strings as views.
        """
        predicate = _from_offsets(table, from_offsets)
        return self._commit(
            table,
            lambda opened, properties: opened.delete(predicate, commit_properties=properties),
        )

    def mark_lost(self, table: Table, from_offsets: Mapping[int, int]) -> int:
        """Give the rows at or past a record offset of each log partition the outcome `lost`.

        Strings of the files that are rewritten for it are views.
        """
        predicate = _from_offsets(table, from_offsets)
        return self._commit(
            table,
            lambda opened, properties: opened.update(
                {"outcome": f"'{LOST}'"}, predicate=predicate, commit_properties=properties
            ),
        )

    def _commit(self, table: Table, action: Action, number: int | None = None) -> int:
        """Commit a write once; a conflict is retried."""
        number = self.next_number() if number is None else number

        def write_once(opened: DeltaTable) -> None:
            if self.epoch.last_write(opened) < number:
                transaction = Transaction(WRITER, number)
                action(opened, CommitProperties(app_transactions=[transaction]))

        return committed(self.tables, table, write_once)

    def _rows(self, opened: DeltaTable, table: Table, columns: list[str] | None = None) -> pa.Table:
        return delta.rows_of(opened, self.tables, table, columns)


def _from_offsets(table: Table, from_offsets: Mapping[int, int]) -> str:
    """The rows that were appended when the log was read at or past these record offsets."""
    names = table.schema.names
    column = "outcome_record_offset" if "outcome_record_offset" in names else "record_offset"
    rows = " OR ".join(
        f"(log_partition = {log_partition} AND {column} >= {from_offset})"
        for log_partition, from_offset in sorted(from_offsets.items())
    )
    return f"({rows}) AND {_in_log(table)}"


def _in_log(table: Table) -> str:
    """The rows that are not about lost records."""
    if "reason" in table.schema.names:
        return f"reason NOT LIKE '{GONE}%'"
    return f"(outcome IS NULL OR outcome <> '{LOST}')"
