"""A query of a user: its tables, the form of its answer, and its limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

import pyarrow as pa

from streaming.views.snapshot import SnapshotPlace


class Form(str, Enum):
    """The form in which an answer is written."""

    CHECKED = "checked"
    """No answer: only checks that the query is valid."""
    ARROW = "arrow"
    SHOWN = "shown"
    CSV = "csv"
    SPREADSHEET = "spreadsheet"
    """CSV without cells that a spreadsheet reads as a formula."""
    JSON = "json"
    """One JSON object per line."""
    PARQUET = "parquet"


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlLimits:
    """The limits of a query.

    Args:
        within_s: the wall-clock time of the query.
        memory_bytes: address space beyond that of an idle process; DuckDB may use up to half of it.
        answer_bytes: the size of the answer in its form.
        most_rows: the number of rows. `Form.SHOWN` leaves out further rows; other forms refuse
            the query.
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
        form: the form of the answer.
        limits: the limits of the query.
        place: the place of its snapshot; may be None only for `Form.CHECKED`.
        views: views of the snapshot that are already computed.
    """

    sql: str
    form: Form
    limits: SqlLimits
    place: SnapshotPlace | None = None
    views: Mapping[str, pa.Table] = field(default_factory=dict)
