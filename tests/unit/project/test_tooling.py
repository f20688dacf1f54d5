"""The tools of contributors: make, pre-commit, the forge, the dev container."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from streaming.cli.servers import DASHBOARD_PORT, METRICS_PORT
from tests.support.deploy.schemas import schema_errors


@pytest.fixture(scope="module")
def makefile(repository: Path) -> str:
    return (repository / "Makefile").read_text()


def loaded(file: Path) -> Any:
    return YAML(typ="safe", pure=True).load(file)


def test_pre_commit_runs_the_commands_of_make_lint(repository: Path, makefile: str) -> None:
    (recipe,) = re.findall(r"^lint:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
    commands = [line.strip().replace("$(BIN)", ".venv/bin") for line in recipe.splitlines()]
    (repo,) = loaded(repository / ".pre-commit-config.yaml")["repos"]
    assert repo["repo"] == "local"
    assert [hook["entry"] for hook in repo["hooks"]] == commands
    for hook in repo["hooks"]:
        assert (hook["language"], hook["pass_filenames"]) == ("system", False)


def test_a_variable_has_the_name_of_its_contents(repository: Path) -> None:
    says_nothing = r"(?:found|one|told|things?)"
    # Text may look alike, so that files with a match are parsed.
    bound = re.compile(rf"\b{says_nothing}(?= ?(?:=|,|\)|:| in\b))")
    folders = ("coordinator_state", "streaming", "bench", "docsite", "tests")
    files = [file for folder in folders for file in (repository / folder).rglob("*.py")]
    assert len(files) > 900
    names = [
        f"{file.relative_to(repository)}:{node.lineno}: {node.id}"
        for file in files
        if bound.search(text := file.read_text())
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Name) and re.fullmatch(says_nothing, node.id)
    ]
    assert names == []


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
