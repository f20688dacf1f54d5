"""SQL over the tables: what it sees, and what it does not."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from streaming.coordinator_tables import CoordinatorTables
from streaming.errors import ConfigurationError
from streaming.sql import query
from streaming.views import SCHEMAS
from tests.command_line import call, json_lines
from tests.status_tables import NOW, VERSION, create_status_tables


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return create_status_tables(tmp_path_factory.mktemp("status") / "tables")


@pytest.fixture(scope="module")
def tables(folder: str) -> CoordinatorTables:
    return CoordinatorTables(folder, as_of=VERSION)


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_table_and_view_is_there(tables: CoordinatorTables, name: str) -> None:
    assert tables.sql(f"FROM {name}").arrow.column_names == SCHEMAS[name].names


def test_names_are_read_as_sql_reads_them(tables: CoordinatorTables) -> None:
    (row,) = tables.sql("SELECT max(lag) AS lag FROM Group_Lag, (SELECT 1) WHERE topic = 't'")
    assert row == {"lag": 97}


def test_it_is_of_the_moment(tables: CoordinatorTables) -> None:
    assert tables.sql("SELECT moment() AS now")[0]["now"] == NOW


@pytest.mark.parametrize(
    "select",
    [
        "FROM read_csv('/etc/passwd')",
        "FROM '/etc/passwd'",
        "FROM read_text('/etc/hostname')",
        "FROM glob('/*')",
        "COPY (SELECT 1) TO '/tmp/coordinator-state-no'",
        "ATTACH '/tmp/coordinator-state-no.db'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access = true",
        "FROM secret_of_ours",
        "SELECT getenv('HOME')",
        "FROM secret_of_theirs",
        "CREATE TABLE t AS SELECT 1",
        "PRAGMA database_list; FROM '/etc/passwd'",
        "",
        ";",
    ],
)
def test_nothing_else_is_in_reach(tables: CoordinatorTables, select: str) -> None:
    secret_of_ours = tables.lag().arrow
    with pytest.raises(ConfigurationError):
        query(select, tables.snapshot)
    assert secret_of_ours


def test_a_query_that_never_ends_ends(tables: CoordinatorTables) -> None:
    endless = "SELECT count(*) FROM range(10000000000) a, range(10000000000) b"
    with pytest.raises(ConfigurationError, match=r"took more than 0\.2 s"):
        query(endless, tables.snapshot, within_s=0.2)


def test_the_rest_is_left_out(tables: CoordinatorTables) -> None:
    found = query("FROM range(1000000000000)", tables.snapshot, most_rows=3, within_s=60)
    assert found.num_rows == 3


def test_two_columns_of_one_name_are_two(tables: CoordinatorTables) -> None:
    assert list(tables.sql("SELECT 1 AS a, 2 AS a")) == [{"a": 1, "a_1": 2}]


def test_an_answer_is_no_larger_than_it_may_be(tables: CoordinatorTables) -> None:
    with pytest.raises(ConfigurationError, match="the answer is larger than 1 MB"):
        query("SELECT repeat('x', 2000000)", tables.snapshot, most_bytes=1 << 20)


class TestCommand:
    SELECT = "SELECT group_id, lag FROM group_lag WHERE topic = 't' ORDER BY ALL LIMIT 2"

    def arguments(self, folder: str, *more: str) -> tuple[str, ...]:
        return ("sql", self.SELECT, "--tables", folder, "--as-of", str(VERSION), *more)

    def test_text_json_csv_and_parquet(self, folder: str, tmp_path: Path) -> None:
        assert call(*self.arguments(folder)).stdout.splitlines() == [
            "group_id  lag",
            "back      94",
            "idle      0",
        ]
        rows = [{"group_id": "back", "lag": 94}, {"group_id": "idle", "lag": 0}]
        assert json_lines(call(*self.arguments(folder, "--output", "json"))) == rows
        csv = call(*self.arguments(folder, "--output", "csv")).stdout
        assert csv.split() == ["group_id,lag", "back,94", "idle,0"]
        file = tmp_path / "rows.parquet"
        assert call(*self.arguments(folder, "--parquet", str(file))).stdout == ""
        assert pq.read_table(file).to_pylist() == rows

    def test_what_is_wrong_is_one_line(self, folder: str) -> None:
        result = call("sql", "SELEC 1", "--tables", folder, exit_code=2)
        assert result.stderr.startswith("Error: Parser Error: syntax error")
        assert result.stderr.count(os.linesep) == 1
