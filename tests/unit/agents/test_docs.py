"""docs/agents.md says what is so: its examples are answers, its tools and resources exist."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from streaming.agents.changes import Changes
from streaming.agents.server import TOOLS, opened_server
from tests.support.clients.agent import Agent, connected
from tests.support.tables import explained_incidents as incidents
from tests.support.tables.held_moment import held_at

EXAMPLE = re.compile(r"<!-- (\w+)(?: (\w+) (\{[^\n]*\}))? -->\n\n```json\n(.*?)```", re.DOTALL)


@pytest.fixture(scope="module")
def page(repository: Path) -> str:
    return (repository / "docs" / "agents.md").read_text()


def is_part(shown: Any, answer: Any) -> bool:
    """Whether an example is an answer that lacks some fields, and ends of lists."""
    if isinstance(shown, dict):
        return all(name in answer and is_part(shown[name], answer[name]) for name in shown)
    if isinstance(shown, list):
        pairs = zip(shown, answer, strict=False)
        return len(shown) <= len(answer) and all(is_part(*pair) for pair in pairs)
    return bool(shown == answer)


def test_every_tool_is_explained_with_an_example(page: str) -> None:
    names = [tool.__name__ for tool in TOOLS]
    assert sorted(re.findall(r"^### (\w+): ", page, re.MULTILINE)) == sorted(names)
    assert sorted(example[0] for example in EXAMPLE.findall(page)) == sorted(names)


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
    fields = Changes.model_json_schema(mode="serialization")

    def require(example: Any, schema: Any) -> None:
        if isinstance(example, list):
            for item in example:
                require(item, schema["items"])
        elif isinstance(example, dict):
            for option in schema.get("anyOf", [schema]):
                named = fields["$defs"].get(option.get("$ref", "").rpartition("/")[2], option)
                if "properties" in named:
                    for name, value in example.items():
                        require(value, named["properties"][name])

    require(json.loads(shown), fields)


def test_every_resource_is_listed(page: str, agent: Agent) -> None:
    named = set(re.findall(r"`(docs://\w+)`", page))
    assert named == {uri for uri in agent.resources() if uri.startswith("docs://")}
