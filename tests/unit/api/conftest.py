"""The API over the tables of an incident. No test of this folder changes them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from flask.testing import FlaskClient

from streaming.api.app import create_app
from streaming.served.cluster import Cluster
from tests.support.tables.dashboard_tables import DashboardTables, create_dashboard_tables
from tests.support.tables.held_moment import held_at


@pytest.fixture(scope="session")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DashboardTables]:
    tables = create_dashboard_tables(tmp_path_factory.mktemp("api") / "tables")
    with held_at(tables.folder, tables.after):
        yield tables


@pytest.fixture(scope="session")
def client(tables: DashboardTables) -> FlaskClient:
    return create_app({"prod": Cluster("prod", tables.folder)}).test_client()
