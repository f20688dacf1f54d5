"""A query from outside: its tables, the form of its answer, and its limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

import pyarrow as pa

from streaming.views.snapshot import SnapshotPlace


class Form(str, Enum):
    """The form in which an answer is written."""

    CHECKED = "checked"
    """Nothing: only whether the query is valid, for any rows in the tables."""
    ARROW = "arrow"
    SHOWN = "shown"
    CSV = "csv"
    SPREADSHEET = "spreadsheet"
    """CSV without a cell that a spreadsheet takes for a formula."""
    PARQUET = "parquet"


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlLimits:
    """The limits of a query.

    Args:
        within_s: wall-clock time from question to answer.
        memory_bytes: address space beyond that of an idle process; DuckDB may use up to half of it.
        answer_bytes: size of the answer in its form.
        most_rows: the rows after so many are left out.
    """

    within_s: float
    memory_bytes: int
    answer_bytes: int
    most_rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A query.

    Args:
        sql: a SELECT in DuckDB's SQL.
        form: of the answer.
        limits: what it may take.
        place: where its snapshot is; only `Form.CHECKED` needs none.
        views: those of the snapshot that are computed already.
    """

    sql: str
    form: Form
    limits: SqlLimits
    place: SnapshotPlace | None = None
    views: Mapping[str, pa.Table] = field(default_factory=dict)
