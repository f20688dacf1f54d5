"""The README says what is so: its commands run, its tables and names are those of the code."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from coordinator_state.records.record_types import RECORD_TYPES
from streaming.cli.main import cli
from streaming.local.demo.groups import DEMO_GROUPS
from streaming.tables.schemas import ALERTS, ALL_TABLES


@pytest.fixture(scope="module")
def readme(repository: Path) -> str:
    return (repository / "README.md").read_text()


def _examples(readme: str) -> list[tuple[str, str]]:
    """Every `$ coordinator-state ...` with the output that follows it."""
    found = []
    for block in re.findall(r"```console\n(.*?)```", readme, re.DOTALL):
        for part in block.replace("\\\n", "").split("$ ")[1:]:
            command, _, output = part.partition("\n")
            found.append((command, output))
    return found


def test_commands_exist_with_their_options(readme: str) -> None:
    commands = [c for c, _ in _examples(readme) if "coordinator-state " in c]
    assert len(commands) >= 5
    for command in commands:
        words = shlex.split(command)
        subcommand = cli.get_command(click.Context(cli), words[1])
        assert subcommand is not None, command
        known = {name for parameter in subcommand.params for name in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= known, command


def test_examples_without_a_cluster_print_what_they_say(readme: str) -> None:
    pure = [
        (command, output)
        for command, output in _examples(readme)
        if command.startswith(("coordinator-state partition-for", "coordinator-state decode"))
    ]
    assert len(pure) == 2
    for command, output in pure:
        result = CliRunner().invoke(cli, shlex.split(command)[1:])
        assert result.exit_code == 0, result.output
        assert result.stdout == output


def test_the_demo_shows_every_group_and_equality(readme: str) -> None:
    ((_, output),) = [found for found in _examples(readme) if found[0].startswith("make demo")]
    shown = {group.group_id: group.traffic for group in DEMO_GROUPS}
    rows = re.findall(r"^([a-z-]+)  +(\S.*?)  .*  true$", output, re.MULTILINE)
    assert dict(rows) == shown
    assert "verify: equal: " in output


def test_make_targets_exist(readme: str, repository: Path) -> None:
    makefile = (repository / "Makefile").read_text()
    for target in set(re.findall(r"`make ([a-z-]+)`", readme)):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_every_table_and_column_is_listed(readme: str) -> None:
    for table in (*ALL_TABLES, ALERTS):
        (line,) = re.findall(rf"^\| `{table.name}` \| (.*) \|$", readme, re.MULTILINE)
        listed = re.findall(r"(\*\*)?([a-z_]+)(\?)?", line)
        assert {(bool(bold), name, bool(null)) for bold, name, null in listed} == {
            (column.name in table.key, column.name, column.nullable) for column in table.schema
        }


def test_every_file_of_the_map_exists(readme: str, repository: Path) -> None:
    section = readme.split("## Map of the code")[1].split("\n## ")[0]
    for line in re.findall(r"^\| (`.*?) \|", section, re.MULTILINE):
        folder = repository
        for name in re.findall(r"`([^`]+)`", line):
            # A bare name is beside the one before it.
            path = (repository / name) if (repository / name).exists() else folder / name
            assert path.exists(), name
            folder = path.parent


def test_every_dependency_has_its_reason(readme: str, repository: Path) -> None:
    declared = re.findall(
        r'^  "([a-z][a-z0-9-]*)[<>=]', (repository / "pyproject.toml").read_text(), re.M
    )
    section = readme.split("## Dependencies, and why")[1]
    assert [name for name in declared if f"`{name}`" not in section] == []


def test_the_rate_of_group_records_is_the_one_that_was_measured(
    readme: str, repository: Path
) -> None:
    text = r"Records\s+of\s+groups\s+are\s+slow:\s+([\d,]+)\s+a\s+second\s+of\s+classic\s+groups"
    (told,) = re.findall(text, readme)
    page = (repository / "docs" / "speed.md").read_text()
    _, _, of_groups = page.partition("Records of groups (`python -m bench.group_records`")
    (measured,) = re.findall(r"^run, second of a session +\d+ +[\d.]+ +(\d+)", of_groups, re.M)[:1]
    assert told == f"{int(measured):,}"


def test_record_types_are_all_covered(readme: str) -> None:
    section = readme.split("## Record types and Kafka versions")[1].split("\n## ")[0]
    covered: set[int] = set()
    for cell in re.findall(r"^\| ([\d, -]+) \(", section, re.MULTILINE):
        for part in cell.split(","):
            first, _, last = part.strip().partition("-")
            covered.update(range(int(first), int(last or first) + 1))
    assert covered == set(RECORD_TYPES)


def test_the_documented_record_types_are_those_of_the_table(repository: Path) -> None:
    text = (repository / "docs" / "replay.md").read_text()
    rows = re.findall(r"^\| (\d+) \| (\w+) \| (\d)(?:-(\d))? \|", text, re.MULTILINE)
    documented = {int(n): (name, (int(low), int(high or low))) for n, name, low, high in rows}
    assert documented == {
        number: (kind.name, kind.value.versions) for number, kind in RECORD_TYPES.items()
    }
