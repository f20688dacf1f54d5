"""The page over the tables of an incident, and of the demo. No test of this folder changes them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from streaming.dashboard.app import create_app
from streaming.views.sql.processes import SqlProcesses
from streaming.views.sql.slots import Slots
from tests.support.browser.html import client_of
from tests.support.tables.dashboard_tables import DashboardTables
from tests.support.tables.demo_incidents import END, create_demo_tables
from tests.support.tables.held_moment import held_at


@pytest.fixture(scope="session")
def tables(dashboard_tables: DashboardTables) -> DashboardTables:
    return dashboard_tables


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The tables of the demo, whose present is the moment of its incidents."""
    tables = create_demo_tables(tmp_path_factory.mktemp("demo") / "tables")
    with held_at(tables, END):
        yield tables


def page_over(folder: str) -> TestClient:
    app = create_app({"prod": folder})
    # Each query in a process of its own is for `test_dashboard_limits.py`: starting takes a second.
    app.state.sql_processes = SqlProcesses(Slots("queries", 2), [folder], is_reused=True)
    return client_of(app)


@pytest.fixture(scope="session")
def client(tables: DashboardTables) -> TestClient:
    return page_over(tables.folder)


@pytest.fixture(scope="session")
def demo_client(demo: str) -> TestClient:
    return page_over(demo)
