"""Burrow's addresses: answers of the shape of a real Burrow's, and the statuses of its rules."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from flask.testing import FlaskClient

from streaming.api.app import create_app
from streaming.lag.burrow_status import burrow_group_statuses, burrow_partition_statuses
from streaming.served.cluster import Cluster
from tests.support.tables.dashboard_tables import HOSTILE, REWOUND, DashboardTables
from tests.support.tables.tables_folder import NOW, apply_micro_batch, create_tables

GOLDEN = json.loads(
    (Path(__file__).parents[2] / "golden" / "burrow_answers.json").read_text(encoding="utf-8")
)
"""By address: answers of linkedin/Burrow at commit ced55ba, beside the demo with Kafka 4.4.0."""
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
        known = [one for one in burrow if one is not None]
        for one in ours:
            # Objects in lists are pointers; an offset is null if there are not ten commits yet.
            if known and not (one is None and isinstance(known[0], dict)):
                assert_same_shape(one, known[0], f"{name}[]")
    elif isinstance(burrow, float | int) and not isinstance(burrow, bool):
        assert isinstance(ours, float | int), name
    else:
        assert type(ours) is type(burrow), name


@pytest.mark.parametrize("path", GOLDEN)
def test_an_answer_has_the_shape_of_burrows(client: FlaskClient, path: str) -> None:
    named = {"demo": "prod", "orders": HOSTILE, "invoices": HOSTILE, "nope": "nope"}
    kept = {"v3", "kafka", "topic", "consumer", "consumers", "status", "lag"}
    asked = "/".join(
        part if part in kept or not part else quote(named.get(part, REWOUND), safe="")
        for part in path.split("/")
    )
    answer = client.get(asked)
    burrow = GOLDEN[path]
    assert answer.json is not None
    assert answer.status_code == burrow["status"]
    assert_same_shape(answer.json, burrow["body"])
    assert (answer.json["error"], answer.json["message"]) == (
        burrow["body"]["error"],
        burrow["body"]["message"],
    )


def test_statuses_are_those_of_burrows_rules(tables: DashboardTables) -> None:
    cluster = Cluster("prod", tables.folder)
    snapshot = cluster.snapshot()
    # Statuses change with time: all of them are of this moment.
    cluster._cached_until = math.inf
    client = create_app({"prod": cluster}).test_client()
    reader, at = snapshot.reader, snapshot.at
    groups = {row["group_id"]: row for row in burrow_group_statuses(reader, at=at).to_pylist()}
    partitions = {
        (row["group_id"], row["topic"], row["partition"]): row["status"]
        for row in burrow_partition_statuses(reader, at=at).to_pylist()
    }
    listed = client.get("/v3/kafka/prod/consumer").json
    assert listed is not None
    assert listed["consumers"] == sorted(groups)
    for group in (REWOUND, HOSTILE, "group-000"):
        answer = client.get(f"/v3/kafka/prod/consumer/{quote(group, safe='')}/lag").json
        assert answer is not None
        status = answer["status"]
        assert (status["status"], status["totallag"]) == (
            groups[group]["status"],
            groups[group]["lag"],
        )
        assert {
            (group, one["topic"], one["partition"]): one["status"] for one in status["partitions"]
        } == {key: value for key, value in partitions.items() if key[0] == group}
        assert status["maxlag"]["current_lag"] == max(
            one["current_lag"] for one in status["partitions"]
        )


def test_the_short_status_has_partitions_that_are_not_ok(client: FlaskClient) -> None:
    whole, short = (
        client.get(f"/v3/kafka/prod/consumer/{REWOUND}/{view}").json for view in ("lag", "status")
    )
    assert whole is not None
    assert short is not None
    assert short["status"]["partitions"] == [
        one for one in whole["status"]["partitions"] if one["status"] != "OK"
    ]
    assert short["status"]["partition_count"] == len(whole["status"]["partitions"]) == 2


def test_the_place_in_a_list_is_the_number_of_the_partition(tmp_path: Path) -> None:
    folder = create_tables(tmp_path)
    apply_micro_batch(
        folder,
        progress=[{"updated_at": NOW, "next_offset": 5}],
        groups=[{"group_id": "a/b", "state": "Stable", "member_count": 1}],
        group_offsets=[
            {"group_id": "a/b", "topic": "t", "partition": partition, "commit_timestamp": NOW}
            | {"committed_offset": 7}
            for partition in (1, 3)
        ],
    )
    client = create_app({"c": Cluster("c", folder)}).test_client()
    detail = client.get("/v3/kafka/c/consumer/a%2Fb").json
    assert detail is not None
    assert [len(one["offsets"]) for one in detail["topics"]["t"]] == [0, 10, 0, 10]
    status = client.get("/v3/kafka/c/consumer/a%2Fb/lag").json
    assert status is not None
    assert [one["partition"] for one in status["status"]["partitions"]] == [0, 1, 2, 3]
    assert [one["complete"] for one in status["status"]["partitions"]] == [0, 0.1, 0, 0.1]
    topic = client.get("/v3/kafka/c/topic/t").json
    assert topic is not None
    # No log end was sampled; -1 keeps the places.
    assert topic["offsets"] == [-1, -1, -1, -1]
