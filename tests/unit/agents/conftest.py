"""An agent of a server over the tables of an incident, whose present is fixed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from streaming.agents.server import opened_server
from tests.support.clients.agent import Agent, connected
from tests.support.tables.dashboard_tables import DashboardTables


@pytest.fixture(scope="session")
def tables(dashboard_tables: DashboardTables) -> DashboardTables:
    return dashboard_tables


@pytest.fixture(scope="session")
def agent(tables: DashboardTables) -> Iterator[Agent]:
    with opened_server({"prod": tables.folder}) as server, connected(server) as agent:
        yield agent
