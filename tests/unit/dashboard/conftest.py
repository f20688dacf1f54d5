"""The page over the tables of an incident. No test of this folder changes them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from flask.testing import FlaskClient

from streaming.dashboard.app import create_app
from streaming.dashboard.queries import PROCESSES
from streaming.views.sql.processes import SqlProcesses
from streaming.views.sql.slots import Slots
from tests.support.tables.dashboard_tables import DashboardTables, create_dashboard_tables
from tests.support.tables.held_moment import held_at


@pytest.fixture(scope="session")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DashboardTables]:
    tables = create_dashboard_tables(tmp_path_factory.mktemp("dashboard") / "tables")
    with held_at(tables.folder, tables.after):
        yield tables


@pytest.fixture(scope="session")
def client(tables: DashboardTables) -> FlaskClient:
    app = create_app({"prod": tables.folder})
    # Each query in a process of its own is for `test_dashboard_limits.py`: starting takes a second.
    app.extensions[PROCESSES] = SqlProcesses(Slots("queries", 2), [tables.folder], is_reused=True)
    return app.test_client()
