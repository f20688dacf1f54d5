"""Open pages ask with the ETag of their last answer, and get 304 while nothing has changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from starlette.testclient import TestClient

from streaming.dashboard.app import create_app
from streaming.served import cluster, watch
from streaming.served.snapshot import ServedSnapshot
from streaming.served.watch import Watch
from streaming.tables import delta
from tests.support.browser.html import client_of
from tests.support.tables.dashboard_tables import DashboardTables, create_dashboard_tables, set_back

PAGE = "/c/prod/"


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> DashboardTables:
    """Tables that these tests change."""
    return create_dashboard_tables(tmp_path_factory.mktemp("live") / "tables")


@pytest.fixture(autouse=True)
def every_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each request looks at the tables, and no snapshot is cached after a change."""
    monkeypatch.setattr(watch, "_LOOKS_EVERY_S", 0.0)
    monkeypatch.setattr(cluster, "_CACHE_S", 0.0)
    monkeypatch.setattr(cluster, "_CACHE_FACTOR", 0)


def status_of(client: TestClient, tag: str, page: str = PAGE) -> int:
    return client.get(page, headers={"If-None-Match": tag}).status_code


def watched_client(tables: DashboardTables) -> TestClient:
    """A client of a server that has looked at the tables once."""
    client = client_of(create_app({"prod": tables.folder}))
    assert status_of(client, '"1.0"') == 200
    return client


@pytest.mark.parametrize("encoding", ["gzip", "identity"])
def test_a_page_without_a_change_is_not_computed_again(
    tables: DashboardTables, monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    client = watched_client(tables)
    first = client.get(PAGE, headers={"Accept-Encoding": encoding})
    tag = first.headers["ETag"]
    assert tag.startswith("W/") == (encoding == "gzip")
    with monkeypatch.context() as patch:
        patch.setattr(ServedSnapshot, "__init__", lambda *_: pytest.fail("computed again"))
        answer = client.get(PAGE, headers={"If-None-Match": tag})
        assert (answer.status_code, answer.content) == (304, b"")
    set_back(tables.folder, committed=90)
    assert status_of(client, tag) == 200
    newer = client.get(PAGE).headers["ETag"]
    assert newer != tag
    assert status_of(client, newer) == 304


def test_only_pages_of_the_present_have_a_tag(tables: DashboardTables) -> None:
    client = watched_client(tables)
    tag = client.get(PAGE).headers["ETag"]
    past = f"{PAGE}?at={tables.after.strftime('%Y-%m-%dT%H:%M:%S.%fZ')}"
    assert "ETag" not in client.get(past).headers
    assert status_of(client, tag, past) == 200
    assert "ETag" not in client.get("/styleguide").headers


@pytest.mark.parametrize("tag", ["*", '"x"', '"1"', '"nan.0"', f'"{"9" * 400}.0"'])
def test_an_unknown_tag_gets_the_page(tables: DashboardTables, tag: str) -> None:
    assert status_of(watched_client(tables), tag) == 200


def test_many_ask_and_one_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables_watch = Watch(f"{tmp_path}/tables")
    missing = tables_watch.changed_at()
    assert tables_watch.changed_at() == missing
    tables = create_dashboard_tables(tmp_path / "tables")
    first = tables_watch.changed_at()
    assert first > missing
    monkeypatch.setattr(watch, "_LOOKS_EVERY_S", 3_600)
    set_back(tables.folder, committed=80)
    changed = tables_watch.changed_at()
    assert changed > first
    set_back(tables.folder, committed=70)
    assert tables_watch.changed_at() == changed


def test_a_change_during_a_read_makes_the_page_old(
    tables: DashboardTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page that was opened before a change and answered after it does not have the change."""
    client, opened = watched_client(tables), delta.open_version
    changes: list[int] = []

    def opened_slowly(*arguments: Any) -> DeltaTable:
        table = opened(*arguments)
        if not changes:
            changes.append(60)
            set_back(tables.folder, committed=60)
        return table

    monkeypatch.setattr(delta, "open_version", opened_slowly)
    tag = client.get(PAGE).headers["ETag"]
    assert changes
    assert status_of(client, tag) == 200
