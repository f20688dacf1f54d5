"""MERGE in memory, for tables without a change data feed; see `Writer.merge`.

A small table is read, merged and replaced as a whole. Of a large one, delta-rs replaces the rows
that match a predicate: it rewrites each file that has such rows, and no other file. The predicate
names the groups of the MERGE. delta-rs writes the merged rows first and the other rows of the
rewritten files after them. Rows that change together therefore share a file: if the same groups
commit again, only this file is rewritten.

The predicate also has a lower bound for the time of the rows, if the table has such a column.
delta-rs then skips the files that have only earlier rows.

If most files are touched, a large table is replaced as a whole, too. docs/speed.md has the figures.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from coordinator_state.apply.columns import columns_of, nullable
from coordinator_state.apply.merge import merged
from streaming.tables import delta
from streaming.tables.deletion_vectors import batches_of, kept_rows
from streaming.tables.merging import Merge
from streaming.tables.schemas import Table

SMALL_BYTES: Final = 4 * 1024 * 1024
"""A table below this size is replaced as a whole: that is simpler and as fast."""
_FILES: Final = 16
"""A large table that is split has about this number of files."""
MOST_FILES: Final = 48
"""A table with more files is replaced as a whole."""
_MOST_SHARE: Final = 1 / 2
"""If the touched files have a larger share of the bytes, the table is replaced as a whole."""
_TRIAL: Final = 16
"""One of this number of versions that replace the whole table has many files."""
_SEARCHED: Final = 1 / 8
"""After this share of the bytes, the search for keys stops if they are spread over all files."""
_MOST_GROUPS: Final = 1_000
_MOST_GROUP_BYTES: Final = 100_000
"""The commit info in Delta's log contains the ids of the groups."""
_MOST_RUNS: Final = 2
"""If the rows of a group are at more places than this on average, the table is sorted."""
_MOST_SORTED_BYTES: Final = 1 << 31
"""Arrow's strings have offsets of 32 bits, so a sort of more text may fail."""
_EARLIEST: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True, slots=True)
class Replacement:
    """The rows to write instead of those that match the predicate, or of all if it is None."""

    rows: pa.Table
    predicate: str | None
    file_bytes: int | None
    """The size at which the next file begins; None for the default of delta-rs."""


def replacement(opened: DeltaTable, tables: str, merge: Merge) -> Replacement:
    """The result of a MERGE into a table, and the rows that it replaces."""
    table, source = merge.table, merge.source
    files = _Files.of(opened, tables, table)
    is_large = files.size_bytes >= SMALL_BYTES and "group_id" in table.key
    part = _part(files, source) if is_large and not merge.replaced else None
    where = None if part is None else part.where
    target = delta.rows_of(opened, tables, table, where=where, paths=list(files.sizes))
    if merge.replaced:
        is_replaced = pc.is_in(target["log_partition"], pa.array(merge.replaced, pa.int32()))
        target = target.filter(pc.invert(is_replaced))
    if is_large:
        source, target = _by_group(source), _by_group(target)
    rows = merged(target, source, key=table.key, guard=merge.guard, deletes=merge.deletes)
    if is_large:
        # A large table needs much memory, and the next line copies it.
        del target
        # delta-rs reads the chunks of a table in parallel and writes them in any order.
        rows = rows.combine_chunks()
    return Replacement(
        rows=rows,
        predicate=None if part is None else part.predicate,
        file_bytes=files.size_bytes // _FILES if is_large and (part or _splits(opened)) else None,
    )


def _splits(opened: DeltaTable) -> bool:
    """Whether to write a whole table to many files.

    If each MERGE touches all files, many files only make the Delta log longer. So this is tried
    from time to time. If the next MERGE replaces a part of the table, the table stays split.
    """
    if opened.version() % _TRIAL == 0:
        return True
    (last,) = opened.history(1)
    return "predicate" in last.get("operationParameters", {})


@dataclass(frozen=True, slots=True)
class _Part:
    """The rows of a table to replace, as a predicate of delta-rs and as one of Arrow."""

    predicate: str
    where: pc.Expression


@dataclass(frozen=True, slots=True)
class _Files:
    """The files of an opened table: their sizes in bytes by path, and the number of rows.

    The files with the latest rows come last.
    """

    opened: DeltaTable
    tables: str
    table: Table
    sizes: dict[str, int]
    rows: int

    @classmethod
    def of(cls, opened: DeltaTable, tables: str, table: Table) -> _Files:
        files = pa.table(opened.get_add_actions(flatten=True)).to_pylist()

        def latest(file: dict[str, Any]) -> tuple[datetime, datetime]:
            return file.get(f"max.{table.time}") or _EARLIEST, file["modification_time"]

        return cls(
            opened,
            tables,
            table,
            sizes={file["path"]: file["size_bytes"] for file in sorted(files, key=latest)},
            rows=sum(file["num_records"] or 0 for file in files),
        )

    @property
    def size_bytes(self) -> int:
        return sum(self.sizes.values())

    def rows_by_file(self, columns: list[str], groups: pa.Array) -> Iterator[tuple[str, pa.Table]]:
        """The rows of some groups, file by file, beginning with the latest rows."""
        table = self.table
        schema = pa.schema([table.schema.field(name) for name in columns])
        with delta.reading(table.path(self.tables)):
            paths = list(reversed(self.sizes))
            dataset = delta.files_of(self.opened, self.tables, table, paths=paths)
            kept = kept_rows(self.opened)
            is_in = pc.field("group_id").isin(groups)
            for file in dataset.get_fragments():
                if kept:
                    batches = batches_of(file, table.schema, columns, kept)
                    rows = pa.Table.from_batches(batches, schema).filter(is_in)
                else:
                    rows = file.to_table(schema=table.schema, columns=columns, filter=is_in)
                yield file.path, rows


def _part(files: _Files, source: pa.Table) -> _Part | None:
    """The rows of the groups of `source`, from the earliest row that `source` changes or has.

    It is None if the whole table is to be replaced.
    """
    table, groups = files.table, pc.unique(source["group_id"])
    if (
        not 1 < len(files.sizes) <= MOST_FILES
        or not 0 < len(groups) <= _MOST_GROUPS
        or pc.sum(pc.binary_length(groups)).as_py() > _MOST_GROUP_BYTES
        or source.num_rows > _MOST_SHARE * files.rows
    ):
        return None
    try:
        earliest = _earliest(files, source, groups)
    except (pa.ArrowNotImplementedError, _TooManyTouched):
        # pyarrow cannot filter strings that are views, which a MERGE of delta-rs wrote. Then the
        # whole table is replaced, which is slower and as right.
        return None
    predicate = f"group_id IN ({', '.join(map(_literal, groups.to_pylist()))})"
    where = pc.field("group_id").isin(groups)
    if earliest is not None:
        since = f"arrow_cast({_us(earliest)}, 'Timestamp(Microsecond, Some(\"UTC\"))')"
        predicate = f"{table.time} >= {since} AND {predicate}"
        where = (pc.field(table.time) >= earliest) & where
    return _Part(predicate, where)


class _TooManyTouched(Exception):
    """The files that a MERGE touches have too large a share of the bytes."""


def _earliest(files: _Files, source: pa.Table, groups: pa.Array) -> pa.Scalar | None:
    """The earliest time of the rows of `source`, and of the table's rows that have their keys.

    It is None if the table has no column with the time, or if the time is before 1970.

    Raises:
        _TooManyTouched: the whole table is to be replaced.
    """
    table, key = files.table, list(files.table.key)
    times = [] if table.time is None else [table.time]
    written = columns_of(source, nullable(pa.schema([table.schema.field(n) for n in times])))
    earliest = _min(written, times, None)
    wanted, touched_bytes = source.select(key), 0
    for path, rows in files.rows_by_file([*key, *times], groups):
        if rows.num_rows:
            touched_bytes += files.sizes[path]
            earliest = _min(rows.join(wanted, key, join_type="left semi"), times, earliest)
            wanted = wanted.join(rows.select(key), key, join_type="left anti")
            matched = 1 - wanted.num_rows / source.num_rows
            if _is_too_much(touched_bytes / files.size_bytes, matched):
                raise _TooManyTouched
        if times and not wanted.num_rows:
            # The other files have no row with one of the keys.
            break
    return None if earliest is None or _us(earliest) < 0 else earliest


def _is_too_much(touched: float, matched: float) -> bool:
    """Whether to replace the whole table, from the shares of the bytes touched and the keys found.

    If the first files have few of the keys, the others have the rest: this saves their search.
    """
    return touched > _MOST_SHARE or (touched > _SEARCHED and matched < 2 * touched)


def _min(rows: pa.Table, times: list[str], earliest: pa.Scalar | None) -> pa.Scalar | None:
    minima = [pc.min(rows[time]) for time in times] + ([] if earliest is None else [earliest])
    return min((scalar for scalar in minima if scalar.is_valid), key=_us, default=None)


def _us(time: pa.Scalar) -> int:
    us: int = time.cast(pa.int64()).as_py()
    return us


def _by_group(rows: pa.Table) -> pa.Table:
    """The rows with those of each group side by side.

    The order is kept if most groups are side by side: a sort takes long for a large table.
    """
    if not 0 < rows.nbytes < _MOST_SORTED_BYTES:
        return rows
    groups = rows["group_id"].combine_chunks().dictionary_encode().indices.to_numpy()
    runs = 1 + np.count_nonzero(groups[1:] != groups[:-1])
    if runs <= _MOST_RUNS * (1 + groups.max()):
        return rows
    return rows.take(np.argsort(groups, kind="stable"))


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
