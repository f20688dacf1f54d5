"""The API over the tables of an incident. No test of this folder changes them."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from tests.support.browser.html import api_client
from tests.support.tables.dashboard_tables import DashboardTables


@pytest.fixture(scope="session")
def tables(dashboard_tables: DashboardTables) -> DashboardTables:
    return dashboard_tables


@pytest.fixture(scope="session")
def client(tables: DashboardTables) -> TestClient:
    return api_client(prod=tables.folder)
