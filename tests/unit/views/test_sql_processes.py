"""Queries from outside: whatever they do, they end, and what they leave behind is nothing."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coordinator_state.insight.group_status import StatusRules
from streaming.errors import ConfigurationError, TablesUnavailable
from streaming.views.coordinator_tables import CoordinatorTables
from streaming.views.snapshot import SnapshotPlace
from streaming.views.sql.processes import SqlProcesses
from streaming.views.sql.question import Form, Question, SqlLimits
from streaming.views.sql.slots import Slots
from tests.support.brokers.processes import children, is_there, open_file_count, open_files
from tests.support.eventually import Eventually
from tests.support.tables.status_tables import NOW, VERSION, create_status_tables

BINDS_FOR_EVER = "SELECT * FROM range(sleep_ms(60000))"
CALLS_FOR_EVER = "SELECT levenshtein(repeat('a', 1000000), repeat('b', 1000000))"
FOR_EVER = "SELECT sum(hash(range)) FROM range(1000000000000000)"
_COLUMNS = ", ".join(f"range % {number} = 0" for number in range(2, 502))
BOOLEANS = f"SELECT {_COLUMNS} FROM range(1000000)"  # noqa: S608 - of numbers
LARGE_FORMS = (Form.ARROW, Form.CSV, Form.PARQUET)
LIMITS = SqlLimits(within_s=60, memory_bytes=1 << 30, answer_bytes=16 << 20, most_rows=1_000_000)
LITTLE = replace(LIMITS, answer_bytes=1 << 20)
SOON = replace(LITTLE, within_s=1)


@pytest.fixture(scope="module")
def shared(folder: str) -> Iterator[SqlProcesses]:
    processes = SqlProcesses(Slots("queries", 2), [folder])
    yield processes
    processes.close()


@pytest.fixture(scope="module")
def reused(folder: str) -> Iterator[SqlProcesses]:
    """One process for all queries; a query that is killed needs one of its own."""
    processes = SqlProcesses(Slots("queries", 1), [folder], is_reused=True)
    yield processes
    processes.close()


def question(
    tables: CoordinatorTables, sql: str, limits: SqlLimits = LIMITS, form: Form = Form.ARROW
) -> Question:
    return Question(sql=sql, form=form, limits=limits, place=tables.snapshot.place)


def answer(processes: SqlProcesses, asked: Question) -> pa.Table:
    with processes.answer(asked) as file:
        return pa.ipc.open_stream(file).read_all()


def test_the_answer_is_that_of_this_process(
    tables: CoordinatorTables, reused: SqlProcesses
) -> None:
    for sql in (
        "SELECT group_id, lag FROM group_lag ORDER BY ALL",
        "FROM group_status ORDER BY group_id",
        "SELECT moment() AS now, 1 AS a, 2 AS a",
    ):
        assert answer(reused, question(tables, sql)) == tables.sql(sql).arrow


def test_views_that_are_computed_already_are_taken(
    tables: CoordinatorTables, shared: SqlProcesses
) -> None:
    assert tables.snapshot.lags
    views = tables.snapshot.computed({"group_lag", "topics"})
    assert set(views) == {"group_lag"}
    mine = views["group_lag"].slice(0, 1)
    asked = replace(question(tables, "FROM group_lag"), views={"group_lag": mine})
    assert answer(shared, asked) == mine


@pytest.mark.parametrize("sql", [BINDS_FOR_EVER, CALLS_FOR_EVER, FOR_EVER])
def test_a_query_that_never_ends_is_killed(
    tables: CoordinatorTables, shared: SqlProcesses, sql: str
) -> None:
    with pytest.raises(ConfigurationError, match="the query took more than 1 s"):
        shared.answer(question(tables, sql, SOON))


def test_neither_does_a_view_take_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tables are in a store that takes requests and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as store:
        address = f"http://127.0.0.1:{store.getsockname()[1]}"
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"):
            monkeypatch.setenv(name, "any")
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
        place = SnapshotPlace("s3a://bucket/tables", 1, NOW, True, StatusRules())
        processes = SqlProcesses(Slots("queries", 1), [place.tables])
        asked = Question(sql="FROM group_lag", form=Form.ARROW, limits=SOON, place=place)
        with pytest.raises(ConfigurationError, match="the query took more than 1 s"):
            processes.answer(asked)
        processes.close()
        # It was asked.
        store.accept()[0].close()


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT length(repeat('x', 300000000))", "Out of Memory"),
        ("SELECT list(range) FROM range(100000000)", "failed to allocate data of size"),
        # One row of it is forty million Python objects.
        ("SELECT list(range % 2 = 0) FROM range(40000000)", "Out of Memory|more than 400 MB"),
    ],
)
def test_a_query_has_so_much_memory(
    tables: CoordinatorTables, shared: SqlProcesses, sql: str, reason: str
) -> None:
    little_memory = replace(LITTLE, memory_bytes=400 << 20, most_rows=10)
    with pytest.raises(ConfigurationError, match=reason):
        shared.answer(question(tables, sql, little_memory, Form.CSV))


@pytest.mark.parametrize(
    ("sql", "form"),
    [
        *(("SELECT hash(range) FROM range(999999)", form) for form in LARGE_FORMS),
        # Wide rows are written as they come.
        pytest.param(BOOLEANS, Form.CSV, marks=pytest.mark.long),
    ],
)
def test_an_answer_is_no_larger_than_it_may_be(
    tables: CoordinatorTables, reused: SqlProcesses, sql: str, form: Form
) -> None:
    with pytest.raises(ConfigurationError, match="the answer is larger than 1 MB"):
        reused.answer(question(tables, sql, LITTLE, form))


def test_an_answer_with_too_many_rows_is_refused(
    tables: CoordinatorTables, reused: SqlProcesses
) -> None:
    few = replace(LITTLE, most_rows=3)
    for form in (Form.ARROW, Form.CSV, Form.SPREADSHEET, Form.PARQUET):
        with pytest.raises(ConfigurationError, match="has more than 3 rows: add a LIMIT"):
            reused.answer(question(tables, "FROM range(1000000000000)", few, form))
    with reused.answer(question(tables, "FROM range(3)", few, Form.CSV)) as file:
        assert file.read() == b"range\r\n0\r\n1\r\n2\r\n"
    with reused.answer(question(tables, "FROM range(3)", few, Form.PARQUET)) as file:
        assert pq.read_table(file).num_rows == 3


def test_what_is_wrong_is_said(tables: CoordinatorTables, reused: SqlProcesses) -> None:
    for sql, said in (
        ("SELEC", "Parser Error"),
        ("FROM nothing", "Catalog Error"),
        ("SELECT 'x'::INT", "Conversion Error"),
        # Half of the answer is there by then.
        (
            "SELECT if(range = 9000, 'x', '1')::INT FROM range(10000)",
            "Conversion Error: Could not convert string 'x'",
        ),
        ("DROP TABLE groups", "only a single SELECT is allowed"),
    ):
        with pytest.raises(ConfigurationError, match=said) as refused:
            reused.answer(question(tables, sql, form=Form.CSV))
        assert "\n" not in str(refused.value)
        assert not isinstance(refused.value, TablesUnavailable)


def test_tables_that_cannot_be_read_are_said(tmp_path: Path, shared: SqlProcesses) -> None:
    folder = create_status_tables(tmp_path / "tables")
    gone = CoordinatorTables(folder, as_of=VERSION)
    assert gone.snapshot
    Path(folder, "groups").rename(tmp_path / "elsewhere")
    with pytest.raises(TablesUnavailable, match="groups"):
        shared.answer(question(gone, "FROM group_status"))


@pytest.mark.long
def test_a_query_is_only_looked_at(shared: SqlProcesses) -> None:
    def checked(sql: str) -> Question:
        return Question(sql=sql, form=Form.CHECKED, limits=SOON)

    for sql in ("FROM group_lag", "SELECT count(*) FROM log_offsets"):
        with shared.answer(checked(sql)) as file:
            assert not file.read()
    for sql, reason in (("SELECT no FROM groups", "Binder Error"), (BINDS_FOR_EVER, "took more")):
        with pytest.raises(ConfigurationError, match=reason):
            shared.answer(checked(sql))


@pytest.mark.long
def test_nothing_is_left_of_queries_but_a_spare_process(
    folder: str, tables: CoordinatorTables
) -> None:
    before, files = children(), open_file_count()
    processes = SqlProcesses(Slots("queries", 2), [folder])
    answer(processes, question(tables, "SELECT 1"))
    (spare,) = children() - before
    with_spare = open_file_count()
    answer(processes, question(tables, "SELECT 1"))
    for sql in ("SELEC", CALLS_FOR_EVER, "SELECT length(repeat('x', 2000000000))"):
        with pytest.raises(ConfigurationError):
            answer(processes, question(tables, sql, SOON))
    # Each of them had a process of its own.
    assert not is_there(spare)
    assert len(children() - before) == 1
    assert open_file_count() == with_spare
    processes.close()
    assert children() == before
    assert open_file_count() == files


@pytest.mark.long
def test_queries_of_one_person_share_a_process(folder: str, tables: CoordinatorTables) -> None:
    before = children()
    processes = SqlProcesses(Slots("queries", 1), [folder], is_reused=True)
    processes.warm()
    mine = children() - before
    assert len(mine) == 1
    assert answer(processes, question(tables, "SELECT 1 AS a")).num_rows == 1
    with pytest.raises(ConfigurationError, match="Parser Error"):
        processes.answer(question(tables, "SELEC"))
    assert children() - before == mine
    with pytest.raises(ConfigurationError, match="took more than 1 s"):
        processes.answer(question(tables, CALLS_FOR_EVER, SOON))
    # What it was allowed before is not taken from the next one.
    assert answer(processes, question(tables, "SELECT 1 AS a")).num_rows == 1
    assert len(children() - before - mine) == 1
    processes.close()
    assert children() == before


def test_a_process_knows_no_secret_and_few_files(
    folder: str, monkeypatch: pytest.MonkeyPatch, eventually: Eventually
) -> None:
    for name in ("COORDINATOR_STATE_TOKEN", "PAGERDUTY_ROUTING_KEY", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "canary")
    with Path("/etc/hostname").open() as inherited:
        os.set_inheritable(inherited.fileno(), True)
        for tables, known in (([folder], []), (["s3a://bucket/a"], [b"AWS_SECRET_ACCESS_KEY"])):
            before = children()
            processes = SqlProcesses(Slots("queries", 1), tables)
            processes.warm()
            (pid,) = children() - before
            # It is empty at the start of a program.
            environment = eventually(Path(f"/proc/{pid}/environ").read_bytes).split(b"\0")
            files = list(open_files(pid))
            processes.close()
            assert [name.split(b"=")[0] for name in environment if b"canary" in name] == known
            assert not [file for file in files if "hostname" in file]
