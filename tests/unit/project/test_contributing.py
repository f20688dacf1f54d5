"""CONTRIBUTING.md and the files of the forge name what exists; pre-commit runs `make lint`."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from streaming.cli.dashboard import DEFAULT_PORT as DASHBOARD_PORT
from streaming.cli.metrics import DEFAULT_PORT as METRICS_PORT

FOLDERS = (
    *("coordinator_state", "streaming", "docsite", "tests", "bench", "deploy", "docs"),
    ".devcontainer",
)
DECLARED = re.compile(r"^([a-z-]+):.*?## (.*)$", re.MULTILINE)


@pytest.fixture(scope="module")
def contributing(repository: Path) -> str:
    return (repository / "CONTRIBUTING.md").read_text()


@pytest.fixture(scope="module")
def makefile(repository: Path) -> str:
    return (repository / "Makefile").read_text()


def loaded(file: Path) -> Any:
    return YAML(typ="safe", pure=True).load(file)


def test_files_that_it_names_exist(repository: Path, contributing: str) -> None:
    named = set(
        re.findall(rf"(?<![\w/.])(?:{'|'.join(map(re.escape, FOLDERS))})/[\w./-]*", contributing)
    )
    assert len(named) >= 20
    assert [name for name in sorted(named) if not (repository / name).exists()] == []
    bare = set(re.findall(r"`(test_\w+\.py)`", contributing))
    assert [name for name in bare if not list((repository / "tests").rglob(name))] == []


def test_tests_that_it_names_exist(repository: Path, contributing: str) -> None:
    named = set(re.findall(r"`(test_\w+)(?:\[.*?\])?`", contributing))
    assert len(named) >= 4
    tests = "\n".join(file.read_text() for file in (repository / "tests").rglob("test_*.py"))
    assert [name for name in named if f"def {name}(" not in tests] == []


def test_make_targets_that_it_names_exist(contributing: str, makefile: str) -> None:
    named = set(re.findall(r"\bmake ([a-z-]+)", contributing))
    assert {"venv", "lint", "test", "test-long", "reference", "help"} <= named
    assert named <= {target for target, _ in DECLARED.findall(makefile)}


def test_help_has_every_target_below_a_heading(repository: Path, makefile: str) -> None:
    answer = subprocess.run(
        ["make", "--no-print-directory", "help"],  # noqa: S607 - the make on the PATH
        cwd=repository,
        capture_output=True,
        text=True,
        check=True,
    )
    headings = re.findall(r"^##@ (.+)$", makefile, re.MULTILINE)
    assert {"Use", "Develop", "Test"} <= set(headings)
    assert re.findall(r"^(\S.*)$", answer.stdout, re.MULTILINE) == headings
    shown = re.findall(r"^  make ([a-z-]+) +(\S.*)$", answer.stdout, re.MULTILINE)
    assert shown == DECLARED.findall(makefile)
    first, _, _ = answer.stdout.strip().partition("\n")
    assert first == headings[0]


def test_pre_commit_runs_the_commands_of_make_lint(repository: Path, makefile: str) -> None:
    (recipe,) = re.findall(r"^lint:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
    commands = [line.strip().replace("$(BIN)", ".venv/bin") for line in recipe.splitlines()]
    (repo,) = loaded(repository / ".pre-commit-config.yaml")["repos"]
    assert repo["repo"] == "local"
    assert [hook["entry"] for hook in repo["hooks"]] == commands
    for hook in repo["hooks"]:
        assert (hook["language"], hook["pass_filenames"]) == ("system", False)


@pytest.mark.parametrize(
    ("name", "schema"),
    [
        ("bug_report", "vendor.github-issue-forms"),
        ("feature_request", "vendor.github-issue-forms"),
        ("config", "vendor.github-issue-config"),
    ],
)
def test_issue_templates_fit_their_schema(repository: Path, name: str, schema: str) -> None:
    file = repository / ".github" / "ISSUE_TEMPLATE" / f"{name}.yml"
    assert loaded(file)
    answer = subprocess.run(
        [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, file],
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stdout


def test_the_dev_container_is_set_up_by_make(repository: Path) -> None:
    found = json.loads((repository / ".devcontainer" / "devcontainer.json").read_text())
    assert found["postCreateCommand"] == "make venv"
    assert found["forwardPorts"] == [DASHBOARD_PORT, METRICS_PORT]
    dockerfile = (repository / "Dockerfile").read_text()
    (python,) = re.findall(r"^FROM python:(\d+\.\d+)", dockerfile, re.MULTILINE)
    (java,) = re.findall(r"openjdk-(\d+)-", dockerfile)
    assert f"python:{python}-" in found["image"] or found["image"].endswith(f":{python}")
    assert [one["version"] for one in found["features"].values()] == [java]
