"""Answers to SQL."""

from __future__ import annotations

import math
from typing import Annotated, Final

from pydantic import Field

from streaming.api.answers import Answer, Part
from streaming.api.operation import ClusterQuery, Clusters, operation
from streaming.views.query import names_in
from streaming.views.sql.forms import NUMBER, ShownAnswer
from streaming.views.sql.question import Form, Question, SqlLimits

_MOST_CHARACTERS: Final = 30_000
"""Of an answer: about 10,000 tokens of a language model."""
_LONGEST_CELL: Final = 1_000


class Column(Part):
    """A column of the answer."""

    name: str
    """Name of the column."""
    kind: str
    """number, time (UTC) or text."""


class SqlRows(Answer):
    """The rows of an answer to SQL."""

    columns: list[Column]
    """The columns."""
    rows: list[list[str | int | float | None]]
    """The cells in the order of `columns`. Times and nested values are text."""
    is_cut: bool
    """Whether the answer has more rows than these: select fewer, or aggregate."""


class SqlQuery(ClusterQuery):
    """The parameters of an answer to SQL."""

    query: str = Field(
        description="One SELECT in DuckDB's SQL over the tables and views. moment() is the moment "
        "of the snapshot. SHOW TABLES lists them, DESCRIBE groups the columns of one."
    )
    limit: Annotated[int, Field(ge=1, le=500)] = 50
    """The greatest number of rows."""


@operation(tool="sql")
def sql(clusters: Clusters, query: SqlQuery) -> SqlRows:
    """Run a SELECT over the tables of the consumer group coordinator.

    Use it for questions that no other tool answers, and to look at a record by
    `WHERE log_partition = 9 AND record_offset = 380`: offset_commits has commits, group_events
    events, coordinator_records the last record of each key. The resources schema://TABLE have the
    columns, docs://questions examples. The query sees the tables and views only, and has 20 s and
    1 GB of memory.
    """
    if clusters.queries is None:
        raise AssertionError("this server runs no SQL")
    shown = clusters.opened(query)
    question = Question(
        sql=query.query,
        form=Form.SHOWN,
        limits=SqlLimits(
            within_s=20.0, memory_bytes=1 << 30, answer_bytes=8 << 20, most_rows=query.limit
        ),
        place=shown.snapshot.place,
        views=shown.snapshot.computed(names_in(query.query)),
    )
    with clusters.queries.answer(question) as file:
        answer = ShownAnswer(file)
    rows: list[list[str | int | float | None]] = []
    characters = 0
    for row in answer.rows:
        cells = [_cell(text, kind) for text, kind in zip(row, answer.kinds, strict=True)]
        characters += sum(len(str(cell)) for cell in cells)
        if rows and characters > _MOST_CHARACTERS:
            break
        rows.append(cells)
    names = zip(answer.names, answer.kinds, strict=True)
    return shown.answer(
        SqlRows,
        columns=[{"name": name, "kind": kind} for name, kind in names],
        rows=rows,
        is_cut=answer.is_cut or len(rows) < len(answer.rows),
    )


def _cell(text: str | None, kind: str) -> str | int | float | None:
    """A value of an answer; a number that JSON does not have stays text."""
    if text is None:
        return None
    if kind != NUMBER:
        return text if len(text) <= _LONGEST_CELL else f"{text[:_LONGEST_CELL]}… (cut)"
    try:
        return int(text)
    except ValueError:
        number = float(text)
        return number if math.isfinite(number) else text
