"""`/api/v1/events`: pages of any size give the whole history; rows that come and go hide none."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from streaming.api.cursors import read_cursor, write_cursor
from streaming.tables.schemas import GROUP_EVENTS
from streaming.views.coordinator_tables import CoordinatorTables
from streaming.views.list_query import ListQuery
from streaming.views.query import asking
from tests.support.browser.html import api_client, json_of, pages_of
from tests.support.tables.event_rows import event_row, moved
from tests.support.tables.tables_folder import apply_micro_batch, create_tables

INT = pa.int64()
KEYS = st.tuples(st.text(max_size=3), st.integers(-(2**40), 2**40))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Events with one timestamp, with several of one record, and without a timestamp."""
    folder = create_tables(tmp_path_factory.mktemp("events"))
    rows = [
        *(event_row("group_emptied", 5, record_offset=number) for number in range(4)),
        *(event_row("member_left", 9, record_offset=20, event_number=n) for n in range(3)),
        *(event_row("group_created", None, record_offset=number) for number in (7, 8, 9)),
        moved("offset_rewind", 9, 5, at_s=7, group_id="h", record_offset=30),
        moved("offset_reset", 9, 5, at_s=90_000, group_id="h", record_offset=31),
        event_row("group_emptied", 5, log_partition=1, record_offset=2),
    ]
    apply_micro_batch(folder, group_events=rows, progress=[{"next_offset": 40}])
    return folder


@pytest.fixture(scope="module")
def client(folder: str) -> TestClient:
    return api_client(prod=folder)


def places(rows: list[dict[str, Any]]) -> list[tuple[int, int, int]]:
    return [(row["log_partition"], row["record_offset"], row["event_number"]) for row in rows]


@pytest.mark.parametrize(
    ("limit", "arguments"),
    [
        *((limit, {}) for limit in (1, 3, 13, 14)),
        *((3, {"group": "g"}), (2, {"event": ["group_emptied"]}), (1, {"group": "nobody"})),
    ],
)
def test_pages_of_any_size_are_the_history(
    client: TestClient, folder: str, limit: int, arguments: dict[str, Any]
) -> None:
    history = CoordinatorTables(folder).events(
        arguments.get("group"), event=arguments.get("event", ())
    )
    wanted = places(history.arrow.to_pylist())
    collected = list(pages_of(client, "events", limit=limit, **arguments))
    assert all(len(page) == limit for page in collected[:-1])
    assert [place for page in collected for place in places(page)] == wanted[::-1]


def test_a_period(client: TestClient) -> None:
    (reset,), (rewind,) = pages_of(client, "events", limit=1, group="h")
    assert (reset["event"], rewind["event"]) == ("offset_reset", "offset_rewind")
    at = rewind["record_timestamp"]
    collected = pages_of(client, "events", since=at, until=at)
    assert [place for page in collected for place in places(page)] == places([rewind])


def test_an_event_has_every_column_of_the_table_but_its_day(client: TestClient) -> None:
    event, *_ = json_of(client, "/api/v1/events")["items"]
    assert [*event, "day"] == GROUP_EVENTS.schema.names


@given(
    st.sets(KEYS, max_size=6), st.lists(st.sets(KEYS, max_size=2), max_size=4), st.integers(1, 3)
)
def test_what_stays_is_seen_once(
    stays: set[tuple[str, int]], comes_and_goes: list[set[tuple[str, int]]], limit: int
) -> None:
    query = ListQuery(source="rows", then=["name"], key={"name": str, "number": int})
    seen: list[tuple[str, int]] = []
    cursor = ""
    others = iter(comes_and_goes)
    while True:
        keys = stays | next(others, set())
        names, numbers = zip(*keys, strict=True) if keys else ((), ())
        rows = pa.table({"name": pa.array(names, pa.string()), "number": pa.array(numbers, INT)})
        with asking({"rows": rows}) as ask:
            page = ask(f"{query.behind(read_cursor(cursor, query.key.values()))}\nLIMIT {limit}")
        shown = [(row["name"], row["number"]) for row in page.to_pylist()]
        assert shown == sorted(shown)
        seen += shown
        if len(shown) < limit:
            break
        cursor = write_cursor(shown[-1])
    assert len(seen) == len(set(seen))
    assert stays <= set(seen)
