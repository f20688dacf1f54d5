"""What every test shares: how hypothesis searches, and markers by folder.

COORDINATOR_STATE_HYPOTHESIS names the profile: `deterministic` (the default: the same examples in
every run, so a red run is red again) or `exhaustive` (many and new ones, kept where they fail).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A shared two-core machine says nothing about our speed: no example fails for being slow.
_UNTIMED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("deterministic", _UNTIMED, derandomize=True)
settings.register_profile("exhaustive", _UNTIMED, max_examples=5_000)
settings.load_profile(os.environ.get("COORDINATOR_STATE_HYPOTHESIS", "deterministic"))

_TESTS = Path(__file__).parent
_MARKED_FOLDERS = ("spark", "integration")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests by their folder, before `-m` selects among them."""
    for item in items:
        for folder in _MARKED_FOLDERS:
            if (_TESTS / folder) in item.path.parents:
                item.add_marker(folder)


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the repository."""
    return _TESTS.parent


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session that `run` itself uses; one for all tests, since a JVM takes long to get warm."""
    from streaming.session import build_session

    session = build_session(warehouse=tmp_path_factory.mktemp("warehouse"))
    yield session
    session.stop()
