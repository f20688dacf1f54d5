"""Tables of groups in several states, as of a fixed time. No test of this folder changes them."""

from __future__ import annotations

import pytest

from streaming.views.coordinator_tables import CoordinatorTables
from tests.support.tables.status_tables import VERSION


@pytest.fixture(scope="session")
def folder(status_tables: str) -> str:
    return status_tables


@pytest.fixture(scope="module")
def tables(folder: str) -> CoordinatorTables:
    """Nothing is computed of them at first."""
    return CoordinatorTables(folder, as_of=VERSION)
