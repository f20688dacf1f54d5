"""The API over the tables of the page's tests, whose names nobody means well by."""

from __future__ import annotations

import pytest
from flask.testing import FlaskClient

from streaming.api.app import create_app
from streaming.served.cluster import Cluster
from tests.support.tables.dashboard_tables import DashboardTables, create_dashboard_tables


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> DashboardTables:
    return create_dashboard_tables(tmp_path_factory.mktemp("api") / "tables")


@pytest.fixture(scope="module")
def client(tables: DashboardTables) -> FlaskClient:
    return create_app({"prod": Cluster("prod", tables.folder)}).test_client()
