"""What every test shares: how hypothesis searches, and markers by folder.

COORDINATOR_STATE_HYPOTHESIS names the profile: `deterministic` (the default: the same examples in
every run, so a red run is red again) or `exhaustive` (many and new ones, kept where they fail).
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

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
