"""The resources: every table and view, and a page for each kind of word."""

from __future__ import annotations

import json

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
        resource = json.loads(agent.read(f"schema://{name}"))
        assert resource["meaning"] == table_description(name)
        assert [
            (column["name"], column["type"], column["meaning"]) for column in resource["columns"]
        ] == [
            (column.name, str(column.type), column_description(name, column.name))
            for column in schema
        ]
    groups = json.loads(agent.read("schema://groups"))
    assert groups["kind"] == "table"
    keys = {column["name"] for column in groups["columns"] if column["is_key"]}
    assert keys == {"log_partition", "group_id"}


def test_the_pages_have_every_word(agent: Agent) -> None:
    assert list(STATUSES) == [status for status in Status if status is not Status.ERR]
    assert list(CAUSES) == list(Cause)
    assert list(EVENTS) == list(EventName)
    assert "record_offset" in agent.read("docs://ids")
    for page, names in (("statuses", STATUSES), ("causes", CAUSES), ("events", EVENTS)):
        text = agent.read(f"docs://{page}")
        assert all(f"- `{name.value}`: " in text for name in names)
    questions = agent.read("docs://questions")
    texts = [text for question in QUESTIONS for text in (question.text, question.sql)]
    assert [text for text in texts if text not in questions] == []
