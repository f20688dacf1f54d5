"""Answers as JSON lines: exact numbers, and one valid document on each line."""

from __future__ import annotations

import io
import json
from datetime import datetime, timezone

import pytest

from streaming.errors import ConfigurationError
from streaming.views.query import answering
from streaming.views.sql.forms import write_json


class Nothing:
    """A source without tables."""

    at = datetime(2026, 11, 21, 3, 14, tzinfo=timezone.utc)

    def queried(self, name: str) -> None:
        raise KeyError(name)


def lines_of(sql: str, most_rows: int = 10) -> list[str]:
    file = io.BytesIO()
    with answering(sql, Nothing(), rows_at_once=2, settings={}) as answer:
        write_json(answer, file, most_rows)
    return file.getvalue().decode().splitlines()


def test_each_row_is_a_document() -> None:
    (line,) = lines_of(
        "SELECT 9223372036854775807 AS big, sum(9223372036854775807::HUGEINT) AS sum, "
        "moment() AS at, 'a\nb' || chr(8238) AS text, NULL AS nothing, [1, NULL] AS list, "
        "{'a': 'nan'::DOUBLE} AS struct, 'infinity'::DOUBLE AS inf, 0.25::DOUBLE AS quarter"
    )
    assert json.loads(line) == {
        "big": 2**63 - 1,
        "sum": 2**63 - 1,
        "at": "2026-11-21T03:14:00.000Z",
        "text": "a\nb\u202e",
        "nothing": None,
        "list": [1, None],
        "struct": {"a": None},
        "inf": None,
        "quarter": 0.25,
    }


def test_too_many_rows_are_refused() -> None:
    assert len(lines_of("FROM range(10)")) == 10
    assert lines_of("SELECT 1 WHERE false") == []
    with pytest.raises(ConfigurationError, match="more than 10 rows"):
        lines_of("FROM range(11)")
