"""SQL over the tables: what it sees, and what it does not."""

from __future__ import annotations

import io
import json
import os
import signal
from pathlib import Path
from threading import Timer

import pyarrow.parquet as pq
import pytest

from streaming.errors import ConfigurationError
from streaming.views.coordinator_tables import CoordinatorTables
from streaming.views.definitions import SCHEMAS
from streaming.views.query import answering, query
from streaming.views.sql.forms import write_json
from tests.support.clients.command_line import call
from tests.support.tables.status_tables import VERSION


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_table_and_view_is_there(tables: CoordinatorTables, name: str) -> None:
    assert tables.sql(f"FROM {name}").arrow.column_names == SCHEMAS[name].names


@pytest.mark.parametrize("select", ["SHOW TABLES", " show tables"])
def test_show_tables_lists_tables_and_views(tables: CoordinatorTables, select: str) -> None:
    assert [row["name"] for row in tables.sql(select)] == sorted(SCHEMAS)


@pytest.mark.parametrize(
    ("select", "reason"),
    [
        ("FROM group_offset", 'Did you mean "group_offsets"?'),
        ("SELECT group_idd FROM groups", 'Candidate bindings: "group_id"'),
        # A table whose name is not in the text is not an empty one.
        ("FROM query_table('gro' || 'ups')", "does not exist"),
    ],
)
def test_an_unknown_name_is_an_error_of_one_line(
    tables: CoordinatorTables, select: str, reason: str
) -> None:
    with pytest.raises(ConfigurationError) as refused:
        tables.sql(select)

    assert reason in str(refused.value)
    assert "\n" not in str(refused.value)


def test_names_are_read_as_sql_reads_them(tables: CoordinatorTables) -> None:
    (row,) = tables.sql("SELECT max(lag) AS lag FROM Group_Lag, (SELECT 1) WHERE topic = 't'")
    assert row == {"lag": 97}


@pytest.mark.parametrize(
    "select",
    [
        "FROM read_csv('/etc/passwd')",
        "FROM '/etc/passwd'",
        "FROM read_text('/etc/hostname')",
        "FROM read_text('/proc/self/environ')",
        "FROM read_blob('/proc/self/fd/0')",
        "FROM glob('/*')",
        "FROM read_parquet('http://127.0.0.1:9/x')",
        "FROM delta_scan('/etc')",
        "FROM parquet_scan('{folder}/groups/*.parquet')",
        "COPY (SELECT 1) TO '/tmp/coordinator-state-no'",
        "ATTACH '/tmp/coordinator-state-no.db'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access = true",
        "SET memory_limit = '1TB'",
        "SET threads = 1000",
        "PRAGMA memory_limit = '1TB'",
        "FROM secret_of_ours",
        "SELECT getenv('HOME')",
        "FROM secret_of_theirs",
        "CREATE TABLE t AS SELECT 1",
        "CREATE SECRET s (TYPE s3)",
        "PRAGMA database_list; FROM '/etc/passwd'",
        "",
        ";",
    ],
)
def test_nothing_else_is_in_reach(tables: CoordinatorTables, folder: str, select: str) -> None:
    secret_of_ours = tables.lag().arrow
    with pytest.raises(ConfigurationError):
        query(select.format(folder=folder), tables.snapshot)
    assert secret_of_ours


@pytest.mark.parametrize("name", ["iceberg_scan('x')", "duckdb_extensions()", "duckdb_secrets()"])
def test_no_error_names_the_home_of_the_user(tables: CoordinatorTables, name: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        query(f"FROM {name}", tables.snapshot)
    assert str(Path.home()) not in str(refused.value)
    settings = "FROM duckdb_settings() WHERE name LIKE '%_directory'"
    assert str(Path.home()) not in str(query(settings, tables.snapshot).to_pylist())


@pytest.mark.timeout(60)
def test_ctrl_c_ends_a_query(tables: CoordinatorTables) -> None:
    # A shell starts background jobs with SIGINT ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    ctrl_c = Timer(1, os.kill, (os.getpid(), signal.SIGINT))
    ctrl_c.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            tables.sql(
                "SELECT max(hash(a.range * b.range)) FROM range(9999999) a, range(9999999) b"
            )
    finally:
        ctrl_c.cancel()
        signal.signal(signal.SIGINT, before)
    assert len(tables.sql("SELECT 1")) == 1


def json_of(tables: CoordinatorTables, sql: str) -> list[str]:
    """At most ten rows as JSON lines."""
    file = io.BytesIO()
    with answering(sql, tables.snapshot, rows_at_once=2, settings={}) as answer:
        write_json(answer, file, 10)
    return file.getvalue().decode().splitlines()


def test_each_row_is_a_document_with_exact_numbers(tables: CoordinatorTables) -> None:
    select = """
        SELECT 9223372036854775807 AS big, sum(9223372036854775807::HUGEINT) AS sum,
            moment() AS at, 'a\nb' || chr(8238) AS text, NULL AS nothing, [1, NULL] AS list,
            {'a': 'nan'::DOUBLE} AS struct, 'infinity'::DOUBLE AS inf, 0.25::DOUBLE AS quarter
    """
    (line,) = json_of(tables, select)
    assert json.loads(line) == {
        **{"big": 2**63 - 1, "sum": 2**63 - 1, "at": "2026-11-21T12:00:00.000Z"},
        **{"text": "a\nb\u202e", "nothing": None, "list": [1, None]},
        **{"struct": {"a": None}, "inf": None, "quarter": 0.25},
    }
    assert len(json_of(tables, "FROM range(10)")) == 10
    assert json_of(tables, "SELECT 1 WHERE false") == []
    with pytest.raises(ConfigurationError, match="more than 10 rows"):
        json_of(tables, "FROM range(11)")


def test_a_query_that_the_locale_cannot_read_is_refused(tables: CoordinatorTables) -> None:
    undecodable = b"SELECT '\xc3\xa9'".decode("ascii", "surrogateescape")
    with pytest.raises(ConfigurationError, match=r"^the query is not valid Unicode: use a locale"):
        query(undecodable, tables.snapshot)


def test_the_command_has_text_json_csv_and_parquet(folder: str, tmp_path: Path) -> None:
    file = tmp_path / "rows.parquet"
    select = "SELECT group_id, lag FROM group_lag WHERE topic = 't' ORDER BY ALL LIMIT 1"
    csv = ["group_id,lag", "back,94"]
    for options, lines in (
        ([], ["group_id  lag", "back      94"]),
        (["--output", "json"], ['{"group_id":"back","lag":94}']),
        (["--output", "csv"], csv),
        (["--output", "spreadsheet-csv"], csv),
        (["--parquet", str(file)], []),
    ):
        shown = call("sql", select, "--tables", folder, "--as-of", str(VERSION), *options)
        assert shown.stdout.splitlines() == lines
    assert pq.read_table(file).to_pylist() == [{"group_id": "back", "lag": 94}]
