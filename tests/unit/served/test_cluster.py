"""Snapshots that pages share: who waits for whom, and for how long they last."""

from __future__ import annotations

import math
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from streaming.errors import ConfigurationError
from streaming.served import cluster as module
from streaming.served.cluster import Cluster
from streaming.tables.reader import TableReader
from tests.support.tables.dashboard_tables import DashboardTables, create_dashboard_tables


def test_the_past_holds_nobody_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Tables of now: a snapshot that is minutes old holds others up while it is renewed.
    tables = create_dashboard_tables(tmp_path / "tables")
    cluster = Cluster("c", tables.folder)
    newest = cluster.snapshot()
    # It stays fresh, however slow this machine is.
    cluster._computed_at_s = math.inf
    go_on, is_at_it = threading.Event(), threading.Event()
    computed = module._computed

    def slowly(reader: TableReader) -> object:
        is_at_it.set()
        assert go_on.wait(30)
        return computed(reader)

    monkeypatch.setattr(module, "_computed", slowly)
    with ThreadPoolExecutor(2) as pool:
        try:
            pool.submit(cluster.snapshot, tables.before)
            assert is_at_it.wait(30)
            assert cluster.snapshot() is newest
            # Neither does one who looks anew.
            is_at_it.clear()
            cluster._computed_at_s = -math.inf
            pool.submit(cluster.snapshot)
            assert is_at_it.wait(30)
            assert cluster.snapshot() is newest
        finally:
            go_on.set()
    assert cluster.snapshot() is not newest


def test_a_snapshot_lasts_longer_if_pages_ask_more_of_it(dashboard_tables: DashboardTables) -> None:
    cluster = Cluster("c", dashboard_tables.folder)
    newest = cluster.snapshot()
    cluster._computed_at_s -= 20
    newest.spent_s = 6
    assert cluster.snapshot() is newest
    newest.spent_s = 4
    assert cluster.snapshot() is not newest


def test_past_snapshots_are_few(dashboard_tables: DashboardTables) -> None:
    cluster = Cluster("c", dashboard_tables.folder)
    for number in range(12):
        cluster.snapshot(dashboard_tables.after + timedelta(microseconds=number))
    assert len(cluster._past) == 8
    with pytest.raises(ConfigurationError, match="is in the future"):
        cluster.snapshot(datetime.now(timezone.utc) + timedelta(hours=1))
