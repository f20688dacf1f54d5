"""Deletion vectors: the rows of a file that a table no longer has.

Delta Lake on Spark writes them into tables with the property `delta.enableDeletionVectors`: a MERGE
then marks rows as deleted instead of rewriting their file. delta-rs knows them in its own
operations (DELETE, OPTIMIZE, RESTORE, writes with a predicate). Here are reads of files with Arrow,
which does not know them.

Source: PROTOCOL.md of Delta Lake, "Deletion Vectors".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from pyarrow.dataset import Fragment

FEATURE = "deletionVectors"
PROPERTY = "delta.enableDeletionVectors"


def may_have_deletion_vectors(opened: DeltaTable) -> bool:
    """Whether the protocol of a table allows deletion vectors."""
    return FEATURE in (opened.protocol().reader_features or ())


def kept_rows(opened: DeltaTable) -> Mapping[str, pa.BooleanArray]:
    """For each file with a deletion vector, by its name: whether the table has the row.

    An array may be shorter than its file: the table then has all rows after it.
    """
    if not may_have_deletion_vectors(opened):
        return {}
    vectors: Any = opened.deletion_vectors()
    selections = pa.RecordBatchReader.from_stream(vectors).read_all()
    return {
        path.rpartition("/")[2]: kept.values
        for path, kept in zip(
            selections["filepath"].to_pylist(), selections["selection_vector"], strict=True
        )
    }


def batches_of(
    file: Fragment, schema: pa.Schema, columns: list[str], kept: Mapping[str, pa.BooleanArray]
) -> Iterator[pa.RecordBatch]:
    """The rows of a file that its table has; `kept` is that of `kept_rows`."""
    own = kept.get(file.path.rpartition("/")[2])
    position = 0
    for batch in file.to_batches(schema=schema, columns=columns):
        if own is None:
            yield batch
        else:
            is_kept = own[position : position + batch.num_rows]
            missing = pa.repeat(pa.scalar(True), batch.num_rows - len(is_kept))
            yield batch.filter(pa.concat_arrays([is_kept, missing]))
        position += batch.num_rows
