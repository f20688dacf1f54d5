"""Burrow's addresses: answers of the shape of a real Burrow's, and the statuses of its rules."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from streaming.api.app import create_app
from streaming.lag.burrow_status import burrow_group_statuses, burrow_partition_statuses
from streaming.served.cluster import Cluster
from tests.support.browser.html import api_client, client_of, json_of
from tests.support.tables.dashboard_tables import HOSTILE, REWOUND, DashboardTables
from tests.support.tables.sample_rows import offset_row
from tests.support.tables.tables_folder import NOW, apply_micro_batch, create_tables

GOLDEN = json.loads(
    (Path(__file__).parents[2] / "golden" / "burrow_answers.json").read_text(encoding="utf-8")
)
"""By address: answers of linkedin/Burrow at commit ced55ba, beside the demo with Kafka 4.4.0."""
CONSUMERS = "/v3/kafka/prod/consumer"
NULLABLE = {"lag", "start", "end", "maxlag", "tls", "sasl"}
"""The pointers among the fields of Burrow's types."""


def assert_same_shape(ours: Any, burrow: Any, name: str = "") -> None:
    """Every field of Burrow's, in its order, and of its type."""
    if isinstance(burrow, dict) and name == "topics":
        burrow, ours = list(burrow.values()), list(ours.values())
    if (ours is None or burrow is None) and name in NULLABLE:
        return
    if isinstance(burrow, dict):
        assert list(ours) == list(burrow), name
        for field, value in burrow.items():
            assert_same_shape(ours[field], value, field)
    elif isinstance(burrow, list):
        assert isinstance(ours, list), name
        known = [item for item in burrow if item is not None]
        for item in ours:
            # Objects in lists are pointers; an offset is null if there are not ten commits yet.
            if known and not (item is None and isinstance(known[0], dict)):
                assert_same_shape(item, known[0], f"{name}[]")
    elif isinstance(burrow, float | int) and not isinstance(burrow, bool):
        assert isinstance(ours, float | int), name
    else:
        assert type(ours) is type(burrow), name


@pytest.mark.parametrize("path", GOLDEN)
def test_an_answer_has_the_shape_of_burrows(client: TestClient, path: str) -> None:
    named = {"demo": "prod", "orders": HOSTILE, "invoices": HOSTILE, "nope": "nope"}
    kept = {"v3", "kafka", "topic", "consumer", "consumers", "status", "lag"}
    asked = "/".join(
        part if part in kept or not part else quote(named.get(part, REWOUND), safe="")
        for part in path.split("/")
    )
    burrow = GOLDEN[path]
    answer = json_of(client, asked, burrow["status"])
    assert_same_shape(answer, burrow["body"])
    for field in ("error", "message"):
        assert answer[field] == burrow["body"][field]


def test_statuses_are_those_of_burrows_rules(tables: DashboardTables) -> None:
    cluster = Cluster("prod", tables.folder)
    snapshot = cluster.snapshot()
    # Statuses change with time: all of them are of this moment.
    cluster._computed_at_s = math.inf
    client = client_of(create_app({"prod": cluster}))
    reader, at = snapshot.reader, snapshot.at
    groups = {row["group_id"]: row for row in burrow_group_statuses(reader, at=at).to_pylist()}
    rows = burrow_partition_statuses(reader, at=at).to_pylist()
    assert json_of(client, CONSUMERS)["consumers"] == sorted(groups)
    for group in (REWOUND, HOSTILE, "group-000"):
        address = f"{CONSUMERS}/{quote(group, safe='')}"
        status = json_of(client, f"{address}/lag")["status"]
        partitions = status["partitions"]
        assert status["status"] == groups[group]["status"]
        assert status["totallag"] == groups[group]["lag"]
        own = [row for row in rows if row["group_id"] == group]
        for name in ("topic", "partition", "status"):
            assert [place[name] for place in partitions] == [row[name] for row in own]
        lags = [place["current_lag"] for place in partitions]
        assert status["maxlag"]["current_lag"] == max(lags)
        # The short status has only partitions that are not OK.
        short = json_of(client, f"{address}/status")["status"]
        assert short["partitions"] == [place for place in partitions if place["status"] != "OK"]
        assert short["partition_count"] == len(lags) == 2


def test_the_place_in_a_list_is_the_number_of_the_partition(tmp_path: Path) -> None:
    folder = create_tables(tmp_path)
    apply_micro_batch(
        folder,
        progress=[{"updated_at": NOW, "next_offset": 5}],
        groups=[{"group_id": "g", "state": "Stable", "member_count": 1}],
        group_offsets=[offset_row("g", 7, NOW, "t", partition) for partition in (1, 3)],
    )
    client = api_client(prod=folder)
    detail = json_of(client, f"{CONSUMERS}/g")
    assert [len(place["offsets"]) for place in detail["topics"]["t"]] == [0, 10, 0, 10]
    partitions = json_of(client, f"{CONSUMERS}/g/lag")["status"]["partitions"]
    assert [partition["partition"] for partition in partitions] == [0, 1, 2, 3]
    assert [partition["complete"] for partition in partitions] == [0, 0.1, 0, 0.1]
    # No log end was sampled; -1 keeps the places.
    assert json_of(client, "/v3/kafka/prod/topic/t")["offsets"] == [-1, -1, -1, -1]
