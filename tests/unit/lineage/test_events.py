"""Events as JSON, and read back by the classes of OpenLineage's client."""

from __future__ import annotations

import json
import re
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from openlineage.client.event_v2 import JobEvent, RunEvent, RunState
from openlineage.client.serde import Serde

from streaming.lineage.events import PRODUCER, group_event, run_event
from streaming.lineage.relations import GroupTopics
from streaming.tables.schemas import ALL_TABLES

NOW = datetime(2026, 11, 21, 3, 14, tzinfo=timezone.utc)
RUN_ID = "0193a1b2-0000-7000-8000-000000000000"
CLUSTER = "b1:9092,b2:9092"


def told(event: JobEvent | RunEvent) -> dict[str, Any]:
    return Serde.to_dict(event)


def of_group(group_type: str, *topics: str) -> dict[str, Any]:
    return told(group_event(GroupTopics("payments", group_type, topics), CLUSTER, NOW))


def of_run(state: RunState = RunState.START, **fields: Any) -> dict[str, Any]:
    settings = {"run_id": RUN_ID, "tables": "/srv/tables", "bootstrap_servers": CLUSTER, "now": NOW}
    topics = ("__consumer_offsets", "__transaction_state")
    return told(run_event(state, **{**settings, "internal_topics": topics, **fields}))


def test_a_group_is_a_job_with_an_input_for_each_topic() -> None:
    event = of_group("consumer", "orders", "refunds")
    job = event["job"]
    assert (job["namespace"], job["name"]) == ("kafka://b1:9092", "payments")
    assert [(one["namespace"], one["name"]) for one in event["inputs"]] == [
        ("kafka://b1:9092", "orders"),
        ("kafka://b1:9092", "refunds"),
    ]
    assert (event["outputs"], event["eventTime"]) == ([], "2026-11-21T03:14:00+00:00")
    assert "run" not in event
    facet = job["facets"]["jobType"]
    assert (facet["processingType"], facet["integration"]) == ("STREAMING", "KAFKA")
    assert job["facets"]["documentation"]["description"] == "Kafka consumer group."


@pytest.mark.parametrize(
    ("group_type", "job_type"),
    [
        *(("classic", "CONSUMER_GROUP"), ("consumer", "CONSUMER_GROUP")),
        *(("share", "SHARE_GROUP"), ("streams", "STREAMS_GROUP")),
    ],
)
def test_the_job_type_is_that_of_the_group(group_type: str, job_type: str) -> None:
    assert of_group(group_type, "t")["job"]["facets"]["jobType"]["jobType"] == job_type


def test_a_group_that_is_gone_has_no_inputs() -> None:
    event = of_group("classic")
    assert event["inputs"] == []
    assert "deleted" in event["job"]["facets"]["documentation"]["description"]


def test_a_run_reads_internal_topics_and_writes_every_table() -> None:
    event = of_run()
    assert (event["eventType"], event["run"]) == ("START", {"runId": RUN_ID, "facets": {}})
    assert event["job"]["name"] == "run /srv/tables"
    assert [one["name"] for one in event["inputs"]] == ["__consumer_offsets", "__transaction_state"]
    assert {(one["namespace"], one["name"]) for one in event["outputs"]} == {
        ("file", f"/srv/tables/{table.name}") for table in ALL_TABLES
    }


def test_a_failed_run_says_why() -> None:
    facet = of_run(RunState.FAIL, error="no leader")["run"]["facets"]["errorMessage"]
    assert (facet["message"], facet["programmingLanguage"]) == ("no leader", "Python")


def test_columns_have_their_nested_fields() -> None:
    tables = {one["name"].rpartition("/")[2]: one["facets"] for one in of_run()["outputs"]}
    assert tables["groups"]["storage"]["storageLayer"] == "delta"
    for table in ALL_TABLES:
        columns = tables[table.name]["schema"]["fields"]
        assert [one["name"] for one in columns] == table.schema.names
    members = {one["name"]: one for one in tables["group_members"]["schema"]["fields"]}
    (element,) = members["assignment"]["fields"]
    assert (members["assignment"]["type"], element["type"]) == ("array", "struct")
    fields = {one["name"]: one["type"] for one in element["fields"]}
    assert fields["topic"], fields["partition"] == ("string", "int32")


def test_the_event_of_the_docs_is_sent(repository: Path) -> None:
    page = (repository / "docs" / "lineage.md").read_text()
    example = json.loads(page.partition("```json\n")[2].partition("```")[0])
    assert example == of_group("consumer", "orders", "refunds")


def facets_of(value: Any) -> list[dict[str, Any]]:
    """Every object with a `_schemaURL`, at any depth."""
    if isinstance(value, list):
        return [found for one in value for found in facets_of(one)]
    if not isinstance(value, dict):
        return []
    own = [value] if "_schemaURL" in value else []
    return own + [found for one in value.values() for found in facets_of(one)]


@pytest.mark.parametrize(
    ("event", "kind"), [(of_group("share", "t"), "JobEvent"), (of_run(), "RunEvent")]
)
def test_events_and_facets_name_their_producer_and_schema(event: dict[str, Any], kind: str) -> None:
    schema = re.escape("https://openlineage.io/spec/2-") + rf"\d-\d/OpenLineage.json#/\$defs/{kind}"
    assert event["producer"] == PRODUCER
    assert re.fullmatch(schema, event["schemaURL"])
    facets = facets_of(event)
    assert len(facets) >= 2
    assert {facet["_producer"] for facet in facets} == {PRODUCER}


def test_the_clients_classes_check_an_event() -> None:
    with pytest.raises(ValueError, match="badly formed"):
        of_run(run_id="r")
    event = of_group("consumer", "orders")
    event.pop("schemaURL")
    assert told(JobEvent(**event)) == of_group("consumer", "orders")
    with pytest.raises(ValueError, match="date-time"):
        JobEvent(**event | {"eventTime": "2026-11-21"})
