"""How heavy pages are: a limit in bytes, compression, and files that browsers keep."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from urllib.parse import urlencode

import pytest
from starlette.testclient import TestClient

from coordinator_state.replay.partitioner import partition_for
from streaming.dashboard.topic import MAX_CELLS
from tests.support.browser.html import page_client, page_of, part_of
from tests.support.tables.dashboard_tables import HOSTILE
from tests.support.tables.event_rows import by_member, moved
from tests.support.tables.sample_rows import history_of, offset_row, sample
from tests.support.tables.tables_folder import Row, apply_micro_batch, create_tables, write_rows

GROUPS, EVENTS, LOG_PARTITIONS = 1_000, 100, 50
TOPIC = "payments.transactions.settled.v1"
HUGE = f"{HOSTILE}{'g' * 200}"
"""A group of 500 members with long ids; it reads 5,000 partitions of topics with long names."""
TOPICS_OF_HUGE = [f"{HOSTILE}{number:03}{'t' * 200}" for number in range(100)]
MOST_BYTES = 300_000
MOST_BYTES_SENT = 75_000
"""Of a page and all of its files, compressed."""
_HUGE = urlencode({"group": HUGE})
PAGES = (
    *("", "?sort=group_id&page=20", f"group?{_HUGE}", "overview/sparklines"),
    *(f"group/{part}?{_HUGE}" for part in ("why", "timeline", "alert", "plan")),
    f"compare?{_HUGE}&group=team-00001-consumer",
    *(f"topic?topic={TOPIC}", "topics", "transactions", "changes", "alerts", "sql", "health"),
    "sql?query=FROM+group_offsets",
)
TABS_OF_HUGE = (
    *(f"group?{_HUGE}&tab={tab}" for tab in ("partitions", "members", "events", "transactions")),
    *(f"group/{part}?{_HUGE}" for part in ("records", "transactions")),
)


def of_group(name: str) -> Row:
    """The columns of a row of a group, in the group's log partition."""
    return {"group_id": name, "log_partition": partition_for(name, LOG_PARTITIONS)}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> TestClient:
    """The page of 1,000 groups that read one topic, and of `HUGE`, which reads many more."""
    folder = create_tables(
        tmp_path_factory.mktemp("large") / "tables", log_partitions=str(LOG_PARTITIONS)
    )
    now = datetime.now(timezone.utc)
    names = [f"team-{number:05}-consumer" for number in range(GROUPS)]
    places = [(TOPIC, partition) for partition in range(200)]
    places += [(topic, number) for number in range(50) for topic in TOPICS_OF_HUGE]
    members = [f"{HOSTILE}{'m' * 200}{number:03}" for number in range(500)]
    offsets = [of_group(name) | offset_row(name, 100, now, TOPIC) for name in names]
    offsets_of_huge = [
        of_group(HUGE) | offset_row(HUGE, 1, now, *place, metadata=HOSTILE) for place in places[:-1]
    ]
    apply_micro_batch(
        folder,
        progress=[
            {"log_partition": number, "updated_at": now, "next_offset": 40, "high_watermark": 40}
            for number in range(LOG_PARTITIONS)
        ],
        groups=[
            of_group(name) | {"state": "Stable", "member_count": 1, "generation": 3}
            for name in (*names, HUGE)
        ],
        group_members=[
            {
                **{**of_group(HUGE), "member_id": f"{member}-51f4c0de-0000-4000-8000"},
                **{"client_id": member, "client_host": "/10.20.30.40"},
                "subscribed_topics": [TOPIC, *TOPICS_OF_HUGE],
                "assignment": [
                    {"topic": topic, "topic_id": None, "partition": partition}
                    for topic, partition in places[number :: len(members)]
                ],
            }
            for number, member in enumerate(members)
        ],
        group_offsets=[*offsets, *offsets_of_huge],
        offset_commits=history_of(row | {"metadata": HOSTILE * 50} for row in offsets_of_huge),
        group_events=[
            moved(event, 990, 100, **by_member(member, member), **of_group(HUGE))
            | {"record_offset": number, "record_timestamp": at, "day": at.date()}
            for number, member in enumerate(members[:EVENTS])
            for at in [now - timedelta(minutes=6 * number)]
            for event in ("offset_rewind", "offset_reset")
        ],
    )
    times = (now - timedelta(minutes=1), now)
    ends = [sample(at, 1_000, *place) for at in times for place in places[:200]]
    write_rows(folder, "log_offsets", ends)
    return page_client(prod=folder)


@pytest.mark.long
@pytest.mark.parametrize("page", PAGES)
def test_no_page_is_heavy(client: TestClient, page: str) -> None:
    answer = client.get(f"/c/prod/{page}")
    assert answer.status_code == 200
    assert len(answer.content) < MOST_BYTES or page.startswith("sql?")
    files = re.findall(r'(?:href|src)="(/static/[^"]+)"', answer.text)
    bytes_sent = 0
    for address in (f"/c/prod/{page}", *files):
        answer = client.get(address, headers={"Accept-Encoding": "gzip"})
        assert answer.status_code == 200
        bytes_sent += answer.num_bytes_downloaded
    assert bytes_sent < MOST_BYTES_SENT


@pytest.mark.parametrize("page", TABS_OF_HUGE)
def test_no_table_of_a_huge_group_is_heavy(client: TestClient, page: str) -> None:
    answer = client.get(f"/c/prod/{page}")
    assert answer.status_code == 200
    assert len(answer.content) < MOST_BYTES


@pytest.mark.parametrize(
    ("first", "range_"),
    [("70", (64, 127)), ("9999", (192, 199)), ("-1", (0, 63)), ("9" * 5_000, (0, 63))],
)
def test_a_matrix_has_at_most_64_partitions(
    client: TestClient, first: str, range_: tuple[int, int]
) -> None:
    shown = page_of(client, "topic", topic=TOPIC, first=first)
    headings = part_of(shown, '"matrix">', "</tr>")
    numbers = [int(number) for number in re.findall(r'<th scope="col"[^>]*>(\d+)', headings)]
    assert (numbers[0], numbers[-1]) == range_
    assert f"partitions {range_[0]} to {range_[1]} of 200" in shown
    ranges = part_of(shown, 'aria-label="Ranges of partitions"', "</nav>")
    assert ("Next</a>" in ranges, "Previous</a>" in ranges) == (range_[1] < 199, range_[0] > 0)
    # The groups of the page are fewer, the more partitions it has.
    assert 0 < len(re.findall(r'<td class="\w+" title=', shown)) <= MAX_CELLS


def test_a_matrix_has_partitions_without_samples_or_commits(client: TestClient) -> None:
    shown = page_of(client, "topic", topic=TOPICS_OF_HUGE[-1])
    assert shown.count('title="assigned, nothing committed; lag unknown"') == 1
    assert "the log was not sampled yet; committed 1; owner" in shown


def test_static_files_are_kept_as_long_as_they_are_the_same(client: TestClient) -> None:
    overview = client.get("/c/prod/")
    assert overview.headers["Cache-Control"] == "no-store"
    address = re.findall(r'"(/static/page.css[^"]+)"', overview.text)[0]
    forever = "public, max-age=31536000, immutable"
    assert client.get(address).headers["Cache-Control"] == forever
    for other in ("/static/page.css", f"{address[:-1]}x"):
        assert client.get(other).headers["Cache-Control"] == "no-cache"
    assert client.get("/static/nothing.css").status_code == 404
    # Only pages with charts load their script.
    group = client.get(f"/c/prod/group?{_HUGE}").text
    assert re.search(r"/static/uPlot\.iife\.min\.js\?v=\w{16}", group)
    assert "uPlot" not in overview.text


@pytest.mark.parametrize("address", ["/c/prod/", "/static/page.css"])
def test_text_is_compressed_if_the_client_accepts_it(client: TestClient, address: str) -> None:
    plain = client.get(address)
    small = client.get(address, headers={"Accept-Encoding": "br, gzip"})
    assert "Content-Encoding" not in plain.headers
    assert small.headers["Content-Encoding"] == "gzip"
    sent_bytes = small.num_bytes_downloaded
    assert int(small.headers["Content-Length"]) == sent_bytes < len(plain.content) / 2
    assert plain.headers["Vary"] == small.headers["Vary"] == "Accept-Encoding"
    refused = client.get(address, headers={"Accept-Encoding": "gzip;q=0"})
    assert "Content-Encoding" not in refused.headers
    if address == "/static/page.css":
        assert small.content == plain.content
        # The bytes differ, so the tag must not be a strong one.
        assert small.headers["ETag"] == f"W/{plain.headers['ETag']}"
        again = {"Accept-Encoding": "gzip", "If-None-Match": small.headers["ETag"]}
        assert client.get(address, headers=again).status_code == 304


def test_small_and_binary_answers_are_not_compressed(client: TestClient) -> None:
    accepts = {"Accept-Encoding": "gzip"}
    for address in ("/static/icon.svg", "/c/prod/sql?query=SELECT+1&format=parquet"):
        answer = client.get(address, headers=accepts)
        assert answer.status_code == 200
        assert "Content-Encoding" not in answer.headers
    assert client.get("/", headers=accepts).status_code == 302
