"""Tables of groups in several states, as of a fixed time. No test of this folder changes them."""

from __future__ import annotations

import pytest

from streaming.views.coordinator_tables import CoordinatorTables
from tests.support.tables.status_tables import VERSION, create_status_tables


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return create_status_tables(tmp_path_factory.mktemp("status") / "tables")


@pytest.fixture(scope="module")
def tables(folder: str) -> CoordinatorTables:
    """Nothing is computed of them at first."""
    return CoordinatorTables(folder, as_of=VERSION)
