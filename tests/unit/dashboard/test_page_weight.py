"""How heavy pages are: a limit in bytes, compression, and files that browsers keep."""

from __future__ import annotations

import gzip
import re
from datetime import datetime, timedelta, timezone
from pathlib import Path
from urllib.parse import urlencode

import pytest
from flask.testing import FlaskClient

from coordinator_state.replay.partitioner import partition_for
from streaming.dashboard.app import create_app
from tests.support.tables.dashboard_tables import HOSTILE
from tests.support.tables.tables_folder import Row, apply_micro_batch, create_tables, write_rows

GROUPS, PARTITIONS, MEMBERS, EVENTS, LOG_PARTITIONS = 3_000, 200, 100, 100, 50
TOPIC = "payments.transactions.settled.v1"
MOST_BYTES = 300_000
MOST_BYTES_SENT = 75_000
"""Of a page and all of its files, compressed."""
PAGES = (
    "",
    "?sort=group_id&page=60",
    *(
        f"group?{urlencode({'group': 'team-00000-consumer'})}",
        *(
            f"group/{part}?group=team-00000-consumer"
            for part in ("why", "timeline", "records", "alert", "plan")
        ),
        *("overview/sparklines", "compare?group=team-00000-consumer&group=team-00001-consumer"),
    ),
    f"topic?{urlencode({'topic': TOPIC})}",
    *("topics", "transactions", "changes", "alerts", "sql", "health"),
)


def of_group(name: str) -> Row:
    """The columns of a row of a group, in the group's log partition."""
    return {"group_id": name, "log_partition": partition_for(name, LOG_PARTITIONS)}


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Tables of 3,000 groups that read one topic, one of them with each of its partitions."""
    folder = create_tables(
        tmp_path_factory.mktemp("large") / "tables", log_partitions=str(LOG_PARTITIONS)
    )
    now = datetime.now(timezone.utc)
    names = [f"team-{number:05}-consumer" for number in range(GROUPS)]
    first = names[0]
    apply_micro_batch(
        folder,
        progress=[
            {"log_partition": number, "updated_at": now, "next_offset": 40, "high_watermark": 40}
            | {"records_read": 40, "records_applied": 40, "batch_id": 0}
            for number in range(LOG_PARTITIONS)
        ],
        groups=[
            of_group(name) | {"state": "Stable", "member_count": 1, "generation": 3}
            for name in names
        ],
        group_members=[
            of_group(first)
            | {"member_id": f"consumer-payments-{number}-51f4c0de-0000-4000-8000"}
            | {"client_id": f"consumer-payments-{number}", "client_host": "/10.20.30.40"}
            | {"subscribed_topics": [TOPIC]}
            | {"assignment": [{"topic": TOPIC, "topic_id": None, "partition": number}]}
            for number in range(MEMBERS)
        ],
        group_offsets=[
            of_group(name)
            | {"topic": TOPIC, "partition": partition, "metadata": ""}
            | {"committed_offset": 100, "commit_timestamp": now}
            for name in names
            for partition in range(PARTITIONS if name == first else 1)
        ],
        group_events=[
            of_group(first)
            | {"event": event, "record_offset": number}
            | {"record_timestamp": now - timedelta(minutes=6 * number), "event_number": 0}
            | {"day": (now - timedelta(minutes=6 * number)).date()}
            | {"topic": TOPIC, "partition": number, "offset_before": 990, "offset_after": 100}
            | {"member_id": f"consumer-payments-{number}-51f4c0de-0000-4000-8000"}
            | {"client_id": f"consumer-payments-{number}", "client_host": "/10.20.30.40"}
            for number in range(EVENTS)
            for event in ("offset_rewind", "offset_reset")
        ],
    )
    write_rows(
        folder,
        "log_offsets",
        [
            {"topic": TOPIC, "partition": partition, "state": "present", "topic_id": "T"}
            | {"sampled_at": now - timedelta(seconds=ago), "day": now.date()}
            | {"log_start_offset": 0, "log_end_offset": 1_000, "last_stable_offset": 1_000}
            for ago in (60, 0)
            for partition in range(PARTITIONS)
        ],
    )
    return folder


@pytest.fixture(scope="module")
def client(large: str) -> FlaskClient:
    return create_app({"prod": large}).test_client()


def sent(client: FlaskClient, address: str) -> bytes:
    """The bytes that a browser gets for a page or a file."""
    answer = client.get(address, headers={"Accept-Encoding": "gzip"}, buffered=True)
    assert answer.status_code == 200
    return answer.data


@pytest.mark.parametrize("page", PAGES)
def test_no_page_is_heavy(client: FlaskClient, page: str) -> None:
    answer = client.get(f"/c/prod/{page}")
    assert answer.status_code == 200
    assert len(answer.data) < MOST_BYTES
    files = re.findall(r'(?:href|src)="(/static/[^"]+)"', answer.text)
    first = sum(len(sent(client, address)) for address in (f"/c/prod/{page}", *files))
    assert first < MOST_BYTES_SENT


def test_no_tab_of_a_large_group_is_heavy(tmp_path: Path) -> None:
    """500 members with long ids and 5,000 partitions of topics with long names."""
    now = datetime.now(timezone.utc)
    group = f"{HOSTILE}{'g' * 200}"
    topics = [f"{HOSTILE}{number:03}{'t' * 200}" for number in range(100)]
    members = [f"{HOSTILE}{'m' * 200}{number:03}" for number in range(500)]
    partitions = [(topic, number) for number in range(50) for topic in topics]
    offset = {"group_id": group, "committed_offset": 1, "commit_timestamp": now}
    record = {"record_timestamp": now, "day": now.date(), "is_tombstone": False}
    tables = create_tables(tmp_path / "large")
    apply_micro_batch(
        tables,
        progress=[{"updated_at": now}],
        groups=[{"group_id": group, "state": "Stable", "member_count": 500, "generation": 1}],
        group_members=[
            {
                **{"group_id": group, "member_id": member, "client_id": HOSTILE},
                "subscribed_topics": topics,
                "assignment": [
                    {"topic": topic, "topic_id": None, "partition": partition}
                    for topic, partition in partitions[number::500]
                ],
            }
            for number, member in enumerate(members)
        ],
        group_offsets=[
            {**offset, "topic": topic, "partition": partition, "metadata": HOSTILE}
            for topic, partition in partitions
        ],
        offset_commits=[
            {
                **{**offset, **record, "topic": topic, "partition": partition},
                **{"metadata": HOSTILE * 50, "record_offset": number},
                **{"outcome": "committed", "outcome_record_offset": number},
            }
            for number, (topic, partition) in enumerate(partitions)
        ],
    )
    client = create_app({"prod": tables}).test_client()
    for path, tab in (
        *(("group", tab) for tab in ("partitions", "members", "events", "transactions")),
        *(("group/records", ""), ("group/transactions", "")),
    ):
        answer = client.get(f"/c/prod/{path}?{urlencode({'group': group, 'tab': tab})}")
        assert answer.status_code == 200
        assert len(answer.data) < MOST_BYTES, (path, tab, len(answer.data))


def test_an_answer_of_sql_is_not_heavy_either(client: FlaskClient) -> None:
    answer = sent(client, "/c/prod/sql?query=FROM+group_offsets")
    assert "1,000 rows; the files have more" in gzip.decompress(answer).decode()
    assert len(answer) < MOST_BYTES_SENT


def test_only_pages_with_charts_load_their_script(client: FlaskClient) -> None:
    group = client.get("/c/prod/group?group=team-00000-consumer").text
    assert re.search(r"/static/uPlot\.iife\.min\.js\?v=\w{16}", group)
    assert "uPlot" not in client.get("/c/prod/").text


def test_static_files_are_kept_as_long_as_they_are_the_same(client: FlaskClient) -> None:
    address = re.findall(r'"(/static/page.css[^"]+)"', client.get("/c/prod/").text)[0]
    forever = "public, max-age=31536000, immutable"
    assert client.get(address, buffered=True).headers["Cache-Control"] == forever
    for other in ("/static/page.css", f"{address[:-1]}x"):
        assert client.get(other, buffered=True).headers["Cache-Control"] == "no-cache"
    assert client.get("/c/prod/").headers["Cache-Control"] == "no-store"
    assert client.get("/static/nothing.css").status_code == 404


@pytest.mark.parametrize("address", ["/c/prod/", "/static/page.css"])
def test_text_is_compressed_for_who_accepts_it(client: FlaskClient, address: str) -> None:
    plain = client.get(address, buffered=True)
    small = client.get(address, headers={"Accept-Encoding": "br, gzip"}, buffered=True)
    assert "Content-Encoding" not in plain.headers
    assert small.headers["Content-Encoding"] == "gzip"
    assert int(small.headers["Content-Length"]) == len(small.data) < len(plain.data) / 2
    assert plain.headers["Vary"] == small.headers["Vary"] == "Accept-Encoding"
    refused = client.get(address, headers={"Accept-Encoding": "gzip;q=0"}, buffered=True)
    assert "Content-Encoding" not in refused.headers
    if address == "/static/page.css":
        assert gzip.decompress(small.data) == plain.data
        again = {"Accept-Encoding": "gzip", "If-None-Match": small.headers["ETag"]}
        assert client.get(address, headers=again, buffered=True).status_code == 304


def test_small_and_binary_answers_are_not_compressed(client: FlaskClient) -> None:
    accepts = {"Accept-Encoding": "gzip"}
    for address in ("/static/icon.svg", "/c/prod/sql?query=SELECT+1&format=parquet"):
        answer = client.get(address, headers=accepts, buffered=True)
        assert answer.status_code == 200
        assert "Content-Encoding" not in answer.headers
    assert client.get("/", headers=accepts).status_code == 302
