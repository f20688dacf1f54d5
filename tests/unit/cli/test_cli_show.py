"""`coordinator-state show` and `offsets`."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from streaming.cli.show import MEMBER, VIEWS
from streaming.dashboard.app import create_app
from streaming.lag.evaluation import Evaluation
from streaming.run.evaluation import StatusEvaluation
from streaming.tables.opening import open_for_writing
from streaming.tables.reader import TableReader
from streaming.tables.schemas import ALERTS, TABLES
from streaming.views.coordinator_tables import CoordinatorTables
from tests.support.browser.html import client_of
from tests.support.clients.command_line import call, json_lines
from tests.support.tables.alert_rules import lag_of
from tests.support.tables.event_rows import BEGIN, by_member, event_row, moved
from tests.support.tables.sample_rows import history_of, member_row, offset_row
from tests.support.tables.status_tables import NOW, create_status_tables
from tests.support.tables.tables_folder import apply_micro_batch, create_tables


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Tables that no test changes."""
    return create_group_tables(tmp_path_factory.mktemp("tables"))


def create_group_tables(in_folder: Path) -> str:
    folder = create_tables(in_folder)
    at = {"topic": "t", "partition": 0, "committed_offset": 1}
    member = member_row("b", "m", "u", [0, 1], assignment_bytes=b"\x00\x01")
    apply_micro_batch(
        folder,
        groups=[{"group_id": "b"}, {"group_id": "a\x1b[31m"}],
        group_members=[member],
        group_offsets=[at | {"group_id": "b", "leader_epoch": 5}, at | {"group_id": "a\x1b[31m"}],
        pending_offsets=[at | {"group_id": "b"}],
        progress=[{"next_offset": 7}],
    )
    return folder


def shown(tables: str, view: str, *arguments: str) -> list[dict[str, Any]]:
    return json_lines(call("show", view, "--tables", tables, "--output", "json", *arguments))


def test_text_is_aligned_columns_in_the_order_of_the_key(tables: str) -> None:
    header, first, second = call("show", "offsets", "--tables", tables).stdout.splitlines()

    assert header.startswith("group_id   topic  partition  committed_offset  leader_epoch ")
    assert first.startswith(r"a\x1b[31m  t      0          1                 -             ")
    assert second.startswith("b          t      0          1                 5             ")
    assert "2026-11-21T03:14:00.000Z" in second


def test_json_is_every_column_one_object_per_line(tables: str) -> None:
    (row,) = shown(tables, "members")

    assert row["assignment"][1] == {"topic": "u", "topic_id": None, "partition": 1}
    assert row["assignment_bytes"] == "AAE="
    (row,) = shown(tables, "progress")
    assert row["table_versions"]["groups"] == 1


def test_progress_says_when_lag_and_status_were_evaluated(tmp_path: Path) -> None:
    evaluated = create_status_tables(tmp_path)
    assert "evaluated" not in call("show", "progress", "--tables", evaluated).stderr
    evaluation = Evaluation.of(TableReader(evaluated), at=NOW)
    StatusEvaluation(open_for_writing(evaluated, "test")).keep(evaluation)
    noted = call("show", "progress", "--tables", evaluated).stderr
    assert "`run` evaluated lag and status at 2026-11-21 12:00:00 UTC (" in noted
    noted = call("show", "progress", "--tables", evaluated, "--output", "json").stderr
    assert "evaluated" not in noted


def test_totals_and_rules_can_be_chosen(tables: str) -> None:
    (row,) = shown(tables, "lag", "--by", "topic", "--group", "b")
    assert (row["topic"], row["partitions"], row["partitions_unknown"]) == ("t", 1, 1)
    by_partition = ("--rules", "burrow", "--by", "partition", "--group", "b")
    (row,) = shown(tables, "status", *by_partition)
    assert (row["topic"], row["partition"], row["reason"]) == ("t", 0, "lag 0")


def test_rows_can_be_chosen_by_group(tables: str) -> None:
    assert [row["group_id"] for row in shown(tables, "offsets", "--group", "b")] == ["b"]
    refused = call("show", "progress", "--tables", tables, "--group", "b", exit_code=2)
    assert "no groups" in refused.stderr


def test_every_table_has_a_view() -> None:
    assert {view.table for view in VIEWS.values()} == {table.name for table in (*TABLES, ALERTS)}


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_has_columns_that_its_table_has(view: str, tables: str) -> None:
    (table,) = (table for table in (*TABLES, ALERTS) if table.name == VIEWS[view].table)

    owner = {"transactional_id", "transaction_state", "abort_timestamp", "is_marker_lost"}
    owner |= {"is_two_phase_commit"}
    added = {MEMBER, *(owner if view == "pending" else ())}
    columns = {*VIEWS[view].columns, *VIEWS[view].order} - added
    assert columns <= set(table.schema.names)
    assert call("show", view, "--tables", tables).stdout.startswith(VIEWS[view].columns[0])


def test_the_past_is_shown(tmp_path: Path) -> None:
    tables = create_group_tables(tmp_path)
    apply_micro_batch(tables, groups=[], progress=[{"next_offset": 8}])

    assert shown(tables, "groups") == []
    assert len(shown(tables, "groups", "--as-of", "1")) == 2
    refused = call("show", "groups", "--tables", tables, "--as-of", "99", exit_code=2)
    said = f"Error: {tables} has no snapshot as of 99: the tables reach from "
    assert refused.stderr.startswith(said)
    assert refused.stderr.endswith(") can be read\n")


# --- events and history

DELETED = 110
MEMBERS = ("search-consumer-aaaa51f4", "search-consumer-bbbb51f4")
HISTORIES = "events, history and group-records"


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> str:
    """One rewind, and after it deleted offsets of another group."""
    folder = create_tables(tmp_path_factory.mktemp("events"))
    deleted = {"topic": "returns", "offset_before": 7, "group_id": "returns"}
    apply_micro_batch(
        folder,
        group_events=[
            moved("offset_rewind", 990, 100, at_s=1, **by_member(MEMBERS[0])),
            event_row("member_left", at_s=2, member_count=1, **by_member(MEMBERS[1])),
            *(
                event_row("offset_deleted", at_s=3 + number / 2, partition=number % 9, **deleted)
                for number in range(DELETED)
            ),
        ],
        offset_commits=history_of(offset_row("g", number, BEGIN) for number in range(150)),
        group_members=[{"group_id": "g", **by_member(MEMBERS[0])}],
        progress=[{"next_offset": 7}],
    )
    return folder


@pytest.mark.parametrize(
    ("view", "more", "rest"),
    [("events", DELETED - 98, ", --folded shows a summary"), ("history", 50, "")],
)
def test_the_newest_hundred_are_shown_and_the_others_are_counted(
    events: str, view: str, more: int, rest: str
) -> None:
    newest = call("show", view, "--tables", events, "--output", "json")

    unlimited = shown(events, view, "--limit", "0")
    assert len(unlimited) == 100 + more
    assert json_lines(newest) == unlimited[-100:]
    assert newest.stderr == (
        f"{more} older rows are not shown: --limit 0 shows all, --since and --until select a "
        f"period{rest}\n"
    )
    assert len(shown(events, view, "--limit", "7")) == 7


def test_events_are_selected_by_period_name_and_group(events: str) -> None:
    """How events are selected and folded is in `unit/views` and `unit/insight`."""
    period = ("--since", "2026-11-21T06:56:01Z", "--until", "2026-11-21T06:56:03Z")
    names = ("--event", "offset_rewind", "--event", "offset_deleted")
    rows_of_both = shown(events, "events", *period, *names)
    assert [row["event"] for row in rows_of_both] == ["offset_rewind", "offset_deleted"]
    rows_of_group = shown(events, "events", *period, *names, "--group", "g")
    assert [row["event"] for row in rows_of_group] == ["offset_rewind"]
    assert shown(events, "history", "--since", "2026-11-22") == []
    # The Python API passes on the same.
    api = CoordinatorTables(events)
    named = api.events("g", event=["offset_rewind", "member_left"], until="2026-11-21T06:56:01Z")
    assert [row.event for row in named] == ["offset_rewind"]
    assert len(api.history("g", since=BEGIN, limit=20)) == 20


def test_a_summary_has_the_one_rewind_first(events: str) -> None:
    summary = call("show", "events", "--tables", events, "--folded")
    header, first, *_ = summary.stdout.splitlines()

    assert header.split() == ["first", "last", "count", "group_id", "event", "details"]
    assert first.split()[2:5] == ["1", "g", "offset_rewind"]
    # The other member has the same last four characters.
    assert first.endswith("set back from 990 to 100 by search-consumer-a51f4 at /10.0.0.1")
    assert summary.stderr == ""
    cut = call("show", "events", "--tables", events, "--folded", "--limit", "1")
    assert cut.stdout.splitlines()[1].split() == first.split()
    assert cut.stderr == "2 minor rows are not shown: --limit 0 shows all\n"


def test_members_have_a_label_in_text_and_their_whole_id(events: str) -> None:
    """How labels differ is in `unit/views`."""
    header, row = call("show", "members", "--tables", events).stdout.splitlines()
    assert header.split()[:3] == ["group_id", "member", "member_id"]
    assert row.split()[:3] == ["g", "search-consumer-51f4", MEMBERS[0]]
    assert "member" not in shown(events, "members")[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("groups", "--limit", "5"), f"--limit works only with {HISTORIES}, not with groups"),
        (("lag", "--since", "2026"), f"--since works only with {HISTORIES}, not with lag"),
        (("history", "--event", "rebalance"), "--event works only with events, not with history"),
        (("history", "--folded"), "--folded works only with events, not with history"),
        (
            ("events", "--folded", "--output", "json"),
            "--folded works only with text: JSON has one object per event",
        ),
        (("events", "--event", "rewound"), "'rewound' is not one of 'group_created'"),
        (("events", "--event", "offset_rewnd"), "; did you mean offset_rewind"),
        (("events", "--since", "noon"), "'noon' is neither a version nor a time"),
        (("groups", "--as-of", "noon"), "'noon' is neither a version nor a time"),
        (("events", "--limit", "many"), "--limit: 'many' is not a whole number. For help"),
        (("stauts",), "; did you mean status"),
        (("groups", "--rules", "burrow"), "--rules works only with status, not with groups"),
        (("groups", "--by", "group"), "--by works only with lag"),
        (("status", "--by", "topic"), "--by must be group or partition for status"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    events: str, arguments: tuple[str, ...], message: str
) -> None:
    refused = call("show", *arguments, "--tables", events, exit_code=2)
    # A warning that the tables are stale may come first.
    assert message in refused.stderr.splitlines()[-1]


# --- offsets


def test_answers_with_errors(tables: str) -> None:
    arguments = ["offsets", "b", "t:0", "t:9", "--tables", tables, "--require-stable"]

    unstable, unknown = json_lines(call(*arguments, "--output", "json"))
    empty = {"topic": "t", "committed_offset": -1, "leader_epoch": -1, "metadata": ""}
    assert unstable == {**empty, "partition": 0, "error": "UNSTABLE_OFFSET_COMMIT"}
    assert unknown == {**empty, "partition": 9, "error": "NONE"}


def test_text(tables: str) -> None:
    assert call("offsets", "b", "--tables", tables).stdout.splitlines() == [
        "topic  partition  committed_offset  leader_epoch  metadata  error",
        "t      0          1                 5                       NONE",
    ]


@pytest.mark.parametrize("text", ["t", "t:", ":0", "t:-1", "t:x"])
def test_a_partition_has_a_topic_and_a_number(tables: str, text: str) -> None:
    result = call("offsets", "b", "--tables", tables, "--", text, exit_code=2)

    assert result.stderr == f"Error: '{text}' is not TOPIC:PARTITION\n"


# --- tables that are stale or incomplete


def test_stale_tables_are_noticed_beside_the_rows(tables_that_lag: str) -> None:
    assert call("show", "lag", "--tables", tables_that_lag).stderr == ""
    lag_of(tables_that_lag, 5, seconds_ago=200)
    for view in ("lag", "status"):
        stale = call("show", view, "--tables", tables_that_lag)
        assert stale.stderr.startswith("Warning: Nothing written since ")
        assert "Is `run` running?" not in stale.stdout


@pytest.fixture(scope="module")
def first_load(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A load that has begun with the first of four log partitions; no test changes it."""
    folder = create_tables(tmp_path_factory.mktemp("first load"), log_partitions="4")
    begun = {"log_partition": 0, "state": "loading", "updated_at": datetime.now(timezone.utc)}
    apply_micro_batch(folder, progress=[begun])
    return folder


@pytest.mark.parametrize(("view", "output"), [("groups", "text"), ("lag", "json")])
def test_empty_rows_come_with_the_reason(first_load: str, view: str, output: str) -> None:
    shown = call("show", view, "--tables", first_load, "--output", output, exit_code=1)

    assert shown.stderr == (
        "Warning: loading: 0 of 4 log partitions are current; rows of the other 4 are missing "
        "or out of date (coordinator-state show progress)\n"
    )
    assert json_lines(shown) == [] if output == "json" else "\n" in shown.stdout


def test_the_reason_comes_with_other_answers_too(first_load: str) -> None:
    notice = "oading: 0 of 4 log partitions are current;"
    answer = call("sql", "SELECT count(*) FROM group_offsets", "--tables", first_load)
    assert answer.stderr.startswith(f"Warning: l{notice}")
    assert f"L{notice}" in client_of(create_app({"prod": first_load})).get("/c/prod/").text
    # The progress of the load is always there.
    assert call("show", "progress", "--tables", first_load).stderr == ""


def test_a_part_that_is_current_exits_with_status_0(tmp_path: Path) -> None:
    tables = create_tables(tmp_path, log_partitions="4")
    states = {0: "current", 1: "waiting", 2: "loading"}
    rows = [{"log_partition": p, "state": state} for p, state in states.items()]
    apply_micro_batch(tables, progress=rows)

    assert call("show", "groups", "--tables", tables).stderr == (
        "Warning: loading: 1 of 4 log partitions are current; rows of the other 3 are missing "
        "or out of date (1 without a leader) (coordinator-state show progress)\n"
    )
