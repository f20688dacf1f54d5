"""`coordinator-state show` and `offsets`."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

import pytest

from streaming.cli.show_views import MEMBER, OWNER, VIEWS
from streaming.dashboard.app import create_app
from streaming.tables.schemas import ALERTS, TABLES
from tests.support.clients.command_line import call, json_lines
from tests.support.tables.alert_rules import lag_of
from tests.support.tables.tables_folder import apply_micro_batch, create_tables


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Tables that no test changes."""
    return create_group_tables(tmp_path_factory.mktemp("tables"))


def create_group_tables(in_folder: Path) -> str:
    folder = create_tables(in_folder)
    at = {"topic": "t", "partition": 0, "committed_offset": 1}
    apply_micro_batch(
        folder,
        groups=[{"group_id": "b"}, {"group_id": "a\x1b[31m"}],
        group_members=[
            {
                "group_id": "b",
                "member_id": "m",
                "subscribed_topics": ["t", "u"],
                "assignment": [{"topic": "t", "partition": 0}, {"topic": "u", "partition": 1}],
                "assignment_bytes": b"\x00\x01",
            }
        ],
        group_offsets=[at | {"group_id": "b", "leader_epoch": 5}, at | {"group_id": "a\x1b[31m"}],
        pending_offsets=[at | {"group_id": "b"}],
        progress=[{"next_offset": 7}],
    )
    return folder


class TestShow:
    def test_text_is_aligned_columns_in_the_order_of_the_key(self, tables: str) -> None:
        header, first, second = call("show", "offsets", "--tables", tables).stdout.splitlines()

        assert header.startswith("group_id   topic  partition  committed_offset  leader_epoch ")
        assert first.startswith(r"a\x1b[31m  t      0          1                 -             ")
        assert second.startswith("b          t      0          1                 5             ")
        assert "2026-11-21T03:14:00.000Z" in second

    def test_json_is_every_column_one_object_per_line(self, tables: str) -> None:
        (row,) = json_lines(call("show", "members", "--tables", tables, "--output", "json"))

        assert row["assignment"][1] == {"topic": "u", "topic_id": None, "partition": 1}
        assert row["assignment_bytes"] == "AAE="

    def test_an_assignment_is_shown_by_topic_and_partition(self, tables: str) -> None:
        text = call("show", "members", "--tables", tables).stdout

        assert text.split()[-5:] == ["t,", "u", "t:0,", "u:1", "-"]

    def test_versions_of_tables_are_a_mapping(self, tables: str) -> None:
        (row,) = json_lines(call("show", "progress", "--tables", tables, "--output", "json"))

        assert row["table_versions"]["groups"] == 1

    def test_rows_can_be_chosen_by_group(self, tables: str) -> None:
        result = call("show", "offsets", "--tables", tables, "--group", "b", "--output", "json")

        assert [row["group_id"] for row in json_lines(result)] == ["b"]
        assert (
            "no groups"
            in call("show", "progress", "--tables", tables, "--group", "b", exit_code=2).stderr
        )

    @pytest.mark.parametrize("what", VIEWS)
    def test_every_view_has_columns_that_its_table_has(self, what: str, tables: str) -> None:
        (table,) = (one for one in (*TABLES, ALERTS) if one.name == VIEWS[what].table)

        columns = {*VIEWS[what].columns, *VIEWS[what].order} - {MEMBER, *OWNER}
        assert columns <= set(table.schema.names)
        assert call("show", what, "--tables", tables).stdout.startswith(VIEWS[what].columns[0])

    def test_rules_are_those_of_a_status(self, tables: str) -> None:
        arguments = ("--tables", tables, "--rules", "burrow")

        refused = call("show", "groups", *arguments, exit_code=2)
        assert "--rules works only with status, not with groups" in refused.stderr
        call("show", "status", *arguments)

    @pytest.mark.parametrize(
        ("arguments", "similar"),
        [(("stauts",), "status"), (("events", "--event", "offset_rewnd"), "offset_rewind")],
    )
    def test_a_misspelled_word_has_similar_ones(
        self, tables: str, arguments: tuple[str, ...], similar: str
    ) -> None:
        refused = call("show", *arguments, "--tables", tables, exit_code=2)

        assert f"; did you mean {similar}" in refused.stderr
        assert len(refused.stderr.splitlines()) == 1

    def test_a_number_is_asked_for_in_plain_words(self, tables: str) -> None:
        refused = call("show", "events", "--limit", "many", "--tables", tables, exit_code=2)

        assert "--limit: 'many' is not a whole number. For help" in refused.stderr

    def test_every_table_has_a_view(self) -> None:
        assert {view.table for view in VIEWS.values()} == {
            table.name for table in (*TABLES, ALERTS)
        }

    def test_the_past_is_shown(self, tmp_path: Path) -> None:
        tables = create_group_tables(tmp_path)
        apply_micro_batch(tables, groups=[], progress=[{"next_offset": 8}])

        now = call("show", "groups", "--tables", tables, "--output", "json")
        then = call("show", "groups", "--tables", tables, "--output", "json", "--as-of", "1")
        assert (len(json_lines(now)), len(json_lines(then))) == (0, 2)
        assert (
            "neither a version nor a time"
            in call("show", "groups", "--tables", tables, "--as-of", "noon", exit_code=2).stderr
        )
        refused = call("show", "groups", "--tables", tables, "--as-of", "99", exit_code=2)
        said = f"Error: {tables} has no snapshot as of 99: the tables reach from "
        assert refused.stderr.startswith(said)
        assert refused.stderr.endswith(") can be read\n")


class TestOffsets:
    def test_answers_with_errors(self, tables: str) -> None:
        arguments = ["offsets", "b", "t:0", "t:9", "--tables", tables, "--require-stable"]

        assert json_lines(call(*arguments, "--output", "json")) == [
            {
                "topic": "t",
                "partition": partition,
                "committed_offset": -1,
                "leader_epoch": -1,
                "metadata": "",
                "error": error,
            }
            for partition, error in [(0, "UNSTABLE_OFFSET_COMMIT"), (9, "NONE")]
        ]

    def test_text(self, tables: str) -> None:
        assert call("offsets", "b", "--tables", tables).stdout.splitlines() == [
            "topic  partition  committed_offset  leader_epoch  metadata  error",
            "t      0          1                 5                       NONE",
        ]

    @pytest.mark.parametrize("text", ["t", "t:", ":0", "t:-1", "t:x"])
    def test_a_partition_has_a_topic_and_a_number(self, tables: str, text: str) -> None:
        result = call("offsets", "b", "--tables", tables, "--", text, exit_code=2)

        assert result.stderr == f"Error: '{text}' is not TOPIC:PARTITION\n"


def test_stale_tables_are_noticed_beside_the_rows(tables_that_lag: str) -> None:
    fresh = [call("show", what, "--tables", tables_that_lag) for what in ("lag", "status")]
    assert [shown.stderr for shown in fresh] == ["", ""]
    lag_of(tables_that_lag, 5, seconds_ago=200)
    for what in ("lag", "status"):
        shown = call("show", what, "--tables", tables_that_lag)
        assert shown.stderr.startswith("Warning: Nothing written since ")
        assert shown.stderr.endswith(" ago). Is `run` running?\n")
        assert "Is `run` running?" not in shown.stdout


@pytest.fixture(scope="module")
def first_load(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A load that has begun with the first of four log partitions; no test changes it."""
    folder = create_tables(tmp_path_factory.mktemp("first load"), log_partitions="4")
    begun = {"log_partition": 0, "state": "loading", "updated_at": datetime.now(timezone.utc)}
    apply_micro_batch(folder, progress=[begun])
    return folder


class TestFirstLoad:
    @pytest.mark.parametrize(
        ("what", "output"),
        [
            ("groups", "text"),
            ("offsets", "json"),
            ("lag", "json"),
            ("status", "text"),
            ("events", "json"),
        ],
    )
    def test_empty_rows_come_with_the_reason(self, first_load: str, what: str, output: str) -> None:
        shown = call("show", what, "--tables", first_load, "--output", output, exit_code=1)

        assert shown.stderr == (
            "Warning: loading: 0 of 4 log partitions are current; rows of the other 4 are missing "
            "or out of date (coordinator-state show progress)\n"
        )
        assert json_lines(shown) == [] if output == "json" else "\n" in shown.stdout

    def test_progress_is_always_there(self, first_load: str) -> None:
        assert call("show", "progress", "--tables", first_load).stderr == ""

    def test_offsets_say_why_there_is_no_coordinator(self, first_load: str) -> None:
        answer = call("offsets", "g", "--tables", first_load, "--output", "json", exit_code=1)

        assert "loading: 0 of 4 log partitions are current" in answer.stderr
        (row,) = json_lines(answer)
        assert row["error"] == "NOT_COORDINATOR"

    def test_a_part_that_is_current_exits_with_status_0(self, tmp_path: Path) -> None:
        tables = create_tables(tmp_path, log_partitions="4")
        states = {0: "current", 1: "waiting", 2: "loading"}
        rows = [{"log_partition": p, "state": state} for p, state in states.items()]
        apply_micro_batch(tables, progress=rows)

        assert call("show", "groups", "--tables", tables).stderr == (
            "Warning: loading: 1 of 4 log partitions are current; rows of the other 3 are missing "
            "or out of date (1 without a leader) (coordinator-state show progress)\n"
        )

    def test_the_page_says_so_on_each_page(self, first_load: str) -> None:
        page = create_app({"prod": first_load}).test_client().get("/c/prod/").text

        assert "Loading: 0 of 4 log partitions are current;" in page
