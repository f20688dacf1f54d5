"""The command `plan`: its output, its files and its exit status."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from coordinator_state.insight.kafka_commands import reset_commands, shell_word
from tests.support.clients.command_line import call, json_lines
from tests.support.tables.planned_tables import create_planned_tables
from tests.support.tables.tables_folder import apply_micro_batch, create_tables


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Tables that no test changes, and a time between their two snapshots."""
    tables, between = create_planned_tables(tmp_path_factory.mktemp("planned") / "tables")
    return tables, between.isoformat()


def test_a_plan_is_shown_and_not_written(planned: tuple[str, str]) -> None:
    tables, between = planned
    shown = call("plan", "reset", "payments", "--to-state-at", between, "--tables", tables)
    summary, columns, *rows = shown.stdout.splitlines()
    assert summary.startswith("payments, back to its offsets of ")
    assert columns.split()[:4] == ["topic", "partition", "from_offset", "to_offset"]
    assert rows[1].split()[:5] == ["orders", "0", "300", "100", "200"]
    assert "Not written: --file FILE writes this plan" in shown.stderr
    assert "would never read" not in shown.stderr
    forward = call("plan", "reset", "payments", "--back", "1s", "--tables", tables)
    assert "would never read" in forward.stderr


def test_a_plan_is_written_with_its_commands(planned: tuple[str, str], tmp_path: Path) -> None:
    tables, between = planned
    file = tmp_path / "my plan.csv"
    more = ("--to-state-at", between, "--tables", tables, "--file", str(file))
    shown = call("plan", "reset", "payments", *more)
    assert file.read_text() == "orders,0,100\norders,1,40\n"
    line = (
        "kafka-consumer-groups.sh --bootstrap-server HOST:PORT --reset-offsets --group payments "
        f"--from-file '{file}'"
    )
    assert shown.stdout.splitlines()[-2:] == [f"{line} --dry-run", f"{line} --execute"]
    # Another plan does not replace it.
    other = ("--to-earliest-kept", "--tables", tables, "--file", str(file))
    call("plan", "reset", "payments", *other, exit_code=2)
    call("plan", "reset", "payments", *other, "--force")
    assert file.read_text() == "orders,0,0\norders,1,40\norders,2,0\n"


def test_the_file_of_a_plan_is_planned_again(planned: tuple[str, str], tmp_path: Path) -> None:
    file = tmp_path / "plan.csv"
    more = ("--tables", planned[0], "--topic", "orders:0", "--output", "json")
    (shifted,) = json_lines(
        call("plan", "reset", "payments", "--shift-by", "-7", "--file", str(file), *more)
    )
    (again,) = json_lines(call("plan", "reset", "payments", "--from-file", str(file), *more))
    assert [row["to_offset"] for row in again["offsets"]] == [293]
    assert again["offsets"] == shifted["offsets"]
    for arguments, to_offset in ((["--to-offset", "0"], 0), (["--to-latest"], 310)):
        (plan,) = json_lines(call("plan", "reset", "payments", *arguments, *more))
        assert [row["to_offset"] for row in plan["offsets"]] == [to_offset]


def test_a_plan_without_offsets_writes_no_file(planned: tuple[str, str], tmp_path: Path) -> None:
    file = tmp_path / "plan.csv"
    more = ("--topic", "orders:3", "--tables", planned[0], "--file", str(file))
    shown = call("plan", "reset", "payments", "--back", "15m", *more, exit_code=2)
    assert "plan.csv is not written: no partition of payments can be planned" in shown.stderr
    assert not file.exists()


@pytest.mark.parametrize(
    ("arguments", "exit_code", "message"),
    [
        (["reset", "payments"], 2, "--to-latest, --to-offset, --shift-by and --from-file"),
        (["reset", "payments", "--back", "1m", "--to-time", "5m"], 2, "pass one of"),
        (["reset", "payments", "--to-offset", "0", "--shift-by", "0"], 2, "pass one of"),
        (["reset", "payments", "--to-latest", "--to-earliest-kept"], 2, "pass one of"),
        (["reset", "payments", "--from-file", "nowhere"], 2, "cannot read the plan file nowhere"),
        (["reset", "payments", "--to-time", "2126-01-01"], 2, "2126-01-01 is in the future"),
        (["reset", "paymets", "--back", "5m"], 1, "unknown group paymets; did you mean payments?"),
        (["reset", "payments", "--back", "5m", "--topic", "order"], 2, "did you mean orders?"),
        (["clone", "a", "a"], 2, "NEW and GROUP must be different groups"),
        (["clone", "nobody", "new"], 1, "unknown group nobody"),
        (["diff", "no-such-file"], 2, "cannot read the plan file no-such-file"),
    ],
)
def test_what_is_refused(
    planned: tuple[str, str], arguments: list[str], exit_code: int, message: str
) -> None:
    refused = call("plan", *arguments, "--tables", planned[0], exit_code=exit_code)
    assert message in refused.stderr


def test_a_plan_in_json_has_its_commands_and_file(planned: tuple[str, str]) -> None:
    tables, between = planned
    more = ("--at", between, "--tables", tables, "--output", "json")
    (plan,) = json_lines(call("plan", "clone", "payments", "new", *more))
    assert [row["to_offset"] for row in plan["offsets"]] == [100, 40]
    assert (plan["group_id"], plan["commands"], plan["file"]) == ("new", [], None)


def test_a_backup_and_its_difference(planned: tuple[str, str], tmp_path: Path) -> None:
    tables, between = planned
    file = str(tmp_path / "backup.csv")
    shown = call("plan", "backup", "--at", between, "--tables", tables, "--file", file)
    assert "backup.csv: 3 committed offsets of 2 groups as of " in shown.stdout
    assert "--group deleted --group payments --from-file" in shown.stdout
    different = call("plan", "diff", file, "--tables", tables, exit_code=1)
    assert different.stdout.startswith("different: 0 equal, 2 differs, 1 missing, 2 extra\n")
    now = str(tmp_path / "now.csv")
    call("plan", "backup", "--tables", tables, "--file", now)
    equal = call("plan", "diff", now, "--tables", tables)
    assert equal.stdout == "equal: 4 equal, 0 differs, 0 missing, 0 extra\n"


def test_an_empty_cluster_has_no_backup(tmp_path: Path) -> None:
    tables = create_tables(tmp_path / "tables")
    apply_micro_batch(tables, progress=[{}])
    more = ("--tables", tables, "--file", str(tmp_path / "backup.csv"))
    assert "nothing to back up" in call("plan", "backup", *more, exit_code=2).stderr


def test_a_cleanup(planned: tuple[str, str]) -> None:
    tables, _ = planned
    shown = call("plan", "cleanup", "--tables", tables)
    assert shown.stdout.splitlines()[1].split()[:3] == ["offsets", "payments", "old"]
    assert "kafka-consumer-groups.sh" not in shown.stdout
    dead = call("plan", "cleanup", "--unused-for", "1s", "--tables", tables)
    assert dead.stdout.splitlines()[-1] == (
        "kafka-consumer-groups.sh --bootstrap-server HOST:PORT --delete --group payments"
    )


@pytest.mark.parametrize("text", ["", "a b", "it's", "$(x)`y`", "\\", "a\\\x1b'1f\x85\u202e\n"])
def test_a_word_is_that_of_bash(text: str) -> None:
    word = shell_word(text)
    assert word.isprintable()
    said = subprocess.run(["/bin/bash", "-c", f"printf %s {word}"], capture_output=True, check=True)
    assert said.stdout.decode() == text


def test_many_groups_have_several_commands() -> None:
    commands = reset_commands([f"g{number}" for number in range(120)], "f")
    assert [execute.count("--group ") for _, execute in commands] == [50, 50, 20]
    assert all("--all-groups" not in line for pair in commands for line in pair)
