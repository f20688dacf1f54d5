"""`/api/v1/groups`: answers are the rows of the views, and the value that KEDA scales by."""

from __future__ import annotations

import subprocess
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import requests
from ruamel.yaml import YAML
from starlette.testclient import TestClient

from coordinator_state.records.internal_topics import OFFSETS_TOPIC
from streaming.api import groups
from streaming.api.app import create_app, serving_api
from streaming.api.cursors import write_cursor
from streaming.served.cluster import Cluster
from streaming.views.coordinator_tables import CoordinatorTables
from tests.support.browser.html import api_client, client_of, json_of, pages_of
from tests.support.deploy.go_programs import go_programs
from tests.support.tables.dashboard_tables import GROUPS, HOSTILE, REWOUND, DashboardTables
from tests.support.tables.sample_rows import member_row, offset_row, sample
from tests.support.tables.tables_folder import NOW, apply_micro_batch, create_tables, write_rows

ALL = GROUPS + 2


def items(client: TestClient, path: str, **arguments: Any) -> list[dict[str, Any]]:
    """The items of all pages."""
    return [item for page in pages_of(client, path, **arguments) for item in page]


def ids(rows: list[dict[str, Any]]) -> list[str]:
    return [row["group_id"] for row in rows]


@pytest.mark.parametrize("limit", [7, ALL])
def test_pages_of_any_size_have_each_group_once(
    client: TestClient, tables: DashboardTables, limit: int
) -> None:
    at = tables.after.isoformat()
    view = CoordinatorTables(tables.folder).as_of(at).status().arrow.sort_by("group_id")
    rows = items(client, "groups", limit=limit, at=at)
    for name in ("group_id", "status", "reason", "lag", "partitions", "max_time_lag_ms"):
        assert [row[name] for row in rows] == view[name].to_pylist()
    assert {row["member_count"] for row in rows} == {1}
    assert {row["lag_of_partitions"] for row in rows} == {None}


def test_one_request_has_all_groups_with_their_partitions(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = json_of(client, "/api/v1/groups?include=partitions")
    assert (answer["total"], answer["next_cursor"]) == (ALL, None)
    for group in answer["items"]:
        partitions = group["lag_of_partitions"]
        assert [row["partition"] for row in partitions] == [0, 1]
        assert {row["group_id"] for row in partitions} == {group["group_id"]}
        assert sum(row["lag"] for row in partitions) == group["lag"]
    # A page ends before it has too many partitions.
    monkeypatch.setattr(groups, "MOST_PARTITIONS", 5)
    assert len(json_of(client, "/api/v1/groups?include=partitions")["items"]) == 2
    monkeypatch.setattr(groups, "MOST_PARTITIONS", 1)
    assert len(items(client, "groups", include="partitions", search="group-00")) == 10


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ({"status": ["REWIND", "HANGING_TRANSACTION"]}, [HOSTILE, REWOUND]),
        ({"group": ["group-007", "group-003", "nope"]}, ["group-003", "group-007"]),
        ({"search": "group-01", "status": "OK"}, [f"group-01{number}" for number in range(10)]),
        ({"state": "Stable", "type": "classic", "search": "payments"}, [REWOUND]),
        ({"state": "Dead"}, []),
        ({"type": "share"}, []),
        ({"topic": "orders"}, []),
    ],
)
def test_all_filters_must_hold(
    client: TestClient, arguments: dict[str, Any], wanted: list[str]
) -> None:
    assert ids(items(client, "groups", **arguments)) == wanted


def test_a_group_now_and_in_the_past(client: TestClient, tables: DashboardTables) -> None:
    (before,) = items(client, "groups", group=REWOUND, at=tables.before.isoformat())
    (after,) = items(client, "groups", group=REWOUND)
    assert (before["status"], after["status"]) == ("OK", "REWIND")
    # `run` has not evaluated these tables.
    assert after["status_since"] is None

    group = json_of(client, f"/api/v1/groups/{quote(HOSTILE, safe='')}")["group"]
    (member,) = group["members"]
    assert (group["group_id"], member["client_id"]) == (HOSTILE, HOSTILE)
    assert [place["partition"] for place in member["assignment"]] == [0, 1]

    rows = items(client, f"topics/{quote(HOSTILE, safe='')}/groups", limit=50)
    assert len(rows) == ALL
    (rewound,) = (row for row in rows if row["group_id"] == REWOUND)
    assert (rewound["partitions"], rewound["lag"]) == (2, 1_800)

    first = json_of(client, f"/api/v1/groups/{REWOUND}/explanation")["evidence"][0]
    assert first["cause"] == "offset_rewind"
    assert first["record_ids"] == [{"log_partition": 0, "record_offset": 39}]

    (transaction,) = items(client, "transactions", is_hanging="true")
    assert (transaction["group_id"], transaction["producer_id"]) == (HOSTILE, 7)
    assert [row["committed_offset"] for row in transaction["offsets"]] == [999]
    assert items(client, "transactions", group=REWOUND) == []
    assert items(client, "alerts") == []


def test_a_large_transaction_is_cut(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streaming.api.transactions._MOST_OFFSETS", 0)
    (transaction,) = items(client, "transactions")
    assert (transaction["offsets"], transaction["offset_count"]) == ([], 1)


def test_the_lag_of_a_group_is_that_of_the_view(
    client: TestClient, tables: DashboardTables
) -> None:
    at, path = tables.after.isoformat(), f"groups/{REWOUND}/lag"
    view = CoordinatorTables(tables.folder).as_of(at).lag(REWOUND).arrow.to_pylist()
    rows = items(client, path, limit=1, at=at)
    for row, view_row in zip(rows, view, strict=True):
        known = {name: value for name, value in view_row.items() if not hasattr(value, "isoformat")}
        assert known.items() <= row.items()
    assert [row["status"] for row in rows] == ["REWIND", "OK"]
    assert items(client, path, topic="orders") == []
    assert [row["status"] for row in items(client, path, status="REWIND")] == ["REWIND"]


@pytest.mark.parametrize(
    ("path", "status", "detail"),
    [
        ("groups/paymnets", 404, "unknown group paymnets; did you mean payments?"),
        ("groups/x/explanation", 404, "unknown group x"),
        ("topics/orders/groups", 404, "no group reads topic orders"),
        ("nope", 404, "/api/v1/openapi.json has the addresses"),
        ("groups?limt=1", 400, "unknown parameter limt; did you mean limit?"),
        ("groups?limit=0", 400, "limit: input should be greater than or equal to 1"),
        ("groups?limit=1&limit=2", 400, "limit: given 2 times"),
        ("groups?status=STUCK", 400, "status: input should be 'IDLE', 'OK'"),
        ("groups?at=soon", 400, "'soon' is neither a version nor a time"),
        ("groups?cursor=%C3%A9", 400, "cursor: this is not the next_cursor"),
        ("groups?cluster=stage", 404, "unknown cluster stage: this server has prod"),
        ("events?event=moved", 400, "event: input should be"),
        (
            f"events?cursor={write_cursor((1, 10**30, 1, 1))}",
            400,
            "is not the next_cursor",
        ),
        ("events?cursor=WyJ4IiwxLDEsMV0", 400, "cursor: this is not the next_cursor"),
    ],
)
def test_errors_say_in_one_line_what_is_wrong(
    client: TestClient, path: str, status: int, detail: str
) -> None:
    answer = client.get(f"/api/v1/{path}")
    assert answer.headers["Content-Type"] == "application/problem+json"
    problem = json_of(client, f"/api/v1/{path}", status)
    assert problem["status"] == status
    assert detail in problem["detail"]
    assert "\n" not in problem["detail"]


def test_an_answer_that_has_not_changed_is_not_sent_again(
    client: TestClient, tables: DashboardTables
) -> None:
    path = f"/api/v1/groups?at={quote(tables.after.isoformat())}"
    first = client.get(path)
    again = client.get(path, headers={"If-None-Match": first.headers["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    other = client.get(f"{path}&limit=1", headers={"If-None-Match": first.headers["ETag"]})
    assert other.status_code == 200


def test_several_clusters(tables: DashboardTables) -> None:
    gone = Cluster("gone", f"{tables.folder}-gone")
    client = client_of(create_app({"prod": Cluster("prod", tables.folder), "gone": gone}))
    refused = json_of(client, "/api/v1/groups", 400)
    assert refused["detail"] == "cluster: this server has several; name one of prod, gone"
    assert len(items(client, "groups", cluster="prod")) == ALL
    prod, other = json_of(client, "/api/v1/status")["clusters"]
    assert (prod["cluster"], prod["fault"], prod["records_read"]) == ("prod", None, 40)
    assert prod["statuses"] == {"HANGING_TRANSACTION": 1, "REWIND": 1, "OK": GROUPS}
    assert (other["cluster"], other["groups"]) == ("gone", None)
    assert "gone" in other["fault"]


@pytest.mark.long
@pytest.mark.release
@pytest.mark.timeout(1_800)
def test_keda_finds_the_documented_value(client: TestClient, repository: Path) -> None:
    page = (repository / "docs" / "api.md").read_text()
    example = page.partition("```yaml\n")[2].partition("```")[0]
    (trigger,) = YAML(typ="safe", pure=True).load(example)["triggers"]
    assert trigger["type"] == "metrics-api"
    path = trigger["metadata"]["url"].partition(":8060")[2]
    scaler = subprocess.run(
        [go_programs() / "keda", trigger["metadata"]["valueLocation"]],
        input=client.get(path).content,
        capture_output=True,
        check=True,
    )
    assert float(scaler.stdout) == 1_800


def scaling_lag(client: TestClient, group: str) -> tuple[int, ...]:
    answer = json_of(client, f"/api/v1/groups/{group}/scaling-lag")
    return answer["scaling_lag"], answer["lag"], answer["partitions"]


def test_an_unknown_scaling_lag_is_an_error_and_no_number(
    client: TestClient, tmp_path: Path
) -> None:
    assert scaling_lag(client, REWOUND) == (1_800, 1_800, 2)
    folder, now = create_tables(tmp_path), datetime.now(timezone.utc)
    apply_micro_batch(
        folder,
        progress=[{"updated_at": now, "next_offset": 5}],
        groups=[
            {"group_id": name, "state": "Stable", "member_count": 1}
            for name in ("new", "read", "silent")
        ],
        group_members=[member_row("silent", "m", "t", [0])],
        coordinator_records=[{"group_id": "silent", "record_type": 2, "record_timestamp": now}],
        group_offsets=[offset_row("read", 7, now, "unsampled")],
    )
    write_rows(folder, "log_offsets", [sample(now, 10), sample(now, 5, OFFSETS_TOPIC)])
    client = api_client(c=folder)
    answer = client.get("/api/v1/groups/read/scaling-lag")
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "30")
    assert "the lag of group read is unknown" in answer.text
    # A first consumer has to find out how far these are behind.
    for group in ("new", "none"):
        assert scaling_lag(client, group) == (1, 1, 0)
    # A member has read nothing new, as far as is known; without a member, it had the lag 1.
    assert scaling_lag(client, "silent") == (1, 1, 1)
    # Commits may be among those that are not loaded yet.
    apply_micro_batch(folder, progress=[{"state": "loading", "updated_at": now}])
    answer = api_client(c=folder).get("/api/v1/groups/none/scaling-lag")
    assert (answer.status_code, "not loaded" in answer.text) == (503, True)


def test_a_slash_in_a_group_id_is_no_end_of_it(tmp_path: Path) -> None:
    """Through a real server, and below Burrow's addresses."""
    groups = ["payments", "payments/lag", "payments%2Flag", "100%", "/a", "//evil.example", "a//b"]
    folder = create_tables(tmp_path)
    apply_micro_batch(
        folder,
        progress=[{"updated_at": NOW, "next_offset": 5}],
        groups=[{"group_id": group} for group in groups],
        group_offsets=[offset_row(group, 7, NOW) for group in groups],
    )
    with serving_api({"c": folder}) as server:

        def answer(path: str) -> Any:
            return requests.get(f"{server.rstrip('/')}{path}", timeout=60).json()

        for group in groups:
            name = quote(group, safe="")
            assert answer(f"/api/v1/groups/{name}")["group"]["group_id"] == group
            assert answer(f"/api/v1/groups/{name}/lag")["items"][0]["group_id"] == group
            assert answer(f"/v3/kafka/c/consumer/{name}/status")["status"]["group"] == group
        whole = answer("/v3/kafka/c/consumer/payments/lag")
        assert whole["status"]["group"] == "payments"
        assert whole["request"]["url"] == "/v3/kafka/c/consumer/payments/lag"
