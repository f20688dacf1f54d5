"""The explanation of a group on the command line, as JSON and in the docs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from coordinator_state.insight.evidence import Cause
from streaming.tables.reader import TableReader
from streaming.views.explanation import explained, explanation_text
from tests.support.clients.command_line import call, json_lines
from tests.support.tables import explained_incidents as incidents
from tests.support.tables.explained_incidents import GROUP, Incident


def examples(page: str) -> Iterator[tuple[str, str]]:
    """The name of the incident and the text of each example, without the wraps of the page."""
    for name, text in re.findall(r"<!-- (\w+) -->\n\n```text\n(.*?)```", page, re.DOTALL):
        yield name, re.sub(r"(?: \\)?\n {6}(?=\S)", " ", text)


def test_the_examples_of_the_page_are_printed(repository: Path, tmp_path: Path) -> None:
    page = (repository / "docs" / "explain.md").read_text()
    texts = list(examples(page))
    assert len(texts) == 3
    for name, text in texts:
        incident: Incident = getattr(incidents, name)()
        tables = TableReader(incident.tables(tmp_path / name))
        explanation = explained(tables, GROUP, at=incident.now)
        assert explanation is not None
        assert explanation_text(explanation) + "\n" == text, name


def test_every_cause_is_on_the_page(repository: Path) -> None:
    page = (repository / "docs" / "explain.md").read_text()
    _, _, causes = page.partition("\n## Causes\n")
    causes, _, _ = causes.partition("\n## ")
    listed = re.findall(r"^\| `([a-z_]+)` \|", causes, re.MULTILINE)
    assert listed == [cause.value for cause in Cause]


def test_text_and_json_have_the_same_evidence(tmp_path: Path) -> None:
    arguments = ("--tables", incidents.one_record_is_poison().tables(tmp_path / "tables"))
    (explanation,) = json_lines(call("explain", GROUP, *arguments, "--output", "json"))
    text = call("explain", GROUP, *arguments).stdout
    assert explanation["group_id"] == GROUP
    assert explanation["evidence"]
    for number, evidence in enumerate(explanation["evidence"], 1):
        assert f"{number}. {evidence['cause']}: {evidence['text']}\n" in text
    refused = call("explain", "order-app", *arguments, exit_code=1)
    assert refused.stdout == ""
    assert f"did you mean {GROUP}?" in refused.stderr
