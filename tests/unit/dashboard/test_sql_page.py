"""The page of SQL: its answers as tables and files, and their limits."""

from __future__ import annotations

import io
import re
from typing import Any

import pyarrow.parquet as pq
import pytest
from starlette.testclient import TestClient

from streaming.views.questions import QUESTIONS
from tests.support.browser.html import page_of

WIDE = ", ".join(f"range AS c{number}" for number in range(500))


def file_of(client: TestClient, query: str, form: str) -> Any:
    return client.get("/c/prod/sql", params={"query": query, "format": form})


def test_examples_are_on_the_page(client: TestClient) -> None:
    page = page_of(client, "sql")
    assert [example.text for example in QUESTIONS if f">{example.text}</a>" not in page] == []


def test_an_answer_is_a_table_or_a_file(client: TestClient) -> None:
    select = "SELECT '=1+1' AS a"
    assert "<td>=1+1</td>" in page_of(client, "sql", query=select)
    parquet = file_of(client, select, "parquet")
    assert pq.read_table(io.BytesIO(parquet.content)).to_pylist() == [{"a": "=1+1"}]
    # A spreadsheet computes no formulas.
    for form, name, cell in (
        ("csv", "query", "=1+1"),
        ("spreadsheet", "query-spreadsheet", "'=1+1"),
    ):
        csv = file_of(client, select, form)
        assert csv.headers["Content-Disposition"] == f'attachment; filename="{name}.csv"'
        assert csv.headers["Content-Type"] == "text/csv; charset=utf-8"
        assert csv.text == f"a\r\n{cell}\r\n"
        assert csv.headers["Content-Length"] == str(len(csv.content))


@pytest.mark.parametrize(
    ("select", "shown"),
    [
        ("SELECT 1 AS a, 2 AS a", '<td class="number">1</td><td class="number">2</td>'),
        ("SELECT TIMESTAMP '2026-11-21 12:00:00' AS a", "<td>2026-11-21 12:00:00</td>"),
        ("SELECT range AS a FROM range(2000)", "1,000 rows; the files have more"),
        ("SELECT repeat('x', 9000) AS a FROM range(900)", "the files have more"),
        ("SELECT repeat('x', 100000) AS a", "x… (100,000 characters)</td>"),
        ("SELECT 1 AS a WHERE false", "No rows."),
        (f"SELECT {WIDE} FROM range(1000000)", "100 rows; the files have more"),  # noqa: S608
        (
            f"SELECT {', '.join(f'1 AS c{number}' for number in range(1001))}",
            "1,001 columns and the page shows at most 1,000",
        ),
    ],
    ids=lambda text: text[:30],
)
def test_an_answer_on_the_page(client: TestClient, select: str, shown: str) -> None:
    assert shown in page_of(client, "sql", query=select)


@pytest.mark.parametrize(
    ("query", "error"),
    [
        ("SELECT MAP {[1]: 2} AS a", "a value cannot be shown"),
        # Beyond the times of Python.
        ("SELECT TIMESTAMP 'infinity' AS a", "a value cannot be shown"),
        ("SELECT DATE '20000-01-01' AS a", "a value cannot be shown"),
        ("FROM nothing", "Table with name nothing does not exist!"),
    ],
)
def test_an_error_is_on_the_page_and_is_no_file(client: TestClient, query: str, error: str) -> None:
    page = page_of(client, "sql", query=query)
    assert re.search(rf'role="alert">[^<]*{error}', page)
    # A program that downloads a file does not get a page with status 200.
    refused = file_of(client, query, "csv")
    assert refused.status_code == 400
    assert error in refused.text
