"""The SQL page: an editor, example queries, and the result as a table or a file."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from functools import partial
from typing import BinaryIO, Final, NamedTuple

from starlette.background import BackgroundTask
from starlette.responses import Response, StreamingResponse

from streaming.dashboard.rendered import Page, render_template
from streaming.dashboard.request import request
from streaming.errors import ConfigurationError
from streaming.served.snapshot import ServedSnapshot
from streaming.views.definitions import SCHEMAS
from streaming.views.query import names_in
from streaming.views.questions import QUESTIONS
from streaming.views.sql.forms import ShownAnswer
from streaming.views.sql.processes import SqlProcesses
from streaming.views.sql.question import Form, Question, SqlLimits
from streaming.views.sql.slots import Slots

AT_ONCE: Final = 3
_PART_BYTES: Final = 1 << 20
SHOWN_LIMITS: Final = SqlLimits(
    within_s=20.0, memory_bytes=1 << 30, answer_bytes=64 << 20, most_rows=1_000
)
FILE_LIMITS: Final = SqlLimits(
    within_s=20.0, memory_bytes=1 << 30, answer_bytes=64 << 20, most_rows=1_000_000
)


class _File(NamedTuple):
    """A download format of a result."""

    form: Form
    media_type: str
    name: str


_FILES: Final[Mapping[str, _File]] = {
    "csv": _File(Form.CSV, "text/csv; charset=utf-8", "query.csv"),
    "spreadsheet": _File(Form.SPREADSHEET, "text/csv; charset=utf-8", "query-spreadsheet.csv"),
    "json": _File(Form.JSON, "application/x-ndjson; charset=utf-8", "query.jsonl"),
    "parquet": _File(Form.PARQUET, "application/vnd.apache.parquet", "query.parquet"),
}


def sql_processes(tables: Collection[str]) -> SqlProcesses:
    """The processes that run the queries of the page."""
    return SqlProcesses(Slots("queries", AT_ONCE), tables)


def page() -> str | Response:
    """Show or send the result of the query in the address."""
    select = request.query_params.get("query", "")
    snapshot = request.cluster.opened(request.at)
    as_file = _FILES.get(request.query_params.get("format", ""))
    shown_answer, fault = None, ""
    if not select.strip():
        _processes().warm()
    else:
        if as_file is not None:
            return _sent(_answer(select, snapshot, as_file.form, FILE_LIMITS), as_file)
        try:
            with _answer(select, snapshot, Form.SHOWN, SHOWN_LIMITS) as answer:
                shown_answer = ShownAnswer(answer)
        except ConfigurationError as error:
            fault = str(error)
    return render_template(
        "sql.html",
        snapshot=snapshot,
        select=select,
        shown_answer=shown_answer,
        fault=fault,
        schemas=SCHEMAS,
        questions=QUESTIONS,
    )


def _answer(sql: str, snapshot: ServedSnapshot, form: Form, limits: SqlLimits) -> BinaryIO:
    views = snapshot.computed(names_in(sql))
    question = Question(sql=sql, form=form, limits=limits, place=snapshot.place, views=views)
    return _processes().answer(question)


def _processes() -> SqlProcesses:
    processes: SqlProcesses = request.app.state.sql_processes
    return processes


def _sent(answer: BinaryIO, file: _File) -> Response:
    size_bytes = answer.seek(0, os.SEEK_END)
    answer.seek(0)
    headers = {
        "Content-Length": str(size_bytes),
        "Content-Disposition": f'attachment; filename="{file.name}"',
    }
    parts = iter(partial(answer.read, _PART_BYTES), b"")
    close = BackgroundTask(answer.close)
    return StreamingResponse(parts, 200, headers, file.media_type, close)


PAGES = (Page("sql", "sql", page, has_own_limit=True, may_be_linked=False),)
