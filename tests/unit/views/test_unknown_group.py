"""Groups that do not exist: the warning of commands that a user named such a group for."""

from __future__ import annotations

from pathlib import Path
from shutil import copytree

import pytest

from streaming.errors import did_you_mean
from streaming.tables.reader import TableReader
from streaming.tables.schemas import STATE_LOADING
from streaming.views.unknown_group import unknown_group
from tests.support.clients.command_line import call, json_lines
from tests.support.tables.tables_folder import apply_micro_batch, create_tables

SIMPLE = {"group_id": "simple", "record_offset": -1}
"""A group that only committed offsets has a row in `groups`, without a record of its own."""


@pytest.fixture(scope="module")
def built_tables(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = create_tables(tmp_path_factory.mktemp("built"))
    apply_micro_batch(
        folder,
        groups=[{"group_id": "payments"}, {"group_id": "payouts"}, SIMPLE],
        group_offsets=[
            {"group_id": "simple", "topic": "t", "partition": 0, "committed_offset": 1},
            {"group_id": "deleted", "topic": "t", "partition": 0, "committed_offset": 1},
        ],
        group_events=[
            {"group_id": "deleted", "event": "group_deleted", "record_offset": 6, "event_number": 0}
        ],
        progress=[{"next_offset": 7}],
    )
    return folder


@pytest.fixture
def tables(built_tables: str, tmp_path: Path) -> str:
    """A copy that a test may change."""
    return str(copytree(built_tables, tmp_path / "tables"))


def said(tables: str, group_id: str) -> str | None:
    return unknown_group(TableReader(tables), group_id)


def test_a_misspelled_group_is_answered_with_similar_names(tables: str) -> None:
    assert said(tables, "paymets") == "unknown group paymets; did you mean payments?"
    assert said(tables, "PAY") == "unknown group PAY; did you mean payments or payouts?"


def test_without_a_similar_name_the_message_says_how_to_list_groups(tables: str) -> None:
    said_of = "unknown group nope; for all groups: coordinator-state show groups"

    assert said(tables, "nope") == said_of


@pytest.mark.parametrize("group_id", ["payments", "simple"])
def test_a_group_exists_with_members_or_with_offsets_alone(tables: str, group_id: str) -> None:
    assert said(tables, group_id) is None


def test_a_deleted_group_whose_offsets_are_still_in_the_log_does_not_exist(tables: str) -> None:
    message = said(tables, "deleted")

    assert message == (
        "group deleted does not exist any more; its events: "
        "coordinator-state show events --group deleted"
    )


def test_a_group_in_a_log_partition_that_is_not_loaded_may_exist(tables: str) -> None:
    apply_micro_batch(tables, progress=[{"next_offset": 7, "state": STATE_LOADING}])

    assert said(tables, "paymets") == (
        "unknown group paymets: its log partition 0 answers COORDINATOR_LOAD_IN_PROGRESS"
    )


def test_an_unknown_name_without_similar_ones_has_no_hint() -> None:
    assert did_you_mean("", ["a", "b"]) == ""


class TestCommands:
    def test_offsets_exits_with_1_for_a_group_that_does_not_exist(self, tables: str) -> None:
        text = call("offsets", "paymets", "--tables", tables, exit_code=1)
        json = call("offsets", "paymets", "t:0", "--tables", tables, "--output=json", exit_code=1)

        # Nobody writes these tables, which is the first warning.
        first, second = text.stderr.splitlines()
        assert first.startswith("Warning: Nothing written since ")
        assert second == "Warning: unknown group paymets; did you mean payments?"
        assert [row["committed_offset"] for row in json_lines(json)] == [-1]
        call("offsets", "payments", "--tables", tables)
        call("offsets", "simple", "--tables", tables)

    def test_offsets_of_a_log_partition_that_is_loading_keep_the_error_of_the_broker(
        self, tables: str
    ) -> None:
        apply_micro_batch(tables, progress=[{"next_offset": 7, "state": STATE_LOADING}])

        answer = call("offsets", "paymets", "--tables", tables, exit_code=1)
        assert "COORDINATOR_LOAD_IN_PROGRESS" in answer.stdout
        assert "Warning: loading: 0 of " in answer.stderr
        assert "unknown group" not in answer.stderr

    @pytest.mark.parametrize("command", ["show lag", "show status", "show groups", "show history"])
    def test_show_warns_of_an_unknown_group(self, tables: str, command: str) -> None:
        arguments = [*command.split(), "--tables", tables, "--output", "json", "--group"]

        shown = call(*arguments, "paymets")
        unknown = "Warning: unknown group paymets; did you mean payments?\n"
        assert shown.stdout == ""
        # Lag and status also warn that nobody writes these tables.
        assert shown.stderr.endswith(unknown)
        assert "unknown group" not in call(*arguments, "payouts").stderr

    def test_rows_of_a_deleted_group_are_shown_without_a_warning(self, tables: str) -> None:
        shown = call("show", "events", "--tables", tables, "--group", "deleted")

        assert "group_deleted" in shown.stdout
        assert shown.stderr == ""

    def test_expiring_offsets_warns_of_an_unknown_group(self, tables: str) -> None:
        shown = call("expiring-offsets", "--tables", tables, "--group", "payment")

        assert shown.stderr == "Warning: unknown group payment; did you mean payments?\n"
