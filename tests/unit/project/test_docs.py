"""The pages in docs/ say what is so: the columns they explain are those of the code."""

from __future__ import annotations

import re
from contextlib import closing
from dataclasses import fields
from pathlib import Path
from pydoc import locate
from typing import Any

import pyarrow as pa
import pytest
from pydantic import BaseModel

from coordinator_state.insight.group_events import EventName
from coordinator_state.insight.group_status import Status, StatusRules
from streaming.alerts import sinks
from streaming.alerts.alert import Alert, AlertKey, AlertState, NoticeKind
from streaming.alerts.facts import Facts
from streaming.alerts.notices import Notice
from streaming.alerts.replay import findings_of
from streaming.alerts.rules import AlertRules, Inhibition, Rule, Silence
from streaming.alerts.rules_file import load_rules
from streaming.alerts.sql_rules import SqlRules
from streaming.lag.group_lag import GROUP_LAG
from streaming.tables.moments import MOMENT
from streaming.tables.reader import TableReader
from streaming.tables.schemas import ALERTS, GROUP_EVENTS, PROPERTY_FORMAT_VERSION
from streaming.views.questions import QUESTIONS
from tests.support.tables.status_tables import NOW, create_status_tables


def columns_of(page: str, name: str) -> list[str]:
    """The first column of the table below a heading `Columns of NAME`."""
    _, _, rest = page.partition(f"## Columns of `{name}`\n")
    section, _, _ = rest.partition("\n## ")
    rows = re.findall(r"^\| ([a-z_, ]+) \|", section, re.MULTILINE)
    return [name for row in rows[1:] for name in row.split(", ")]


@pytest.mark.parametrize(
    ("page", "name", "schema"),
    [
        ("lag.md", "group_lag", GROUP_LAG),
        ("events.md", "group_events", GROUP_EVENTS.schema),
        ("alerts.md", "alerts", ALERTS.schema),
    ],
)
def test_every_column_is_explained(
    repository: Path, page: str, name: str, schema: pa.Schema
) -> None:
    found = columns_of((repository / "docs" / page).read_text(), name)
    assert sorted(found) == sorted(schema.names)


def test_every_event_is_explained(repository: Path) -> None:
    page = (repository / "docs" / "events.md").read_text()
    found = re.findall(r"^\| `([a-z_]+)` \|", page, re.MULTILINE)
    assert sorted(found) == sorted(event.value for event in EventName)


def test_every_status_is_explained(repository: Path) -> None:
    page = (repository / "docs" / "status.md").read_text()
    found = re.findall(r"^\| `([A-Z_]+)` \|", page, re.MULTILINE)
    assert found == [status.value for status in Status if status is not Status.ERR]


def test_every_limit_of_a_status_is_explained(repository: Path) -> None:
    page = (repository / "docs" / "status.md").read_text()
    limits = page.split("\n## Limits\n")[1].split("\n## ")[0]
    names = " ".join(re.findall(r"^\| (`[^|]+) \|", limits, re.MULTILINE))
    explained = re.findall(r"`(\w+)`", names)
    assert sorted(explained) == sorted(one.name.removesuffix("_ms") for one in fields(StatusRules))


PACKAGES = (
    *("coordinator_state", "streaming", "pyspark_coordinator_state"),
    *("docsite", "tests", "bench"),
)
NAME = re.compile(rf"`((?:{'|'.join(PACKAGES)})(?:\.\w+)+)")
FILE = re.compile(rf"`((?:{'|'.join(PACKAGES)}|docs|deploy|requirements)/[\w./-]+\w)`")


def test_what_texts_name_is_there(repository: Path) -> None:
    """Modules, what is in them, and files, in pages, docstrings and comments."""
    pages = [
        *repository.glob("*.md"),
        *repository.glob("docs/*.md"),
        *repository.glob("tests/*.md"),
    ]
    sources = [file for package in PACKAGES for file in (repository / package).rglob("*.py")]
    named: dict[str, Path] = {}
    files: dict[str, Path] = {}
    for text in (*pages, *sources):
        content = text.read_text()
        named |= dict.fromkeys(NAME.findall(content), text)
        files |= dict.fromkeys(FILE.findall(content), text)
    assert len(named) > 30
    assert len(files) > 10
    missing = {name: text for name, text in files.items() if not (repository / name).exists()}
    # Names in Delta logs.
    for name in (PROPERTY_FORMAT_VERSION, MOMENT):
        named.pop(name)
    missing |= {name: text for name, text in named.items() if locate(name) is None}
    assert missing == {}


def keys_of(*models: type[BaseModel]) -> set[str]:
    """How the fields of models are written in YAML."""
    return {field.alias or name for model in models for name, field in model.model_fields.items()}


def first_column(page: str, heading: str) -> set[str]:
    """The names in code in the first column of the first table behind a line."""
    _, _, rest = page.partition(f"{heading}\n")
    table = rest[rest.index("|") :].split("\n\n")[0]
    return {
        name for row in table.splitlines() for name in re.findall(r"`(\w+)`", row.split("|")[1])
    }


def test_every_key_of_alert_rules_is_explained(repository: Path) -> None:
    page = (repository / "docs" / "alerts.md").read_text()
    assert first_column(page, "## A rule") == keys_of(Rule)
    for key in keys_of(AlertRules, Silence, Inhibition):
        assert re.search(rf"\b{key}\b", page), key
    kinds = [kind for kind in vars(sinks).values() if hasattr(kind, "model_fields")]
    described = {
        kind.model_fields["type"].annotation.__args__[0]: kind
        for kind in kinds
        if "type" in kind.model_fields
    }
    assert first_column(page, "## Sinks") == described.keys()
    for name, kind in described.items():
        (row,) = re.findall(rf"^\| `{name}` \|.*$", page, re.MULTILINE)
        for key in keys_of(kind) - {"type"}:
            assert f"`{key}`" in row


def test_every_field_of_a_notice_is_explained(repository: Path) -> None:
    alert = Alert(key=AlertKey("r"), severity="info", state=AlertState.FIRING, since=NOW)
    a_notice = Notice(alert=alert, cluster_id="c", note="", kind=NoticeKind.NEW)
    page = (repository / "docs" / "alerts.md").read_text()
    assert first_column(page, "of `stdout` in JSON:") == a_notice.fields().keys()


def test_the_example_of_alert_rules_is_one(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAGERDUTY_ROUTING_KEY", "k")
    page = (repository / "docs" / "alerts.md").read_text()
    example = page.partition("```yaml\n")[2].partition("```")[0]
    (tmp_path / "slack_url").write_text("https://hooks.slack.com/x")
    file = tmp_path / "alerts.yaml"
    file.write_text(example.replace("/run/secrets", str(tmp_path)))
    rules = load_rules(file)
    facts = Facts(TableReader(create_status_tables(tmp_path / "tables")), NOW, rules.status_rules)
    with closing(SqlRules(facts.snapshot.reader.tables)) as sql:
        found = {rule.name: findings_of(rule, facts, sql) for rule in rules.rules}
    assert [finding.key.group_id for finding in found["stopped"]] == ["old"]
    assert [finding.key.group_id for finding in found["somebody-set-offsets-back"]] == ["back"]


def test_every_question_is_answered_as_the_page_answers_it(repository: Path) -> None:
    page = (repository / "docs" / "sql.md").read_text()
    found = re.findall(r"^### (.*?)\n\n```sql\n(.*?)\n```$", page, re.MULTILINE | re.DOTALL)
    assert found == [(question.text, question.sql) for question in QUESTIONS]


def test_every_page_is_explained(repository: Path) -> None:
    page = (repository / "docs" / "dashboard.md").read_text()
    base = (repository / "streaming" / "dashboard" / "templates" / "base.html").read_text()
    (menu,) = re.findall(r"for endpoint, label in \((.*)\) %}", base)
    labels = re.findall(r'\("\w+", "([^"]+)"\)', menu)
    explained = re.findall(r"^\| ([A-Z]\w+) \|", page, re.MULTILINE)
    assert set(labels) <= set(explained)


def test_the_example_of_python_runs(repository: Path, tmp_path: Path) -> None:
    page = (repository / "docs" / "sql.md").read_text()
    example, _ = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    folder = create_status_tables(tmp_path / "tables")
    example = example.replace('"tables"', repr(folder)).replace('"2026-11-21T03:14:00Z"', "1")
    example = example.replace('lag("payments")', 'lag("back")')
    exec(example, {})  # noqa: S102 - of our own page


def test_the_example_of_versions_that_fit_together_runs(repository: Path, tmp_path: Path) -> None:
    page = (repository / "docs" / "sql.md").read_text()
    _, example = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    folder = create_status_tables(tmp_path / "tables")
    found: dict[str, Any] = {}
    exec(example.replace('"tables/', f'"{folder}/'), found)  # noqa: S102 - of our own page
    reader = TableReader(folder)
    assert found["versions"] == reader.table_versions
    assert found["offsets"].num_rows == reader.read("group_offsets").num_rows > 0
