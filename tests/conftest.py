"""What every test shares: how hypothesis searches, marks by folder, and the distribution of tests.

COORDINATOR_STATE_HYPOTHESIS names the profile: `deterministic` (the default: the same examples in
every run, so a red run is red again) or `exhaustive` (many and new ones, kept where they fail).
LONG_TESTS_UNTIL is a Unix time. No test with the mark `long` begins after it. CI sets it, because
CI has 85 minutes. The summary of CI lists the skipped tests.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

from tests.support.eventually import Eventually, wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A shared two-core machine says nothing about our speed: no example fails for being slow.
_UNTIMED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("deterministic", _UNTIMED, derandomize=True)
settings.register_profile("exhaustive", _UNTIMED, max_examples=5_000)
settings.load_profile(os.environ.get("COORDINATOR_STATE_HYPOTHESIS", "deterministic"))

# Brokers and commands of tests live for seconds: the JVM's second compiler costs too much.
_SHORT_LIVED = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
os.environ.update(_SHORT_LIVED)

_TESTS = Path(__file__).parent
_MARKED_FOLDERS = ("spark", "integration")
_SLOWEST_FIRST = ("unit/local/test_scenarios.py", "property", "unit/tables", "browser")
"""Paths whose tests begin first after those with real servers.

So no worker has a long test left at the end: all scenarios take nine minutes of one core.
"""
_LONG_TESTS_UNTIL = float(os.environ.get("LONG_TESTS_UNTIL", "inf"))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests by their folder, before `-m` selects among them."""
    for item in items:
        for folder in _MARKED_FOLDERS:
            if (_TESTS / folder) in item.path.parents:
                item.add_marker(folder)
    items.sort(key=_position)


def _position(item: pytest.Item) -> int:
    if item.get_closest_marker("integration") or item.get_closest_marker("spark"):
        return 0
    path = item.path.as_posix().removeprefix(f"{_TESTS.as_posix()}/")
    for position, folder in enumerate(_SLOWEST_FIRST, 1):
        if path.startswith(folder):
            return position
    return len(_SLOWEST_FIRST) + 1


class _JvmTests(LoadScopeScheduling):
    """One worker runs all tests that need a JVM: the brokers and the Spark session start once.

    The other worker runs the rest, file by file, and property tests one by one.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        if "spark" in nodeid or file.startswith(("tests/integration", "tests/bench")):
            return "jvm"
        return nodeid if file.startswith("tests/property") else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling | None:
    """`--dist loadgroup` is `_JvmTests`; another `--dist` stays as it is."""
    return _JvmTests(config, log) if config.getvalue("dist") == "loadgroup" else None


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a long test for which there is no time, before its fixtures start anything."""
    if item.get_closest_marker("long") and time.time() > _LONG_TESTS_UNTIL:
        pytest.skip("no time is left for long tests (LONG_TESTS_UNTIL)")


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the repository."""
    return _TESTS.parent


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session that `run` itself uses; one for all tests, since a JVM takes long to get warm."""
    from streaming.run.session import build_session

    # It lives for many tests.
    for name in _SHORT_LIVED:
        del os.environ[name]
    session = build_session(warehouse=tmp_path_factory.mktemp("warehouse"), engine="spark")
    # Spark's default of 200 tasks is for far more rows.
    session.conf.set("spark.sql.shuffle.partitions", "1")
    os.environ.update(_SHORT_LIVED)
    yield session
    session.stop()


@pytest.fixture
def engine_session(request: pytest.FixtureRequest) -> SparkSession | None:
    """The session of the engine that the parameter names; None for the engine `driver`."""
    if request.param == "driver":
        return None
    session: SparkSession = request.getfixturevalue("spark")
    return session


@pytest.fixture(scope="session")
def eventually() -> Eventually:
    """A function that waits for a condition with a deadline."""
    return wait_until


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    """Commands configure logging for the whole process."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level
    for name in ("coordinator_state", "streaming"):
        logging.getLogger(name).setLevel(logging.NOTSET)
