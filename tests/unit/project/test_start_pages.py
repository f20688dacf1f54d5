"""The examples of the pages that people read first: they are accepted, and name what is there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from streaming import CoordinatorTables, __all__
from streaming.alerts.rules_file import load_rules
from streaming.local.demo.groups import DEMO_GROUPS
from tests.support.deploy.compose_schema import check_schema
from tests.support.pages import Page, check_command
from tests.support.tables.status_tables import create_status_tables

YAML_BLOCK = re.compile(r"```yaml\n(.*?)```", re.DOTALL)


def page_of(repository: Path, name: str) -> Page:
    return Page(repository / "docs" / name)


def test_the_services_of_the_compose_page_fit_the_schema_and_the_program(
    repository: Path, tmp_path: Path
) -> None:
    yaml = YAML(typ="safe", pure=True)
    whole: dict[str, Any] = {"services": {}}
    for block in YAML_BLOCK.findall(page_of(repository, "compose.md").text):
        loaded = yaml.load(block)
        if "secrets" in loaded:
            whole |= loaded
        else:
            whole["services"] |= loaded
    assert whole["services"].keys() == {"materializer", "alerts"}
    for service in whole["services"].values():
        check_command(service["command"])
    written = tmp_path / "docker-compose.yml"
    yaml.dump(whole, written)
    answer = check_schema(written)
    assert answer.returncode == 0, answer.stdout


def test_the_compose_page_names_the_services_and_volumes_of_the_file(repository: Path) -> None:
    loaded = YAML(typ="safe", pure=True).load(repository / "docker-compose.yml")
    text = page_of(repository, "compose.md").text
    for heading, key in (("## The services", "services"), ("## The state", "volumes")):
        section = text.partition(f"{heading}\n")[2].partition("\n## ")[0]
        assert re.findall(r"^\| `([a-z-]+)` \|", section, re.MULTILINE) == list(loaded[key])


def test_the_rules_of_first_alerts_are_rules(repository: Path, tmp_path: Path) -> None:
    rules, sinks = YAML_BLOCK.findall(page_of(repository, "first-alerts.md").text)
    (tmp_path / "slack_url").write_text("https://hooks.slack.com/x")
    file = tmp_path / "alerts.yaml"
    file.write_text((sinks + rules).replace("/run/secrets", str(tmp_path)))
    loaded = load_rules(file)
    assert [rule.name for rule in loaded.rules] == ["stuck", "behind"]
    assert list(loaded.sinks) == ["terminal", "chat"]


def test_the_demo_page_describes_every_group(repository: Path) -> None:
    section = page_of(repository, "demo.md").text.partition("## The groups\n")[2]
    table = section.partition("\n\nAt the end")[0]
    rows = re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
    named = [name for row in rows for name in re.findall(r"`([a-z-]+)`", row)]
    assert sorted(named) == sorted(group.group_id for group in DEMO_GROUPS)


def names_in_first_column(table: str) -> set[str]:
    cells = [row.split("|")[1] for row in table.splitlines()[2:]]
    return {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}


def test_the_page_of_python_names_what_is_public(repository: Path, tmp_path: Path) -> None:
    text = page_of(repository, "python.md").text
    tables = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
    names, methods = (
        {
            name
            for row in table.splitlines()[2:]
            for name in re.findall(r"`(\w+)`", row.split("|")[1])
        }
        for table in tables
    )
    assert names == set(__all__)
    public = {name for name in vars(CoordinatorTables) if not name.startswith("_")}
    assert methods == public - {"snapshot", "version", "moment", "cluster_id", "as_of", "refreshed"}
    (example,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    folder = create_status_tables(tmp_path / "tables")
    found: dict[str, Any] = {}
    example = example.replace('"tables"', repr(folder)).replace('"5m"', "1")
    exec(example.replace("payments", "back"), found)  # noqa: S102 - of our own page
    assert len(found["busiest"]) > 1
    assert [row.group_id for row in found["earlier"]] == ["back"]
    assert set(found["frame"]["group_id"]) == {"back"}
