"""The tools of contributors: make, pre-commit, the forge, the dev container, other Pythons."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from streaming.cli.servers import DASHBOARD_PORT, METRICS_PORT
from tests.every_python import __main__ as every_python
from tests.every_python.__main__ import find_python
from tests.support.deploy.schemas import schema_errors

MINOR = sys.version_info.minor
# As a shim of pyenv's does where its version is not selected.
SHIM = "#!/bin/sh\necho 'pyenv: command not found' >&2\nexit 127\n"
THIS_PYTHON = f'#!/bin/sh\nexec "{os.path.realpath(sys.executable)}" "$@"\n'


@pytest.fixture(scope="module")
def makefile(repository: Path) -> str:
    return (repository / "Makefile").read_text()


def loaded(file: Path) -> Any:
    return YAML(typ="safe", pure=True).load(file)


def test_help_has_every_target_below_a_heading(repository: Path, makefile: str) -> None:
    command = ("make", "--no-print-directory", "help")
    help_text = subprocess.run(
        command, cwd=repository, capture_output=True, text=True, check=True
    ).stdout
    headings = re.findall(r"^##@ (.+)$", makefile, re.MULTILINE)
    assert re.findall(r"^(\S.*)$", help_text, re.MULTILINE) == headings != []
    shown = re.findall(r"^  make ([a-z-]+) +(\S.*)$", help_text, re.MULTILINE)
    assert shown == re.findall(r"^([a-z-]+):.*?## (.*)$", makefile, re.MULTILINE) != []


def test_pre_commit_runs_the_commands_of_make_lint(repository: Path, makefile: str) -> None:
    (recipe,) = re.findall(r"^lint:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
    commands = [line.strip().replace("$(BIN)", ".venv/bin") for line in recipe.splitlines()]
    (repo,) = loaded(repository / ".pre-commit-config.yaml")["repos"]
    assert repo["repo"] == "local"
    assert [hook["entry"] for hook in repo["hooks"]] == commands
    for hook in repo["hooks"]:
        assert (hook["language"], hook["pass_filenames"]) == ("system", False)


def test_a_variable_has_the_name_of_its_contents(repository: Path) -> None:
    folders = ("coordinator_state", "streaming", "bench", "docsite", "tests")
    files = [file for folder in folders for file in (repository / folder).rglob("*.py")]
    assert len(files) > 900
    says_nothing = [
        f"{file.relative_to(repository)}:{node.lineno}: {node.id}"
        for file in files
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Name) and node.id in ("found", "one", "told", "thing", "things")
    ]
    assert says_nothing == []


@pytest.mark.parametrize("name", ["bug_report", "feature_request", "config"])
def test_issue_templates_fit_their_schema(repository: Path, name: str) -> None:
    schema = "github-issue-config" if name == "config" else "github-issue-forms"
    template = loaded(repository / ".github" / "ISSUE_TEMPLATE" / f"{name}.yml")
    assert schema_errors(schema, template) == []


def test_the_dev_container_is_set_up_by_make(repository: Path) -> None:
    container = json.loads((repository / ".devcontainer" / "devcontainer.json").read_text())
    assert container["postCreateCommand"] == "make venv"
    assert container["forwardPorts"] == [DASHBOARD_PORT, METRICS_PORT]
    dockerfile = (repository / "Dockerfile").read_text()
    (python,) = re.findall(r"^FROM python:(\d+\.\d+)", dockerfile, re.MULTILINE)
    (java,) = re.findall(r"openjdk-(\d+)-", dockerfile)
    assert re.search(rf":{re.escape(python)}(?:-|$)", container["image"])
    assert [feature["version"] for feature in container["features"].values()] == [java]


# --- python -m tests.every_python ----------------------------------------------------------------


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_an_interpreter_that_starts_is_taken_from_the_path_or_pyenv(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    assert find_python(MINOR) is None
    program(tmp_path / "bin" / f"python3.{MINOR}", SHIM)
    assert find_python(MINOR) is None
    versions = tmp_path / "pyenv" / "versions"
    pyenv_python = program(versions / f"3.{MINOR}.1" / "bin" / "python", THIS_PYTHON)
    assert find_python(MINOR) == pyenv_python
    on_path = program(tmp_path / "bin" / f"python3.{MINOR}", THIS_PYTHON)
    assert find_python(MINOR) == on_path
    # Another version of that name.
    program(tmp_path / "bin" / f"python3.{MINOR + 1}", THIS_PYTHON)
    assert find_python(MINOR + 1) is None


def test_no_python_begins_when_no_time_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(every_python, "MINORS", range(MINOR + 1, MINOR + 2))
    monkeypatch.setattr(every_python, "find_python", lambda _minor: tmp_path / "python")
    monkeypatch.setattr(every_python, "_LONG_TESTS_UNTIL", time.time() + 60)
    assert every_python.main([]) == 0
    assert f"3.{MINOR + 1}: left out, no time is left (LONG_TESTS_UNTIL)" in capsys.readouterr().out


@pytest.mark.parametrize(("arguments", "minors"), [([], [1, 3]), (["--all"], [1, 2, 3])])
def test_a_python_between_the_oldest_and_the_newest_is_for_all(
    arguments: list[str], minors: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[int] = []

    def run_tests(python: Path, _arguments: list[str]) -> int:
        runs.append(int(python.name))
        return 0

    monkeypatch.setattr(every_python, "MINORS", range(1, 4))
    monkeypatch.setattr(every_python, "find_python", lambda minor: Path(str(minor)))
    monkeypatch.setattr(every_python, "environment_of", lambda python, _minor: python)
    monkeypatch.setattr(every_python, "run_tests", run_tests)
    assert every_python.main(arguments) == 0
    assert runs == minors
