"""SQL: an editor, its examples, and the answer as a table or a file."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from flask import g, render_template, request
from werkzeug.wrappers import Response

from streaming.dashboard.page_snapshot import PageSnapshot
from streaming.dashboard.shown import moment, text
from streaming.errors import ConfigurationError
from streaming.output import csv_lines, json_line, printable
from streaming.questions import QUESTIONS
from streaming.sql import query
from streaming.views import SCHEMAS

MOST_ROWS = 1_000
MOST_ROWS_OF_A_FILE = 1_000_000
MOST_BYTES = 64 << 20
WITHIN_S = 20.0


def page() -> str | Response:
    """Answer the query of the address."""
    select = request.args.get("query", "")
    snapshot: PageSnapshot = g.cluster.snapshot(g.at)
    as_file = _FILES.get(request.args.get("format", ""))
    found, fault, cells = None, "", []
    if select.strip():
        try:
            most = MOST_ROWS + 1 if as_file is None else MOST_ROWS_OF_A_FILE
            found = query(
                select, snapshot, most_rows=most, most_bytes=MOST_BYTES, within_s=WITHIN_S
            )
            if as_file is not None:
                return as_file(found)
            cells = _cells(found.slice(0, MOST_ROWS))
        except ConfigurationError as error:
            found, fault = None, str(error)
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
            found, fault = None, f"a value cannot be shown, make it text with ::VARCHAR: {error}"
    return render_template(
        "sql.html",
        snapshot=snapshot,
        select=select,
        found=None if found is None else found.slice(0, MOST_ROWS),
        cells=cells,
        is_cut=found is not None and found.num_rows > MOST_ROWS,
        most_rows=MOST_ROWS,
        fault=fault,
        schemas=SCHEMAS,
        questions=QUESTIONS,
    )


def _cells(found: pa.Table) -> list[list[dict[str, Any]]]:
    rows = found.to_pylist(maps_as_pydicts="strict")
    return [[_cell(value) for value in row.values()] for row in rows]


def _cell(value: Any) -> dict[str, Any]:
    is_number = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    match value:
        case None | str():
            return {"shown": text(value), "is_number": False}
        case datetime():
            return {"shown": moment(value), "is_number": False}
        case bool() | int():
            return {"shown": str(value), "is_number": is_number}
        case _:
            return {"shown": printable(json_line(value).strip('"')), "is_number": is_number}


def _csv(found: pa.Table) -> Response:
    lines = csv_lines(found.to_pylist(maps_as_pydicts="strict"), found.column_names)
    return _file("".join(lines).encode(), "text/csv; charset=utf-8", "query.csv")


def _parquet(found: pa.Table) -> Response:
    buffer = io.BytesIO()
    pq.write_table(found, buffer)
    return _file(buffer.getvalue(), "application/vnd.apache.parquet", "query.parquet")


def _file(content: bytes, media_type: str, name: str) -> Response:
    response = Response(content, mimetype=media_type)
    response.headers["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


_FILES: Final[Mapping[str, Callable[[pa.Table], Response]]] = {"csv": _csv, "parquet": _parquet}

PAGES = (("sql", "sql", page),)
