"""Fixtures of the tests of alerts."""

from __future__ import annotations

import pytest


@pytest.fixture
def tables(tables_that_lag: str) -> str:
    return tables_that_lag
