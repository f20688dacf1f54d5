"""Names that attackers choose, through a real broker: stored exactly, and only ever shown.

They are sent as bytes, so that nothing of a client library stands between. A broker takes any bytes
for a group id and metadata; what is no UTF-8 it decodes as Java does, with U+FFFD in its place,
before it writes the record. Tests of the page, metrics and alerts have such names, too.
"""

from __future__ import annotations

import re
import socket
import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import pytest
from kafka import KafkaConsumer
from kafka.structs import OffsetAndMetadata, TopicPartition

from streaming.local.broker.embedded import EmbeddedBroker
from streaming.tables.reader import TableReader
from streaming.verify.verify import verify_cluster
from tests.support.brokers.commits import create_topic
from tests.support.brokers.running_query import run_to_end
from tests.support.clients.admin_client import admin_of
from tests.support.clients.command_line import call, json_lines
from tests.support.eventually import Eventually

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
        create_topic(broker, TOPIC)
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
            run_to_end(broker, spark, folder, lag_interval="1 second")
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
        (offset,) = json_lines(call("offsets", "--tables", tables, "--output", "json", "--", group))
        assert (offset["topic"], offset["metadata"]) == (TOPIC, metadata)
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
