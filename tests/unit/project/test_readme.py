"""The README says what is so: its commands run, its tables and names are those of the code."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from coordinator_state.records.record_types import RECORD_TYPES
from streaming.local.demo.groups import DEMO_GROUPS
from streaming.views.coordinator_tables import CoordinatorTables
from tests.support.tables.status_tables import create_status_tables


@pytest.fixture(scope="module")
def readme(repository: Path) -> str:
    return (repository / "README.md").read_text()


def _examples(readme: str) -> list[tuple[str, str]]:
    """Every `$ coordinator-state ...` with the output that follows it."""
    found = []
    for block in re.findall(r"```console\n(.*?)```", readme, re.DOTALL):
        for part in re.split(r"^\$ ", block.replace("\\\n", ""), flags=re.MULTILINE)[1:]:
            command, output = _command_and_output(part)
            found.append((command, output))
    return found


def _command_and_output(part: str) -> tuple[str, str]:
    """A command ends with its line, or with the line on which its quotes are closed."""
    lines = part.split("\n")
    end = next(n for n in range(1, len(lines) + 1) if "\n".join(lines[:n]).count('"') % 2 == 0)
    return "\n".join(lines[:end]), "\n".join(lines[end:])


def test_every_question_is_answered_with_its_columns(readme: str, tmp_path: Path) -> None:
    folder = create_status_tables(tmp_path / "tables")
    questions = [
        (shlex.split(command), output)
        for command, output in _examples(readme)
        if command.startswith("coordinator-state sql")
    ]
    assert len(questions) == 5
    for words, output in questions:
        found = CoordinatorTables(folder).sql(words[-1]).arrow
        assert found.column_names == output.split("\n", 1)[0].split(), words


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


def test_every_file_of_the_map_exists(repository: Path) -> None:
    page = (repository / "ARCHITECTURE.md").read_text()
    for line in re.findall(r"^\| (`.*?) \|", page, re.MULTILINE):
        folder = repository
        for name in re.findall(r"`([^`]+)`", line):
            # A bare name is beside the one before it.
            path = (repository / name) if (repository / name).exists() else folder / name
            assert path.exists(), name
            folder = path.parent


def test_every_dependency_has_its_reason(repository: Path) -> None:
    declared = re.findall(
        r'^  "([a-z][a-z0-9-]*)[<>=]', (repository / "pyproject.toml").read_text(), re.M
    )
    page = (repository / "docs" / "dependencies.md").read_text()
    assert [name for name in declared if f"`{name}`" not in page] == []


def test_the_documented_record_types_are_those_of_the_table(repository: Path) -> None:
    text = (repository / "docs" / "replay.md").read_text()
    rows = re.findall(r"^\| (\d+) \| (\w+) \| (\d)(?:-(\d))? \|", text, re.MULTILINE)
    documented = {int(n): (name, (int(low), int(high or low))) for n, name, low, high in rows}
    assert documented == {
        number: (kind.name, kind.value.versions) for number, kind in RECORD_TYPES.items()
    }


def test_figures_are_those_of_the_page_on_speed(readme: str, repository: Path) -> None:
    page = (repository / "docs" / "speed.md").read_text()
    section = readme.split("## How fast")[1].split("\n## ")[0]
    figures = re.findall(r"([\d.]+) s\b", section)
    assert len(figures) == 5
    # The README rounds the seconds of a whole load to a tenth.
    rounded = {f"{float(figure):.1f}" for figure in re.findall(r"\b\d+\.\d+\b", page)}
    for figure in figures:
        assert f"{figure} s" in page or figure in rounded
