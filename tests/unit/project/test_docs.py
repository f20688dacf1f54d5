"""What pages list and name is what the code has."""

from __future__ import annotations

import ast
import html
import re
from collections.abc import Iterable, Iterator
from dataclasses import fields
from pathlib import Path
from pydoc import locate
from typing import Any, Final

import pytest
from pydantic import BaseModel
from ruamel.yaml import YAML

import coordinator_state
from coordinator_state import CoordinatorTables
from coordinator_state.insight.group_events import EventName
from coordinator_state.insight.group_status import Status, StatusRules
from streaming.alerts import sinks
from streaming.alerts.alert import Alert, AlertKey, AlertState, Notice, NoticeKind
from streaming.alerts.rules import AlertRules, Inhibition, Rule, Silence
from streaming.local.demo.groups import DEMO_GROUPS
from streaming.tables.moments import MOMENT
from streaming.tables.schemas import GROUP_EVENTS, PROPERTY_FORMAT_VERSION, PROPERTY_NOT_EVALUATED
from streaming.views.questions import QUESTIONS
from tests.support.tables.status_tables import NOW

REPOSITORY: Final = Path(__file__).parents[3]
PACKAGES = (
    *("coordinator_state", "streaming", "pyspark_coordinator_state"),
    *("docsite", "tests", "bench"),
)
NAME = re.compile(rf"`((?:{'|'.join(PACKAGES)})(?:\.\w+)+)")
FILE = re.compile(rf"`((?:{'|'.join(PACKAGES)}|docs|deploy|requirements)/[\w./-]+\w)/?`")
VALUE: Final = "\0"
"""Stands for each value in a message: `<value>` on the page, an f-string or `%(name)s` in code."""


def page(name: str) -> str:
    return (REPOSITORY / "docs" / name).read_text()


def first_column(name: str, heading: str, pattern: str = r"`([\w-]+)`") -> list[str]:
    """The names in the first column of the first table behind a line of a page."""
    _, _, rest = page(name).partition(f"{heading}\n")
    table = rest[rest.index("\n|") :].strip().partition("\n\n")[0]
    return [
        word for row in table.splitlines()[2:] for word in re.findall(pattern, row.split("|")[1])
    ]


# --- lists ---------------------------------------------------------------------------------------


def loaded(*names: str) -> Any:
    return YAML(typ="safe", pure=True).load(REPOSITORY.joinpath(*names))


def keys_of(*models: type[BaseModel]) -> set[str]:
    """How the fields of models are written in YAML."""
    return {field.alias or name for model in models for name, field in model.model_fields.items()}


SINKS = {
    kind.model_fields["type"].annotation.__args__[0]: kind
    for kind in vars(sinks).values()
    if "type" in getattr(kind, "model_fields", ())
}


def notice_fields() -> Iterable[str]:
    alert = Alert(key=AlertKey("r"), severity="info", state=AlertState.FIRING, since=NOW)
    notice = Notice(alert=alert, cluster_id="c", note="", kind=NoticeKind.NEW)
    return notice.fields()


def public_methods() -> set[str]:
    snapshot_attributes = {"snapshot", "version", "moment", "cluster_id", "as_of", "refreshed"}
    return {name for name in vars(CoordinatorTables) if name[0] != "_"} - snapshot_attributes


LIMITS = [limit.name.removesuffix("_ms") for limit in fields(StatusRules)]
STATUSES = sorted(status.value for status in {*Status} - {Status.ERR})


@pytest.mark.parametrize(
    ("name", "heading", "expected"),
    [
        ("status.md", "\n## Limits", LIMITS),
        ("alerts.md", "## A rule", keys_of(Rule)),
        ("alerts.md", "## Sinks", SINKS),
        ("alerts.md", "of `stdout` in JSON:", notice_fields()),
        ("demo.md", "## The groups", [group.group_id for group in DEMO_GROUPS]),
        ("compose.md", "## The services", loaded("docker-compose.yml")["services"]),
        ("compose.md", "## The state", loaded("docker-compose.yml")["volumes"]),
        ("python.md", "# Python", coordinator_state.__all__),
        ("python.md", "## Rows", public_methods()),
    ],
    ids=[
        *("limits of a status", "keys of a rule", "sinks", "fields of a notice"),
        *("groups of the demo", "services", "volumes", "public names", "methods"),
    ],
)
def test_a_page_lists_what_the_code_has(name: str, heading: str, expected: Iterable[str]) -> None:
    assert sorted(first_column(name, heading)) == sorted(expected)


def test_events_and_statuses_are_those_of_the_code() -> None:
    columns = first_column("events.md", "## Columns of `group_events`", r"\w+")
    assert sorted(columns) == sorted(GROUP_EVENTS.schema.names)
    events = re.findall(r"^\| `([a-z_]+)` \|", page("events.md"), re.M)
    assert sorted(events) == sorted(name.value for name in EventName)
    assert sorted(re.findall(r"^\| `([A-Z_]+)` \|", page("status.md"), re.M)) == STATUSES
    assert sorted(first_column("runbook.md", "## Find the entry")) == STATUSES


def test_every_key_of_alert_rules_and_sinks_is_explained() -> None:
    text = page("alerts.md")
    for key in keys_of(AlertRules, Silence, Inhibition):
        assert re.search(rf"\b{key}\b", text), key
    for name, kind in SINKS.items():
        (row,) = re.findall(rf"^\| `{name}` \|.*$", text, re.MULTILINE)
        assert [key for key in keys_of(kind) - {"type"} if f"`{key}`" not in row] == []


def test_every_dependency_has_its_reason() -> None:
    text = (REPOSITORY / "pyproject.toml").read_text()
    declared = re.findall(r'^  "([a-z][a-z0-9-]*)[<>=]', text, re.MULTILINE)
    assert [name for name in declared if f"`{name}`" not in page("dependencies.md")] == []


def test_every_question_is_answered_as_the_page_answers_it() -> None:
    answers = re.findall(r"^### (.*?)\n\n```sql\n(.*?)\n```$", page("sql.md"), re.M | re.S)
    assert answers == [(question.text, question.sql) for question in QUESTIONS]


@pytest.mark.parametrize("file", ["prometheus-rules.yaml", "helm/prometheus-rules.yaml"])
def test_every_alert_leads_to_an_entry_of_the_runbook(file: str) -> None:
    entries = re.findall(r"^### (.*)$", page("runbook.md"), re.MULTILINE)
    groups = loaded("deploy", file)["groups"]
    alerts = {rule["alert"] for group in groups for rule in group["rules"]}
    assert len(alerts) > 15
    assert alerts <= set(entries)
    assert {name for name in entries if name.startswith(("Kafka", "Coordinator"))} <= alerts


def test_figures_of_the_readme_are_those_of_the_page_on_speed() -> None:
    readme = (REPOSITORY / "README.md").read_text()
    figures = re.findall(r"([\d.]+) s\b", readme.split("## How fast")[1].split("\n## ")[0])
    assert len(figures) == 5
    speed = page("speed.md")
    # The README rounds the seconds of a whole load to a tenth.
    rounded = {f"{float(figure):.1f}" for figure in re.findall(r"\b\d+\.\d+\b", speed)}
    assert [f for f in figures if f"{f} s" not in speed and f not in rounded] == []


# --- names ---------------------------------------------------------------------------------------


def test_what_texts_name_is_there() -> None:
    """The modules, attributes, files, tests and targets that pages and docstrings name exist."""
    pages = [
        file for folder in (".", "docs", "tests") for file in REPOSITORY.glob(f"{folder}/*.md")
    ]
    sources = [file for package in PACKAGES for file in (REPOSITORY / package).rglob("*.py")]
    named: dict[str, Path] = {}
    files: dict[str, Path] = {}
    for text in (*pages, *sources):
        content = text.read_text()
        named |= dict.fromkeys(NAME.findall(content), text)
        files |= dict.fromkeys(FILE.findall(content), text)
    assert len(named) > 30
    assert len(files) > 10
    missing = {name: text for name, text in files.items() if not (REPOSITORY / name).exists()}
    # Names in Delta logs.
    for name in (PROPERTY_FORMAT_VERSION, PROPERTY_NOT_EVALUATED, MOMENT):
        named.pop(name)
    missing |= {name: text for name, text in named.items() if locate(name) is None}
    assert missing == {}
    targets = set(re.findall(r"^([a-z-]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE))
    texts = "\n".join(file.read_text() for file in pages)
    assert set(re.findall(r"(?:`|\$ )make ([a-z-]+)", texts)) <= targets


def test_tests_that_contributors_are_told_of_exist() -> None:
    contributing = (REPOSITORY / "CONTRIBUTING.md").read_text()
    files = list((REPOSITORY / "tests").rglob("test_*.py"))
    named = re.findall(r"`(test_\w+)(\.py)?(?:\[.*?\])?`", contributing)
    assert len(named) >= 8
    names, tests = {file.name for file in files}, "\n".join(file.read_text() for file in files)
    for name, is_file in named:
        assert f"{name}.py" in names if is_file else f"def {name}(" in tests, name


# --- messages ------------------------------------------------------------------------------------


def test_every_message_of_troubleshooting_is_in_the_source() -> None:
    package = REPOSITORY / "streaming"
    in_code = {template_of(text) for file in package.rglob("*.py") for text in texts_of(file)}
    in_pages = " ".join(
        html.unescape(file.read_text())
        for pattern in ("*.html", "*.js")
        for file in package.rglob(pattern)
    )
    explained = list(explained_messages(page("troubleshooting.md")))
    assert len(explained) > 300
    unknown = [m for m in explained if template_of(m) not in in_code and m not in in_pages]
    assert unknown == []
    assert len(explained) == len(set(explained))


def explained_messages(text: str) -> Iterator[str]:
    """The first cells of the tables of messages."""
    for table in text.split("\n\n"):
        if table.startswith("| message |"):
            for row in table.splitlines()[2:]:
                cell = row.split(" | ")[0].removeprefix("| ").strip()
                message = re.fullmatch(r"(`+)(.+?)\1", cell)
                assert message, row
                yield message[2].strip().replace("``", "`")


def template_of(text: str) -> str:
    """Return a text with `VALUE` for its values, and without punctuation at its ends."""
    text = re.sub(r"<[^<>]*>|%\(\w+\)[\d.,]*[a-z]", VALUE, text)
    text = re.sub(rf"{VALUE}+", VALUE, " ".join(text.split()))
    return text.strip(f"{VALUE} :;,.")


def texts_of(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, (ast.Constant, ast.JoinedStr, ast.BinOp)):
            yield from possible_texts(node)


def possible_texts(node: ast.expr) -> list[str]:
    """The texts that an expression can have, with `<>` for each value in them."""
    match node:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.JoinedStr(values=parts):
            return ["".join(str(p.value) if isinstance(p, ast.Constant) else "<>" for p in parts)]
        case ast.IfExp(body=body, orelse=orelse):
            return [*possible_texts(body), *possible_texts(orelse)]
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return [a + b for a in possible_texts(left) for b in possible_texts(right)]
    return ["<>"]
