"""The resources: every table and view, and pages whose words are those of docs/."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from coordinator_state.insight.evidence import Cause
from coordinator_state.insight.group_events import EventName
from coordinator_state.insight.group_status import Status
from streaming.agents.meanings import CAUSES, EVENTS, STATUSES
from streaming.tables.descriptions import column_description, table_description
from streaming.views.definitions import SCHEMAS
from streaming.views.questions import QUESTIONS
from tests.support.clients.agent import Agent


def test_every_table_and_view_has_its_columns(agent: Agent) -> None:
    assert {f"schema://{name}" for name in SCHEMAS} <= set(agent.resources())
    for name, schema in SCHEMAS.items():
        found = json.loads(agent.read(f"schema://{name}"))
        assert [(one["name"], one["type"]) for one in found["columns"]] == [
            (column.name, str(column.type)) for column in schema
        ]
        assert found["meaning"] == table_description(name)
        assert {one["name"]: one["meaning"] for one in found["columns"]} == {
            column: column_description(name, column) for column in schema.names
        }
    groups = json.loads(agent.read("schema://groups"))
    assert groups["kind"] == "table"
    keys = {one["name"] for one in groups["columns"] if one["is_key"]}
    assert keys == {"log_partition", "group_id"}


def test_the_pages_have_every_word(agent: Agent) -> None:
    assert "record_offset" in agent.read("docs://ids")
    for page, names in (("statuses", STATUSES), ("causes", CAUSES), ("events", EVENTS)):
        text = agent.read(f"docs://{page}")
        assert all(f"- `{name.value}`: " in text for name in names)
    questions = agent.read("docs://questions")
    assert all(one.text in questions and one.sql in questions for one in QUESTIONS)


def test_every_word_has_a_meaning() -> None:
    assert list(STATUSES) == [status for status in Status if status is not Status.ERR]
    assert list(CAUSES) == list(Cause)
    assert list(EVENTS) == list(EventName)


@pytest.mark.parametrize(
    ("page", "meanings"),
    [("status.md", STATUSES), ("explain.md", CAUSES), ("events.md", EVENTS)],
)
def test_the_meanings_are_those_of_the_docs(
    repository: Path, page: str, meanings: dict[Status | Cause | EventName, str]
) -> None:
    text = (repository / "docs" / page).read_text()
    documented = dict(re.findall(r"^\| `([A-Za-z_]+)` \| (.*?) \|", text, re.MULTILINE))
    assert {name.value: meaning for name, meaning in meanings.items()} == {
        name.value: documented[name.value] for name in meanings
    }
