"""The examples of pages run, and are accepted by what reads them."""

from __future__ import annotations

import re
import shlex
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest
from ruamel.yaml import YAML

from coordinator_state import CoordinatorTables
from streaming.alerts.facts import Facts
from streaming.alerts.replay import findings_of
from streaming.alerts.rules import AlertRules, load_rules
from streaming.alerts.sql_rules import SqlRules
from streaming.cli.options import read_config_file
from streaming.kafka.client_config import kafka_client_config
from streaming.local.demo.groups import DEMO_GROUPS
from streaming.run.settings import RunSettings
from streaming.tables.reader import TableReader
from tests.support.deploy.chart import parameters
from tests.support.deploy.schemas import COMPOSE, schema_errors
from tests.support.tables.status_tables import NOW

REPOSITORY: Final = Path(__file__).parents[3]
README: Final = (REPOSITORY / "README.md").read_text()


def blocks(name: str, language: str) -> list[str]:
    """The blocks of a page in a language."""
    text = (REPOSITORY / "docs" / name).read_text()
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


@pytest.fixture
def tables(status_tables: str) -> str:
    return status_tables


# --- README --------------------------------------------------------------------------------------


def examples() -> list[tuple[str, str]]:
    """Every `$ ...` of the README with the output that follows it.

    A command ends with its line, or with the line on which its quotes are closed.
    """
    commands = []
    for block in re.findall(r"```console\n(.*?)```", README, re.DOTALL):
        for part in re.split(r"^\$ ", block.replace("\\\n", ""), flags=re.MULTILINE)[1:]:
            lines = part.split("\n")
            heads = ("\n".join(lines[:end]) for end in range(1, len(lines) + 1))
            command = next(head for head in heads if head.count('"') % 2 == 0)
            commands.append((command, part.removeprefix(command).lstrip("\n")))
    return commands


def test_every_question_is_answered_with_its_columns(tables: str) -> None:
    questions = [
        (shlex.split(command), output)
        for command, output in examples()
        if command.startswith("coordinator-state sql")
    ]
    assert len(questions) == 5
    for words, output in questions:
        answer = CoordinatorTables(tables).sql(words[-1]).arrow
        assert answer.column_names == output.split("\n", 1)[0].split(), words


def test_the_demo_shows_every_group_and_equality() -> None:
    (output,) = (output for command, output in examples() if command.startswith("make demo"))
    rows = re.findall(r"^([a-z-]+)  +(\S.*?)  .*  true$", output, re.MULTILINE)
    assert dict(rows) == {group.group_id: group.traffic for group in DEMO_GROUPS}
    assert "verify: equal: " in output


# --- YAML and TOML -------------------------------------------------------------------------------


def rules_of(text: str, folder: Path) -> AlertRules:
    """The rules of a file that names a secret."""
    (folder / "slack_url").write_text("https://hooks.slack.com/x")
    file = folder / "alerts.yaml"
    file.write_text(text.replace("/run/secrets", str(folder)))
    return load_rules(file)


def test_the_example_of_alert_rules(
    tables: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAGERDUTY_ROUTING_KEY", "k")
    rules = rules_of(blocks("alerts.md", "yaml")[0], tmp_path)
    facts = Facts(TableReader(tables), NOW)
    with closing(SqlRules(facts.snapshot.reader.tables)) as sql:
        findings = {rule.name: findings_of(rule, facts, sql) for rule in rules.rules}
    assert [finding.key.group_id for finding in findings["stopped"]] == ["old"]
    assert [finding.key.group_id for finding in findings["somebody-set-offsets-back"]] == ["back"]


def test_the_rules_of_first_alerts(tmp_path: Path) -> None:
    first_rules, first_sinks = blocks("first-alerts.md", "yaml")
    rules = rules_of(first_sinks + first_rules, tmp_path)
    assert [rule.name for rule in rules.rules] == ["stuck", "behind"]
    assert list(rules.sinks) == ["terminal", "chat"]


def test_the_services_of_the_compose_page_fit_the_schema_and_the_program() -> None:
    whole: dict[str, Any] = {"services": {}}
    for block in blocks("compose.md", "yaml"):
        loaded = YAML(typ="safe", pure=True).load(block)
        if "secrets" in loaded:
            whole |= loaded
        else:
            whole["services"] |= loaded
    assert whole["services"].keys() == {"materializer", "alerts"}
    for service in whole["services"].values():
        parameters(service["command"])
    assert schema_errors(COMPOSE, whole) == []


def test_the_example_of_a_config_file(tmp_path: Path) -> None:
    (example,) = blocks("options.md", "toml")
    secret = tmp_path / "kafka_password"
    secret.write_text("hush")
    file = tmp_path / "run.toml"
    file.write_text(example.replace("/run/secrets/kafka_password", str(secret)))
    options = read_config_file(file, {*RunSettings.model_fields, "log_format"})
    assert options.pop("log_format") == "json"
    settings = RunSettings.checked(**options)
    assert settings.external_groups[0].group_id == "enricher"
    assert kafka_client_config(settings.kafka)["sasl_plain_username"] == "reader"


# --- Python --------------------------------------------------------------------------------------


def names_after(example: str, tables: str) -> dict[str, Any]:
    """Run an example on tables that have the group `back` in place of `payments`."""
    for before, after in (
        *(('"tables"', repr(tables)), ('"tables/', f'"{tables}/'), ("payments", "back")),
        *(('"2026-11-21T03:14:00Z"', "1"), ('"5m"', "1")),
    ):
        example = example.replace(before, after)
    names: dict[str, Any] = {}
    exec(example, names)  # noqa: S102 - of our own page
    return names


def test_the_examples_of_python_run(tables: str) -> None:
    rows, fitting_versions = blocks("sql.md", "python")
    names_after(rows, tables)
    names = names_after(fitting_versions, tables)
    reader = TableReader(tables)
    assert names["versions"] == reader.table_versions
    assert names["offsets"].num_rows == reader.read("group_offsets").num_rows > 0
    (example,) = blocks("python.md", "python")
    names = names_after(example, tables)
    assert len(names["busiest"]) > 1
    assert [row.group_id for row in names["earlier"]] == ["back"]
    assert set(names["frame"]["group_id"]) == {"back"}
