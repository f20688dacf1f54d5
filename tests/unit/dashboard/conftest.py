"""The page over the tables of an incident, for each file of tests."""

from __future__ import annotations

import pytest
from flask.testing import FlaskClient

from streaming.dashboard.app import create_app
from streaming.dashboard.queries import PROCESSES
from streaming.views.sql.processes import SqlProcesses
from streaming.views.sql.slots import Slots
from tests.support.tables.dashboard_tables import DashboardTables, create_dashboard_tables


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> DashboardTables:
    return create_dashboard_tables(tmp_path_factory.mktemp("dashboard") / "tables")


@pytest.fixture(scope="module")
def client(tables: DashboardTables) -> FlaskClient:
    app = create_app({"prod": tables.folder})
    # Each query in a process of its own is for `test_dashboard_limits.py`: starting takes a second.
    app.extensions[PROCESSES] = SqlProcesses(Slots("queries", 2), [tables.folder], is_reused=True)
    return app.test_client()
