"""An agent of a server over the tables of an incident, for each file of tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from streaming.agents.server import opened_server
from tests.support.clients.agent import Agent, connected
from tests.support.tables.dashboard_tables import DashboardTables, create_dashboard_tables


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> DashboardTables:
    return create_dashboard_tables(tmp_path_factory.mktemp("agents") / "tables")


@pytest.fixture(scope="module")
def agent(tables: DashboardTables) -> Iterator[Agent]:
    with opened_server({"prod": tables.folder}) as server, connected(server) as found:
        yield found
