"""The page over the tables of an incident, and of the demo. No test of this folder changes them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from tests.support.browser.html import page_client
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


@pytest.fixture(scope="session")
def client(tables: DashboardTables) -> TestClient:
    return page_client(prod=tables.folder)


@pytest.fixture(scope="session")
def demo_client(demo: str) -> TestClient:
    return page_client(prod=demo)
