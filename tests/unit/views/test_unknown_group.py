"""Groups that do not exist: the warning of commands that a user named such a group for."""

from __future__ import annotations

from pathlib import Path
from shutil import copytree

import pytest

from streaming.tables.reader import TableReader
from streaming.tables.schemas import STATE_LOADING
from streaming.views.unknown_group import unknown_group
from tests.support.clients.command_line import call, json_lines
from tests.support.tables.tables_folder import apply_micro_batch, create_tables

SIMPLE = {"group_id": "simple", "record_offset": -1}
"""A group that only committed offsets has a row in `groups`, without a record of its own."""


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> str:
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


@pytest.mark.parametrize(
    ("group_id", "warning"),
    [
        ("paymets", "unknown group paymets; did you mean payments?"),
        ("PAY", "unknown group PAY; did you mean payments or payouts?"),
        ("nope", "unknown group nope; for all groups: coordinator-state show groups"),
        ("payments", None),
        # A group exists with offsets alone.
        ("simple", None),
        # Offsets of a deleted group are still in the log.
        (
            "deleted",
            "group deleted does not exist any more; its events: "
            "coordinator-state show events --group deleted",
        ),
    ],
)
def test_each_name_has_its_warning(tables: str, group_id: str, warning: str | None) -> None:
    assert unknown_group(TableReader(tables), group_id) == warning


def test_only_a_group_that_does_not_exist_exits_with_1(tables: str) -> None:
    text = call("offsets", "paymets", "--tables", tables, exit_code=1)
    json = call("offsets", "paymets", "t:0", "--tables", tables, "--output=json", exit_code=1)

    # Nobody writes these tables, which is the first warning.
    first, second = text.stderr.splitlines()
    assert first.startswith("Warning: Nothing written since ")
    assert second == "Warning: unknown group paymets; did you mean payments?"
    assert [row["committed_offset"] for row in json_lines(json)] == [-1]
    for group_id in ("payments", "simple"):
        call("offsets", group_id, "--tables", tables)
    # The rows of a deleted group are shown without a warning.
    events = call("show", "events", "--tables", tables, "--group", "deleted")
    assert ("group_deleted" in events.stdout, events.stderr) == (True, "")


def test_a_group_in_a_log_partition_that_is_loading_may_exist(tables: str, tmp_path: Path) -> None:
    loading = str(copytree(tables, tmp_path / "tables"))
    apply_micro_batch(loading, progress=[{"next_offset": 7, "state": STATE_LOADING}])

    assert unknown_group(TableReader(loading), "paymets") == (
        "unknown group paymets: its log partition 0 answers COORDINATOR_LOAD_IN_PROGRESS"
    )
    answer = call("offsets", "paymets", "--tables", loading, exit_code=1)
    assert "COORDINATOR_LOAD_IN_PROGRESS" in answer.stdout
    assert "Warning: loading: 0 of " in answer.stderr
    assert "unknown group" not in answer.stderr


@pytest.mark.parametrize(
    "command", ["show lag", "show status", "show groups", "show history", "expiring-offsets"]
)
def test_commands_warn_of_an_unknown_group(tables: str, command: str) -> None:
    arguments = [*command.split(), "--tables", tables, "--output", "json", "--group"]

    shown = call(*arguments, "paymets", exit_code=1)
    assert shown.stdout == ""
    # Lag and status also warn that nobody writes these tables.
    assert shown.stderr.endswith("Warning: unknown group paymets; did you mean payments?\n")
    assert "unknown group" not in call(*arguments, "payouts").stderr
