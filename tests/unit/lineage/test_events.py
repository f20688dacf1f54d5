"""Events as JSON, and read back by the classes of OpenLineage's client."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from openlineage.client.event_v2 import RunState
from openlineage.client.serde import Serde

from streaming.lineage.events import PRODUCER, group_event, run_event
from streaming.lineage.relations import GroupTopics
from streaming.tables.schemas import ALL_TABLES

NOW = datetime(2026, 11, 21, 3, 14, tzinfo=timezone.utc)
RUN_ID = "0193a1b2-0000-7000-8000-000000000000"
CLUSTER = "b1:9092,b2:9092"
TOPICS = ["__consumer_offsets", "__transaction_state"]


def group_as_dict(group_type: str, *topics: str) -> dict[str, Any]:
    return Serde.to_dict(group_event(GroupTopics("payments", group_type, topics), CLUSTER, NOW))


def run_as_dict(state: RunState = RunState.START, **fields: Any) -> dict[str, Any]:
    settings = {"run_id": RUN_ID, "tables": "/srv/tables", "bootstrap_servers": CLUSTER, "now": NOW}
    return Serde.to_dict(run_event(state, **{**settings, "internal_topics": TOPICS, **fields}))


@pytest.mark.parametrize(
    ("group_type", "job_type"),
    [("classic", "CONSUMER_GROUP"), ("share", "SHARE_GROUP"), ("streams", "STREAMS_GROUP")],
)
def test_a_group_is_a_job_of_its_type(group_type: str, job_type: str) -> None:
    gone = group_as_dict(group_type)
    assert (gone["inputs"], "run" in gone) == ([], False)
    facets = gone["job"]["facets"]
    assert facets["jobType"]["jobType"] == job_type
    assert "deleted" in facets["documentation"]["description"]


def test_a_run_reads_internal_topics_and_writes_every_table() -> None:
    event = run_as_dict()
    assert (event["eventType"], event["run"]) == ("START", {"runId": RUN_ID, "facets": {}})
    assert (event["producer"], event["job"]["name"]) == (PRODUCER, "run /srv/tables")
    assert [dataset["name"] for dataset in event["inputs"]] == TOPICS
    tables = {dataset["name"]: dataset for dataset in event["outputs"]}
    assert len(tables) == len(ALL_TABLES)
    for table in ALL_TABLES:
        dataset = tables[f"/srv/tables/{table.name}"]
        assert dataset["namespace"] == "file"
        columns = dataset["facets"]["schema"]["fields"]
        assert [column["name"] for column in columns] == table.schema.names
    assert tables["/srv/tables/groups"]["facets"]["storage"]["storageLayer"] == "delta"
    columns = tables["/srv/tables/group_members"]["facets"]["schema"]["fields"]
    (assignment,) = (column for column in columns if column["name"] == "assignment")
    (element,) = assignment["fields"]
    assert (assignment["type"], element["type"]) == ("array", "struct")
    fields = {field["name"]: field["type"] for field in element["fields"]}
    assert (fields["topic"], fields["partition"]) == ("string", "int32")


def test_a_failed_run_says_why() -> None:
    facet = run_as_dict(RunState.FAIL, error="no leader")["run"]["facets"]["errorMessage"]
    assert (facet["message"], facet["programmingLanguage"]) == ("no leader", "Python")


def test_the_event_of_the_docs_is_sent(repository: Path) -> None:
    """Every field of the event of a group: its inputs, its facets, their producer and schemas."""
    page = (repository / "docs" / "lineage.md").read_text()
    example = json.loads(page.partition("```json\n")[2].partition("```")[0])
    assert example == group_as_dict("consumer", "orders", "refunds")
