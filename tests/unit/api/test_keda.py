"""KEDA's scaler `metrics-api` on `/groups/{group}/scaling-lag`."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from flask.testing import FlaskClient
from ruamel.yaml import YAML

from streaming.api.app import create_app
from streaming.served.cluster import Cluster
from tests.support.browser.html import json_of
from tests.support.deploy.go_programs import go_programs
from tests.support.tables.dashboard_tables import REWOUND
from tests.support.tables.tables_folder import NOW, apply_micro_batch, create_tables


def test_the_lag_of_a_group(client: FlaskClient) -> None:
    answer = json_of(client, f"/api/v1/groups/{REWOUND}/scaling-lag")
    assert (answer["scaling_lag"], answer["lag"], answer["partitions_to_read"]) == (1_800, 1_800, 2)


@pytest.mark.long
@pytest.mark.timeout(1_800)
def test_keda_finds_the_documented_value(client: FlaskClient, repository: Path) -> None:
    page = (repository / "docs" / "api.md").read_text()
    example = page.partition("```yaml\n")[2].partition("```")[0]
    (trigger,) = YAML(typ="safe", pure=True).load(example)["triggers"]
    assert trigger["type"] == "metrics-api"
    path = trigger["metadata"]["url"].partition(":8060")[2]
    answer = client.get(path)
    found = subprocess.run(
        [go_programs() / "keda", trigger["metadata"]["valueLocation"]],
        input=answer.data,
        capture_output=True,
        check=True,
    )
    assert float(found.stdout) == 1_800


def test_an_unknown_lag_is_an_error_and_no_number(tmp_path: Path) -> None:
    folder = create_tables(tmp_path)
    apply_micro_batch(
        folder,
        progress=[{"updated_at": NOW, "next_offset": 5}],
        groups=[{"group_id": "new", "state": "Stable", "member_count": 1}, {"group_id": "read"}],
        group_offsets=[{"group_id": "read", "topic": "t", "partition": 0, "committed_offset": 7}],
    )
    client = create_app({"c": Cluster("c", folder)}).test_client()
    for group in ("new", "read"):
        answer = client.get(f"/api/v1/groups/{group}/scaling-lag")
        assert answer.status_code == 503
        assert answer.headers["Retry-After"] == "30"
        assert answer.json is not None
        assert f"the lag of group {group} is unknown" in answer.json["detail"]
    assert client.get("/api/v1/groups/none/scaling-lag").status_code == 404
