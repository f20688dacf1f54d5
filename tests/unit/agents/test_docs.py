"""The resources have every table and word, and the examples of docs/agents.md are answers."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from jsonschema_rs import validator_for

from coordinator_state.insight.group_events import EventName
from coordinator_state.insight.group_status import Cause, Status
from streaming.agents.server import opened_server
from streaming.api.changes import Changes
from streaming.api.operations import TOOLS
from streaming.tables.descriptions import column_description, meanings, table_description
from streaming.views.definitions import SCHEMAS
from streaming.views.questions import QUESTIONS
from tests.support.clients.agent import Agent, connected, is_part
from tests.support.tables import explained_incidents as incidents
from tests.support.tables.held_moment import held_at

EXAMPLE = re.compile(r"<!-- (\w+)(?: (\w+) (\{[^\n]*\}))? -->\n\n```json\n(.*?)```", re.DOTALL)


@pytest.fixture(scope="module")
def page(repository: Path) -> str:
    return (repository / "docs" / "agents.md").read_text()


def test_every_tool_is_explained_with_an_example(page: str) -> None:
    assert sorted(re.findall(r"^### (\w+): ", page, re.MULTILINE)) == sorted(TOOLS)
    assert sorted(example[0] for example in EXAMPLE.findall(page)) == sorted(TOOLS)


@pytest.mark.long
def test_the_examples_are_answers(page: str, tmp_path: Path) -> None:
    for tool, case, arguments, shown in EXAMPLE.findall(page):
        if not case:
            continue
        incident = getattr(incidents, case)()
        tables = incident.tables(tmp_path / tool)
        with (
            held_at(tables, incident.now),
            opened_server({"tables": tables}) as server,
            connected(server) as agent,
        ):
            answer = agent.call(tool, **json.loads(arguments))
        assert is_part(json.loads(shown), answer), tool


def test_the_example_of_two_moments_has_fields_of_an_answer(page: str) -> None:
    (shown,) = (text for tool, *_, text in EXAMPLE.findall(page) if tool == "changes_between")

    def for_parts(schema: dict[str, Any]) -> dict[str, Any]:
        """A schema without required fields and without other fields."""
        schema.pop("required", None)
        return {**schema, "additionalProperties": False} if "properties" in schema else schema

    schema = json.dumps(Changes.model_json_schema(mode="serialization"))
    validator_for(json.loads(schema, object_hook=for_parts)).validate(json.loads(shown))


def test_every_resource_is_listed(page: str, agent: Agent) -> None:
    named = set(re.findall(r"`(docs://\w+)`", page))
    assert named == {uri for uri in agent.resources() if uri.startswith("docs://")}


def test_every_table_and_view_has_its_columns(agent: Agent) -> None:
    assert {f"schema://{name}" for name in SCHEMAS} <= set(agent.resources())
    for name, schema in SCHEMAS.items():
        resource = json.loads(agent.read(f"schema://{name}"))
        assert resource["meaning"] == table_description(name)
        for column, field in zip(resource["columns"], schema, strict=True):
            assert (column["name"], column["type"]) == (field.name, str(field.type))
            assert column["meaning"] == column_description(name, field.name)
    groups = json.loads(agent.read("schema://groups"))
    assert groups["kind"] == "table"
    keys = {column["name"] for column in groups["columns"] if column["is_key"]}
    assert keys == {"log_partition", "group_id"}


def test_the_pages_have_every_word(agent: Agent) -> None:
    statuses = [status for status in Status if status is not Status.ERR]
    assert "record_offset" in agent.read("docs://ids")
    for page, names in (("statuses", statuses), ("causes", Cause), ("events", EventName)):
        words = [name.value for name in names]
        assert list(meanings(page)) == words
        assert re.findall(r"^- `(\w+)`: ", agent.read(f"docs://{page}"), re.MULTILINE) == words
    assert list(meanings("event_columns")) == [name.value for name in EventName]
    questions = agent.read("docs://questions")
    texts = [text for question in QUESTIONS for text in (question.text, question.sql)]
    assert [text for text in texts if text not in questions] == []
