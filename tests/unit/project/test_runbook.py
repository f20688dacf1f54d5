"""docs/runbook.md has an entry for every alert and status."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from coordinator_state.insight.group_status import Status
from streaming.alerts.proposals import WITHOUT_RULE, GroupHabits, proposals
from streaming.alerts.rules import AlertRules


@pytest.fixture(scope="module")
def page(repository: Path) -> str:
    return (repository / "docs" / "runbook.md").read_text()


@pytest.fixture(scope="module")
def entries(page: str) -> dict[str, str]:
    """The text of each entry, by its heading."""
    found = re.split(r"^### (.*)$", page, flags=re.MULTILINE)[1:]
    return dict(zip(found[::2], found[1::2], strict=True))


def alerts_of(file: Path) -> list[str]:
    rules = YAML(typ="safe").load(file.read_text())
    return [rule["alert"] for group in rules["groups"] for rule in group["rules"]]


@pytest.mark.parametrize("file", ["prometheus-rules.yaml", "helm/prometheus-rules.yaml"])
def test_every_alert_has_an_entry(repository: Path, entries: dict[str, str], file: str) -> None:
    alerts = alerts_of(repository / "deploy" / file)
    assert len(alerts) > 15
    assert set(alerts) <= entries.keys()
    assert {name for name in entries if name.startswith(("Kafka", "Coordinator"))} <= set(alerts)


def test_every_status_leads_to_an_entry(page: str, entries: dict[str, str]) -> None:
    table = page.partition("## Find the entry")[2].partition("\n\nA rule")[0]
    rows = [row.split(" | ") for row in table.splitlines() if row.startswith("| `")]
    found = {name: row[1] for row in rows for name in re.findall(r"`(\w+)`", row[0])}
    assert found.keys() == {status.value for status in Status} - {Status.ERR.value}
    anchors = {name.lower().replace(" ", "-") for name in entries}
    for status, cell in found.items():
        (anchor,) = re.findall(r"\(#([\w-]+)\)", cell)
        assert anchor in anchors, status


def test_every_proposed_rule_is_named(page: str) -> None:
    """The page says where to look for the names that proposals make."""
    for status in {*Status} - WITHOUT_RULE - {Status.ERR}:
        habits = GroupHabits(
            group_id="payments", status=status, earlier=(), lag=1, usual_lag=1.0, time_lag_ms=1
        )
        named = [re.findall(r"name: (\S+)", text)[0] for text in proposals(habits).values()]
        of_status = f"payments-{status.value.lower().replace('_', '-')}"
        assert named == [of_status, "payments-lag", "payments-time-lag"]
    assert all(f"`{name}`" in page for name in ("payments-stop", "-trouble", "-lag", "-time-lag"))
    built_in = {name for name in AlertRules.model_fields if name.startswith("tables_")}
    assert built_in == {"tables_unreadable", "tables_stale"}
    assert all(f"`{name}`" in page for name in built_in)
