"""Names that attackers choose, through a real broker: stored exactly, and only ever shown.

They are sent as bytes, so that nothing of a client library stands between. A broker takes any bytes
for a group id and metadata; what is no UTF-8 it decodes as Java does, with U+FFFD in its place,
before it writes the record.
"""

from __future__ import annotations

import json
import re
import socket
import struct
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from flask.testing import FlaskClient
from kafka import KafkaConsumer
from kafka.structs import OffsetAndMetadata, TopicPartition
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from streaming.alerts.alert_run import AlertRun
from streaming.dashboard.app import create_app
from streaming.local.broker.embedded import EmbeddedBroker
from streaming.metrics.collector import TablesCollector
from streaming.run.query import run_query
from streaming.run.settings import RunSettings
from streaming.tables.reader import TableReader
from streaming.verify.verify import verify_cluster
from streaming.views.text import printable
from tests.support.brokers.receivers import http_receiver
from tests.support.clients.admin_client import admin_of
from tests.support.clients.command_line import call, json_lines
from tests.support.eventually import Eventually
from tests.support.tables.alert_rules import write_rules

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

TOPIC: Final = "hostile-names"
NAMES: Final = {
    "quotes": "'\"`\\'\\\"",
    "newlines": "a\r\nb\tc\u2028d\x85e",
    "terminal": "\x1b[31mred\x1b]0;title\x07\x9b2J\x08\x7f",
    "html": "<script>alert(1)</script><img src=x onerror=alert(1)>&amp;{{7*7}}",
    "sql": "'; DROP TABLE group_offsets; --",
    "path": "../../../../etc/passwd\\..\\C:",
    "shell": "$(touch /tmp/x)`id`|&;${PATH}",
    "nul": "nul\x00nul",
    "direction": "\u202egnp.exe\u2066\u200b\ufeff",
    "no character": "\uffff\U0010ffff\ue000",
    "markup": "[bold]not[/bold] %s %(x)s {0}",
    "formula": "=HYPERLINK(1)",
    "long": "x" * 32_000,
}
# As Java decodes them.
NOT_UTF8: Final = {
    b"b\xffd": "b\ufffdd",
    b"\xed\xa0\x80 surrogate": "\ufffd surrogate",
    b"cut \xe2\x98": "cut \ufffd",
    b"\xc0\x80 overlong": "\ufffd\ufffd overlong",
}
MEMBER: Final = "<script>'\"\x1b[31m\u202e"
_LONGEST_METADATA: Final = 4_000
_CONTROLS: Final = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u202e\u2066]")
_VIEWS: Final = (
    "groups",
    "members",
    "offsets",
    "lag",
    "status",
    "events",
    "progress",
    "quarantine",
)


def commit(broker: EmbeddedBroker, group: bytes, metadata: bytes) -> None:
    """OffsetCommit, version 2: an offset of partition 0 by nobody in particular."""
    body = b"".join(
        [
            struct.pack(">hhi", 8, 2, 1) + _string(b"client\x1b[0m"),
            _string(group) + struct.pack(">i", -1) + _string(b"") + struct.pack(">q", -1),
            struct.pack(">i", 1) + _string(TOPIC.encode()) + struct.pack(">iiq", 1, 0, 7),
            _string(metadata),
        ]
    )
    host, _, port = broker.bootstrap_servers.partition(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.sendall(struct.pack(">i", len(body)) + body)
        answer = connection.makefile("rb")
        (size,) = struct.unpack(">i", answer.read(4))
        (error_code,) = struct.unpack(">h", answer.read(size)[-2:])
    assert error_code == 0, group[:50]


def _string(raw: bytes) -> bytes:
    return struct.pack(">h", len(raw)) + raw


@pytest.fixture(scope="module")
def tables(
    broker: EmbeddedBroker,
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    eventually: Eventually,
) -> Iterator[str]:
    """Tables of groups with such names, one of which has a member."""
    folder = tmp_path_factory.mktemp("hostile-names")
    tables = str(folder / "tables")
    with admin_of(broker) as admin:
        admin.create_topics(
            {TOPIC: {"num_partitions": 1, "replication_factor": 1}}, wait_for_metadata=True
        )
        for name in NAMES.values():
            commit(broker, name.encode(), name.encode()[:_LONGEST_METADATA])
        for raw in NOT_UTF8:
            commit(broker, raw, raw)
        consumer = KafkaConsumer(
            TOPIC,
            bootstrap_servers=broker.bootstrap_servers,
            group_id=NAMES["html"] + MEMBER,
            group_instance_id="instance",
            client_id=MEMBER,
            enable_auto_commit=False,
            # A leader of the group that does not know the new topic yet assigns nothing. It
            # balances again when it learns of the topic: by default only after five minutes.
            metadata_max_age_ms=1_000,
        )
        try:
            eventually(lambda: consumer.poll(200) or consumer.assignment(), 120)
            consumer.commit({TopicPartition(TOPIC, 0): OffsetAndMetadata(0, MEMBER, -1)})
            run_query(
                RunSettings(
                    bootstrap_servers=broker.bootstrap_servers,
                    tables=tables,
                    checkpoint=str(folder / "checkpoint"),
                    available_now=True,
                ),
                session=spark,
            )
            assert verify_cluster(broker.bootstrap_servers, tables).is_equal
        finally:
            consumer.close()
        yield tables
        names = [*NAMES.values(), *NOT_UTF8.values(), NAMES["html"] + MEMBER]
        admin.delete_groups(names)
        admin.delete_topics([TOPIC])


def stored(tables: str) -> dict[str, str]:
    """The metadata of each group's offset of the topic."""
    rows = TableReader(tables).read("group_offsets").to_pylist()
    return {row["group_id"]: row["metadata"] for row in rows if row["topic"] == TOPIC}


def test_what_clients_chose_is_stored_exactly(tables: str) -> None:
    expected = {name: name[:_LONGEST_METADATA] for name in NAMES.values()}
    expected |= {text: text for text in NOT_UTF8.values()}
    assert stored(tables) == {**expected, NAMES["html"] + MEMBER: MEMBER}
    members = TableReader(tables).read("group_members").to_pylist()
    assert [(m["client_id"], m["group_instance_id"]) for m in members if m["client_id"] == MEMBER]
    assert TableReader(tables).read("quarantine").num_rows == 0


@pytest.mark.parametrize("view", _VIEWS)
def test_show_is_printable_and_its_json_exact(tables: str, view: str) -> None:
    text = call("show", view, "--tables", tables).stdout
    assert not _CONTROLS.search(text)
    shown = call("show", view, "--tables", tables, "--output", "json")
    assert not _CONTROLS.search(shown.stdout)
    assert shown.stdout.isascii()
    rows = [row for row in json_lines(shown) if "group_id" in row]
    if view in ("groups", "offsets", "lag", "status"):
        assert {row["group_id"] for row in rows} >= stored(tables).keys()
    if view == "members":
        assert MEMBER in {row["client_id"] for row in rows}


def test_every_command_takes_such_a_name_for_what_it_is(tables: str) -> None:
    for group, metadata in stored(tables).items():
        if "\0" in group:
            # No argument of a process holds one.
            continue
        assert not _CONTROLS.search(call("offsets", "--tables", tables, "--", group).stdout)
        (found,) = json_lines(call("offsets", "--tables", tables, "--output", "json", "--", group))
        assert (found["topic"], found["metadata"]) == (TOPIC, metadata)
        records = call("show", "offsets", "--tables", tables, f"--group={group}")
        assert not _CONTROLS.search(records.stdout)
        quoted = group.replace("'", "''")
        query = f"SELECT group_id, metadata FROM group_offsets WHERE group_id = '{quoted}'"  # noqa: S608
        (row,) = json_lines(call("sql", query, "--tables", tables, "--output", "json"))
        assert row == {"group_id": group, "metadata": metadata}
        assert not _CONTROLS.search(call("sql", query, "--tables", tables).stdout)
    everything = "SELECT * FROM group_lag"
    assert not _CONTROLS.search(call("sql", everything, "--tables", tables).stdout)
    assert not _CONTROLS.search(call("expiring-offsets", "--tables", tables).stdout)
    # Nobody was served SQL.
    assert TableReader(tables).read("group_offsets").num_rows >= len(NAMES)


class _Page(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attributes)))

    def handle_data(self, data: str) -> None:
        self.text += data


def test_no_page_holds_an_element_that_a_name_made(tables: str) -> None:
    client: FlaskClient = create_app({"prod": tables}).test_client()
    pages = ["overview", "transactions", "changes", "alerts", "health"]
    addresses = [f"/c/prod/{'' if page == 'overview' else page}" for page in pages]
    addresses += [f"/c/prod/group?{urlencode({'group': group})}" for group in stored(tables)]
    addresses += [f"/c/prod/topic?{urlencode({'topic': TOPIC})}"]
    addresses += [f"/c/prod/sql?{urlencode({'query': 'FROM group_offsets'})}"]
    static = Path(str(client.application.static_folder))
    ours = {f"/static/{path.name}" for path in static.glob("*.js")}
    for address in addresses:
        answer = client.get(address)
        assert answer.status_code == 200, address[:100]
        page = _Page(answer.text)
        assert not _CONTROLS.search(page.text), address[:100]
        elements = page.elements
        assert {tag for tag, _ in elements}.isdisjoint({"img", "iframe", "style", "object"})
        assert not [name for _, found in elements for name in found if name.startswith("on")]
        scripts = [found.get("src") or "" for tag, found in elements if tag == "script"]
        assert {urlsplit(script).path for script in scripts} <= ours
    found = client.get(f"/c/prod/?{urlencode({'search': 'DROP TABLE'})}")
    links = [found.get("href") or "" for tag, found in _Page(found.text).elements if tag == "a"]
    assert [NAMES["sql"]] in [parse_qs(urlsplit(link).query).get("group") for link in links]


def test_metrics_have_the_names_as_labels(tables: str) -> None:
    registry = CollectorRegistry()
    registry.register(TablesCollector(tables=tables))
    text = generate_latest(registry).decode()
    samples = [s for family in text_string_to_metric_families(text) for s in family.samples]
    assert {s.labels["group"] for s in samples if "group" in s.labels} >= stored(tables).keys()
    assert all(re.match(r"# |\w+(\{.*\})? \S+$", line) for line in text.split("\n") if line)


def test_a_notice_is_told_of_the_name_itself(tables: str, tmp_path: Path) -> None:
    with http_receiver() as receiver:
        AlertRun(tables, write_rules(tmp_path, receiver.url, "lag: '>= 0'")).round()
        told = {alert["group_id"]: alert for alert in receiver.alerts}
    assert told.keys() >= stored(tables).keys()
    for group, alert in told.items():
        assert not _CONTROLS.search(json.dumps(alert)), printable(group)
