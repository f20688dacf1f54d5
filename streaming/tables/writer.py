"""Writes to the Delta tables of a folder with delta-rs: a commit takes a few milliseconds.

Spark's MERGE of a thousand rows takes most of a second, and its smallest write half a second, even
with a warm JVM. The rows of a micro-batch are on the driver anyway. docs/speed.md has the figures.

Every write has its own number, and its commit carries the number as a Delta transaction id
(`writer_epoch.WRITER`). A write may be committed although it reported a failure. The number tells
this, and the write is not repeated.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from coordinator_state.apply.columns import columns_of
from coordinator_state.records.internal_topics import OFFSETS_TOPIC
from streaming.tables import deletion_vectors, delta
from streaming.tables.creation import set_properties
from streaming.tables.merging import Merge, merge_rows
from streaming.tables.replacing import replacement
from streaming.tables.schemas import LOST, LOST_REASON_PREFIX, Table
from streaming.tables.writer_epoch import NUMBER_BITS, WRITER, WriterEpoch, committed

Action = Callable[[DeltaTable, CommitProperties], object]

_SCHEMA_MODE: Final = "merge"
"""A column that this release does not know is null in the rows that it writes.

delta-rs would also add a column that the table lacks; a migration has added all of them."""


@dataclass(frozen=True, slots=True)
class Writer:
    """The one writer of a folder, under its epoch.

    Every write returns the new version of the table. `on_table` is called with the name of each
    table when a micro-batch is done with it, from the thread that wrote it; tests crash there.

    Raises:
        WriterFenced: from every write, if a newer writer has taken over.
        TablesUnavailable: from every write, if the table cannot be written.
    """

    epoch: WriterEpoch
    _numbers: Iterator[int]
    on_table: Callable[[str], None] = lambda _table: None

    @classmethod
    def of(cls, epoch: WriterEpoch) -> Writer:
        """The writer of an epoch that this process has taken; at most one for each epoch."""
        return cls(epoch, itertools.count((epoch.number << NUMBER_BITS) + 1))

    @property
    def tables(self) -> str:
        """The tables folder."""
        return self.epoch.tables

    def rows(self, table: Table, version: int, where: pc.Expression | None = None) -> pa.Table:
        """The rows that a table has at a version.

        Raises:
            ConfigurationError: the table cannot be read.
        """
        return delta.read(self.tables, table, version=version, where=where)

    def next_number(self) -> int:
        """A write number, for an append that the caller may repeat."""
        return next(self._numbers)

    def merge(
        self,
        table: Table,
        source: pa.Table,
        *,
        guard: str | None,
        deletes: str | None = None,
        replaced: Collection[int] = (),
    ) -> int:
        """MERGE rows into a table by its key.

        A source row replaces or deletes the table's row of the same key, unless the table's row has
        a greater record offset than the guard offset of the source row.

        Args:
            table: the table, which has a column `record_offset` if there is a guard.
            source: at most one row for each key, with the columns of a micro-batch or of the
                table, and those named by `guard` and `deletes`; see `columns_of`.
            guard: the column with the guard offset; without it every source row is taken.
            deletes: the Boolean column that says whether a row only deletes; null means False.
            replaced: log partitions whose rows in the table are all replaced by those of `source`.
        """
        merge = Merge(table, source, guard, deletes, replaced)

        def action(opened: DeltaTable, properties: CommitProperties) -> None:
            if delta.has_change_data_feed(opened):
                key = list(table.key)
                # Only deletions need the existing keys.
                keys = None if deletes is None else delta.rows_of(opened, self.tables, table, key)
                merge_rows(opened, merge, keys, properties)
                return
            new = replacement(opened, self.tables, merge)
            write_deltalake(
                opened,
                new.rows,
                mode="overwrite",
                predicate=new.predicate,
                target_file_size=new.file_bytes,
                commit_properties=properties,
                schema_mode=_SCHEMA_MODE,
            )

        return self._commit(table, action)

    def append(self, table: Table, rows: pa.Table, *, number: int | None = None) -> int:
        """Append rows.

        To repeat an append after a failure, pass the same `number` each time, from `next_number`.
        """
        written = columns_of(rows, table.schema)
        return self._commit(
            table,
            lambda opened, properties: write_deltalake(
                opened,
                written,
                mode="append",
                commit_properties=properties,
                schema_mode=_SCHEMA_MODE,
            ),
            number,
        )

    def overwrite(
        self,
        table: Table,
        rows: pa.Table,
        *,
        info: Mapping[str, str] | None = None,
        replaces_schema: bool = False,
    ) -> int:
        """Replace all rows of a small table, and its schema if wanted.

        `info` is added to the commit info.
        """
        written = columns_of(rows, table.schema)
        return self._commit(
            table,
            lambda opened, properties: write_deltalake(
                opened,
                written,
                mode="overwrite",
                commit_properties=properties,
                schema_mode="overwrite" if replaces_schema else _SCHEMA_MODE,
            ),
            info=info,
        )

    def restore(self, table: Table, version: int) -> int:
        """Restore the rows that a table had at a version; its current properties stay.

        The property for deletion vectors is that of the version. `run --deletion-vectors` sets it
        again at its start; delta-rs would add a feature to the protocol that no reader needs.
        """
        kept: dict[str, str] = {}

        def action(opened: DeltaTable, properties: CommitProperties) -> None:
            kept.update(opened.metadata().configuration)
            opened.restore(version, commit_properties=properties)

        self._commit(table, action)
        kept.pop(deletion_vectors.PROPERTY, None)
        return set_properties(self.epoch, table, kept)

    def delete_from(
        self, table: Table, from_offsets: Mapping[int, int], log_topic: str = OFFSETS_TOPIC
    ) -> int:
        """Delete the rows at or after a record offset of each log partition of a topic.

        Rows about lost records stay.

        Each append has its own file, which is deleted as a whole. A file that was compacted since
        is rewritten without the rows, with strings as views.
        """
        predicate = _from_offsets(table, from_offsets)
        if "log_topic" in table.schema.names:
            predicate += f" AND log_topic = '{log_topic}'"
        return self._commit(
            table,
            lambda opened, properties: opened.delete(predicate, commit_properties=properties),
        )

    def mark_lost(self, table: Table, from_offsets: Mapping[int, int]) -> int:
        """Set the outcome `lost` in the rows at or after a record offset of each log partition.

        The rewritten files have strings as views.
        """
        predicate = _from_offsets(table, from_offsets)
        return self._commit(
            table,
            lambda opened, properties: opened.update(
                {"outcome": f"'{LOST}'"}, predicate=predicate, commit_properties=properties
            ),
        )

    def _commit(
        self,
        table: Table,
        action: Action,
        number: int | None = None,
        info: Mapping[str, str] | None = None,
    ) -> int:
        """Commit a write exactly once; conflicts are retried."""
        number = self.next_number() if number is None else number

        def write_once(opened: DeltaTable) -> None:
            if self.epoch.is_due(opened, table, number):
                transaction = Transaction(WRITER, number)
                properties = CommitProperties(
                    app_transactions=[transaction], custom_metadata=dict(info or {})
                )
                action(opened, properties)
            # A deletion of no row commits nothing.
            self.epoch.note_commit(table, self.epoch.last_write(opened))

        return committed(self.tables, table, write_once).version()


def _from_offsets(table: Table, from_offsets: Mapping[int, int]) -> str:
    """The predicate for rows that were appended at or after these record offsets of the log."""
    names = table.schema.names
    column = "outcome_record_offset" if "outcome_record_offset" in names else "record_offset"
    rows = " OR ".join(
        f"(log_partition = {log_partition} AND {column} >= {from_offset})"
        for log_partition, from_offset in sorted(from_offsets.items())
    )
    return f"({rows}) AND {_is_not_lost(table)}"


def _is_not_lost(table: Table) -> str:
    """The predicate for rows that are not about lost records."""
    if "reason" in table.schema.names:
        return f"reason NOT LIKE '{LOST_REASON_PREFIX}%'"
    return f"(outcome IS NULL OR outcome <> '{LOST}')"
