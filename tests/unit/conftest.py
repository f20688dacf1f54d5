"""Fixtures that several files use."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from shutil import copytree

import pytest

from streaming.source import coordinator_log, topic_plan
from tests.support.brokers.receivers import HttpReceiver, http_receiver
from tests.support.logs.memory_log import MemoryLog, MemoryLogClient
from tests.support.tables.alert_rules import lag_of, write_rules
from tests.support.tables.dashboard_tables import DashboardTables, create_dashboard_tables
from tests.support.tables.held_moment import held_at
from tests.support.tables.status_tables import create_status_tables
from tests.support.tables.tables_folder import create_tables


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> MemoryLogClient:
    """Three log partitions: ten commits of two groups, one transaction, nothing."""
    logs = {0: MemoryLog(), 1: MemoryLog(), 2: MemoryLog()}
    for number in range(10):
        logs[0].commit(f"group-{number % 2}", number)
    logs[1].transaction("transactional", 7)
    client = MemoryLogClient(logs)
    monkeypatch.setattr(topic_plan, "LogClient", lambda *_, **_options: client)
    monkeypatch.setattr(coordinator_log, "shared_log_client", lambda *_: client)
    return client


@pytest.fixture
def receiver() -> Iterator[HttpReceiver]:
    """Who is told of alerts."""
    with http_receiver() as receiver:
        yield receiver


@pytest.fixture(scope="session")
def empty_tables(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Tables without rows; a test copies them."""
    return create_tables(tmp_path_factory.mktemp("empty") / "tables")


@pytest.fixture(scope="session")
def status_tables(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Tables of groups in several states, as of a fixed time. No test changes them."""
    return create_status_tables(tmp_path_factory.mktemp("status") / "tables")


@pytest.fixture(scope="session")
def dashboard_tables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DashboardTables]:
    """The tables of an incident, whose present is fixed. No test changes them."""
    tables = create_dashboard_tables(tmp_path_factory.mktemp("dashboard") / "tables")
    with held_at(tables.folder, tables.after):
        yield tables


@pytest.fixture
def tables_that_lag(empty_tables: str, tmp_path: Path) -> str:
    """Tables with a group that has read all; `lag_of` says otherwise."""
    folder = str(copytree(empty_tables, tmp_path / "tables"))
    lag_of(folder, 0)
    return folder


@pytest.fixture
def rules_file(tmp_path: Path, receiver: HttpReceiver) -> str:
    """Rules that tell the receiver of a lag of more than ten."""
    return write_rules(tmp_path, receiver.url)
