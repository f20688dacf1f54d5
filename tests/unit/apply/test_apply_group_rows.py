"""Groups and members as rows of the tables."""

from __future__ import annotations

from coordinator_state.apply.group_rows import group_rows, member_rows
from coordinator_state.records.consumer_protocol import encode_subscription
from coordinator_state.replay.group_replay import described
from coordinator_state.replay.groups import EMPTY, STABLE
from coordinator_state.replay.offsets import Semantics
from tests.support.logs.log_rows import LOG_PARTITION, record
from tests.support.logs.logs import BASE_TIMESTAMP_MS, group_record_value, group_value
from tests.support.tables.plan_tables import PlanTables


def test_rows_of_groups_and_members() -> None:
    tables = PlanTables(Semantics.COORDINATOR)
    changes = tables.apply_rows(
        record(1, group_value(["m1", "m2"], generation=4)),
        record(2, group_value(["n1"], protocol_type="connect"), group="connect"),
        record(3, group_record_value(3), 3, groupId="consumer"),
        record(4, None, group="gone"),
    )
    present = {i: described(state) for i, state in tables.groups.items()}
    groups = {r["group_id"]: r for r in group_rows(changes, present).to_pylist()}

    assert groups["g"] == {
        "log_partition": LOG_PARTITION,
        "group_id": "g",
        "is_deleted": False,
        "guard_offset": 1,
        "group_type": "classic",
        "state": STABLE,
        "protocol_type": "consumer",
        "protocol": "range",
        "leader": "m1",
        "generation": 4,
        "group_epoch": None,
        "assignment_epoch": None,
        "member_count": 2,
        "state_timestamp_ms": BASE_TIMESTAMP_MS,
        "subscribed_topics": ["t"],
        "replay_warning": None,
        "record_offset": 1,
        "created_record_offset": None,
    }
    assert {name: value for name, value in groups["gone"].items() if value is not None} == {
        "log_partition": LOG_PARTITION,
        "group_id": "gone",
        "is_deleted": True,
        "guard_offset": 4,
    }
    assert (groups["consumer"]["generation"], groups["consumer"]["state"]) == (None, EMPTY)
    assert (groups["consumer"]["group_epoch"], groups["consumer"]["assignment_epoch"]) == (5, 1)

    members = {
        (r["group_id"], r["member_id"]): r for r in member_rows(changes, present, {}).to_pylist()
    }
    assert set(members) == {("g", "m1"), ("g", "m2"), ("connect", "n1")}
    assert members["g", "m2"] == {
        "log_partition": LOG_PARTITION,
        "group_id": "g",
        "member_id": "m2",
        "group_instance_id": None,
        "client_id": "client of m2",
        "client_host": "/127.0.0.1",
        "rack_id": None,
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 60_000,
        "subscribed_topics": ["t"],
        "subscribed_regex": None,
        "member_epoch": None,
        "member_state": None,
        "assignment": [{"topic": "t", "topic_id": None, "partition": 1}],
        "target_assignment": None,
        "pending_revocation": None,
        "tasks": None,
        "target_tasks": None,
        "subscription_bytes": encode_subscription({"topics": ["t"], "userData": None}),
        "assignment_bytes": members["g", "m2"]["assignment_bytes"],
        "subscription_json": '{"version": 3, "topics": ["t"], "userData": null, '
        '"ownedPartitions": [], "generationId": -1, "rackId": null}',
        "assignment_json": '{"version": 3, "assignedPartitions": '
        '[{"topic": "t", "partitions": [1]}], "userData": null}',
        "is_deleted": None,
        "record_offset": 1,
        "created_record_offset": None,
    }
    connect = members["connect", "n1"]
    assert (connect["subscribed_topics"], connect["assignment"]) == (None, None)
