"""The judge: a scripted agent finds each incident, without a hint which one it is."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

import pytest
from mcp import StdioServerParameters

from coordinator_state.insight.evidence import Cause
from streaming.agents.server import opened_server
from tests.support.clients.agent import connected
from tests.support.clients.incident_search import findings
from tests.support.clients.installed_command import command_of
from tests.support.tables import explained_incidents as incidents
from tests.support.tables import incident as module
from tests.support.tables.explained_incidents import CASES, GROUP, Case
from tests.support.tables.pinned_moment import pin_moment

WITHOUT_RECORDS = {Cause.CAUGHT_UP, Cause.PRODUCTION_RATE, Cause.CONSUMPTION_RATE}
"""No record of `__consumer_offsets` shows them: the evidence of rates is a query."""


@pytest.mark.parametrize(("case", "cause"), CASES, ids=[case.__name__ for case, _ in CASES])
def test_an_agent_finds_cause_and_evidence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: Case, cause: Cause
) -> None:
    incident = case()
    tables = incident.tables(tmp_path / "tables")
    pin_moment(monkeypatch, incident.now)
    with opened_server({"tables": tables}) as server, connected(server) as agent:
        found = findings(agent)
    assert found.keys() == {GROUP}
    assert found[GROUP].cause == cause.value, found
    assert bool(found[GROUP].record_ids) == (cause not in WITHOUT_RECORDS), found


def test_an_agent_finds_it_over_stdio(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, repository: Path
) -> None:
    duration = incidents.never_ends_a_transaction().now - module.START
    monkeypatch.setattr(module, "START", datetime.now(timezone.utc) - duration)
    tables = incidents.never_ends_a_transaction().tables(tmp_path / "tables")
    command, *arguments = command_of("mcp", "--tables", tables)
    server = StdioServerParameters(
        command=command, args=arguments, env={"PYTHONPATH": str(repository)}
    )
    with connected(server) as agent:
        assert findings(agent)[GROUP].cause == "open_transaction"
