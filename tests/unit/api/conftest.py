"""The API over the tables of an incident. No test of this folder changes them."""

from __future__ import annotations

import pytest
from flask.testing import FlaskClient

from streaming.api.app import create_app
from streaming.served.cluster import Cluster
from tests.support.tables.dashboard_tables import DashboardTables


@pytest.fixture(scope="session")
def tables(dashboard_tables: DashboardTables) -> DashboardTables:
    return dashboard_tables


@pytest.fixture(scope="session")
def client(tables: DashboardTables) -> FlaskClient:
    return create_app({"prod": Cluster("prod", tables.folder)}).test_client()
