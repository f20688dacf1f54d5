"""Resets and clones, over tables with a past snapshot and samples."""

from __future__ import annotations

import shutil
from datetime import datetime, timezone
from pathlib import Path

import pytest

from coordinator_state.replay.offsets import OffsetKey
from streaming.errors import ConfigurationError
from streaming.plans.group_plan import GroupPlan
from streaming.plans.reset import (
    TopicSelection,
    clone,
    reset_to_earliest_kept,
    reset_to_latest,
    reset_to_offset,
    reset_to_offsets,
    reset_to_state,
    reset_to_time,
    shift,
)
from streaming.tables.reader import TableReader
from tests.support.tables.planned_tables import MINUTE, create_planned_tables, offset, sample
from tests.support.tables.tables_folder import NOW, apply_micro_batch, create_tables, write_rows


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> tuple[TableReader, TableReader]:
    """The newest snapshot and the earlier one."""
    tables, between = create_planned_tables(tmp_path_factory.mktemp("planned") / "tables")
    return TableReader(tables), TableReader(tables, as_of=between)


def moves(plan: GroupPlan | None) -> dict[tuple[str, int], tuple[object, ...]]:
    """From, to, replayed, skipped and deleted by partition."""
    assert plan is not None
    return {
        (row.topic, row.partition): (
            *(row.from_offset, row.to_offset),
            *(row.records_replayed, row.records_skipped, row.records_deleted),
        )
        for row in plan.offsets
    }


def notes(plan: GroupPlan | None) -> dict[tuple[str, int], str]:
    assert plan is not None
    return {(row.topic, row.partition): row.note for row in plan.offsets}


def test_the_offsets_of_a_past_state(planned: tuple[TableReader, TableReader]) -> None:
    now, past = planned
    plan = reset_to_state(now, past, "payments")
    assert moves(plan) == {
        ("old", 0): (8, None, None, None, None),
        ("orders", 0): (300, 100, 200, 0, 0),
        ("orders", 1): (60, 40, 20, 0, 30),
        ("orders", 2): (5, None, None, None, None),
        ("orders", 3): (8, None, None, None, None),
    }
    assert notes(plan)["orders", 1] == "the log begins at 40: 30 records are deleted"
    assert notes(plan)["orders", 2].startswith("unchanged: no committed offset at ")
    assert notes(plan)["old", 0] == "unchanged: the cluster has no such topic"
    assert plan is not None
    assert [tuple(key)[1:] for key in plan.to_offsets] == [("orders", 0), ("orders", 1)]
    assert "220 records replayed, 0 records skipped, 30 records deleted" in plan.summary
    assert plan.summary.endswith("3 partitions unchanged")


def test_a_group_that_was_deleted_since(planned: tuple[TableReader, TableReader]) -> None:
    plan = reset_to_state(*planned, "deleted")
    assert moves(plan) == {("orders", 0): (None, 55, None, None, 0)}
    assert notes(plan)["orders", 0] == "no committed offset now"
    assert reset_to_state(*planned, "nobody") is None
    assert reset_to_time(planned[0], "deleted", planned[0].moment) is None


def test_the_log_ends_of_a_time(planned: tuple[TableReader, TableReader]) -> None:
    now, _ = planned
    plan = reset_to_time(now, "payments", now.moment - 15 * MINUTE)
    assert moves(plan) == {
        ("old", 0): (8, None, None, None, None),
        ("orders", 0): (300, 120, 180, 0, 0),
        ("orders", 1): (60, 40, 20, 0, 20),
        ("orders", 2): (5, None, None, None, None),
        ("orders", 3): (8, None, None, None, None),
    }
    assert notes(plan)["orders", 0].startswith("log end at ")
    assert "no sample of the log up to " in notes(plan)["orders", 2]
    # Samples of days ago are found, too.
    later = reset_to_time(now, "payments", now.moment + 3 * 24 * 60 * MINUTE)
    assert moves(later)["orders", 0] == (300, 310, 0, 10, 0)


def test_the_oldest_kept_records_of_named_partitions(
    planned: tuple[TableReader, TableReader], tmp_path: Path
) -> None:
    now, past = planned
    partition = TopicSelection.of(["orders:0"])
    assert list(moves(reset_to_state(now, past, "payments", partition))) == [("orders", 0)]
    plan = reset_to_earliest_kept(now, "payments", TopicSelection.of(["orders"]))
    assert len(moves(plan)) == 4
    assert moves(plan)["orders", 1] == (60, 40, 20, 0, 0)
    assert notes(plan)["orders", 3] == "unchanged: the log was not sampled yet"
    # A partition without a committed offset that is named.
    tables = str(shutil.copytree(now.tables, tmp_path / "tables"))
    write_rows(tables, "log_offsets", [sample(9, now.moment - MINUTE, 3, 9)])
    ninth = TopicSelection.of(["orders:9"])
    assert moves(reset_to_earliest_kept(TableReader(tables), "new", ninth)) == {
        ("orders", 9): (None, 3, None, None, 0)
    }
    with pytest.raises(ConfigurationError, match="no committed offset of order; did you mean ord"):
        reset_to_earliest_kept(now, "payments", TopicSelection.of(["order"]))
    numbers = ("", "x", "-1", str(2**31), 5_000 * "9")
    for text in (":1", *(f"orders:{number}" for number in numbers)):
        with pytest.raises(ConfigurationError, match="neither TOPIC nor TOPIC:PARTITION"):
            TopicSelection.of([text])


def test_an_offset_of_an_earlier_topic_is_not_set(tmp_path: Path) -> None:
    now = datetime.now(timezone.utc)
    tables = create_tables(tmp_path)
    offsets = [offset("g", 0, 8, now - MINUTE), offset("g", 1, 8, now - MINUTE, topic_id="T")]
    apply_micro_batch(tables, progress=[{}], groups=[{"group_id": "g"}], group_offsets=offsets)
    of_partition_0 = [sample(0, now - 9 * MINUTE, 0, 8), sample(0, now, 0, 2, topic_id="U")]
    write_rows(tables, "log_offsets", [*of_partition_0, sample(1, now, 0, 2, topic_id="U")])
    reader = TableReader(tables)
    again = f"unchanged: the topic was deleted and created again at {now:%H:%M:%S} UTC"
    assert notes(reset_to_time(reader, "g", now - 5 * MINUTE))["orders", 0] == again
    # The offset of that moment is of the deleted topic, although the new one was there already.
    assert notes(reset_to_state(reader, reader, "g"))["orders", 0] == again
    assert notes(clone(reader, reader, "g", "h"))["orders", 1] == (
        "unchanged: the topic was deleted and created again"
    )


def test_an_offset_that_was_committed_after_the_sample_is_in_the_log(tmp_path: Path) -> None:
    now = datetime.now(timezone.utc)
    tables = create_tables(tmp_path)
    offsets = [offset("g", 0, 8, now), offset("g", 1, 8, now - 3 * MINUTE)]
    apply_micro_batch(tables, progress=[{}], groups=[{"group_id": "g"}], group_offsets=offsets)
    samples = [sample(partition, now - 2 * MINUTE, 0, 5) for partition in (0, 1)]
    write_rows(tables, "log_offsets", samples)
    reader = TableReader(tables)
    plan = reset_to_state(reader, reader, "g")
    assert moves(plan) == {("orders", 0): (8, 8, 0, 0, 0), ("orders", 1): (8, 5, 0, 0, 0)}
    assert notes(plan)["orders", 1] == "lowered from 8: the log ends at 5"


def test_a_clone(planned: tuple[TableReader, TableReader]) -> None:
    now, past = planned
    plan = clone(now, past, "deleted", "payments")
    assert moves(plan)["orders", 0] == (300, 55, 245, 0, 0)
    assert notes(plan)["orders", 1] == "unchanged: deleted has no committed offset"
    plan = clone(now, now, "payments", "new", TopicSelection.of(["orders:0"]))
    assert moves(plan) == {("orders", 0): (None, 300, None, None, 0)}
    assert clone(now, now, "nobody", "new") is None


def test_what_must_happen_first(tmp_path: Path) -> None:
    tables = create_tables(tmp_path)
    members = [f"{number:02}" for number in range(12)]
    apply_micro_batch(
        tables,
        progress=[{}],
        groups=[
            {"group_id": "busy", "protocol_type": "consumer", "state": "Stable"},
            {"group_id": "simple"},
            {"group_id": "shared", "group_type": "share"},
            {"group_id": "topology", "group_type": "streams"},
        ],
        group_members=[
            {"group_id": "busy", "member_id": f"m{member}", "client_id": f"c{member}"}
            for member in members
        ],
        group_offsets=[offset(group, 0, 1, NOW) for group in ("busy", "simple", "topology")],
        pending_offsets=[{"group_id": "busy", "topic": "t", "partition": 0}],
    )
    reader = TableReader(tables)

    def warnings(group: str) -> list[str]:
        plan = reset_to_state(reader, reader, group)
        assert plan is not None
        return plan.obstacles.warnings

    members_warning, pending_warning = warnings("busy")
    assert members_warning.startswith(
        "busy has 12 members, and Kafka resets only groups without members: stop first "
        "c00 at /127.0.0.1, c01"
    )
    assert members_warning.endswith("c09 at /127.0.0.1 and 2 more")
    assert "pending offsets of producer 7" in pending_warning
    assert "simple is a simple group" in warnings("simple")[0]
    assert warnings("topology") == []


def test_a_group_of_another_type_has_its_own_tool(tmp_path: Path) -> None:
    """The offsets of a share group are its start offsets."""
    tables = create_tables(tmp_path)
    share = {"group_id": "shared", "partition": 0, "start_offset": 60, "topic": "orders"}
    apply_micro_batch(
        tables,
        progress=[{}],
        groups=[
            {"group_id": "shared", "group_type": "share", "protocol_type": "share"},
            {"group_id": "topology", "group_type": "streams", "protocol_type": "streams"},
            {"group_id": "classic", "protocol_type": "consumer"},
            {"group_id": "beside", "group_type": "external"},
        ],
        group_offsets=[offset(group, 0, 70, NOW) for group in ("topology", "classic", "shared")],
        share_partitions=[share],
        topic_progress=[{"log_topic": "__share_group_state", "updated_at": NOW}],
        log_offsets=[sample(0, NOW, 40, 100)],
    )
    reader = TableReader(tables)
    tools = {"shared": "share", "topology": "streams", "classic": "consumer", "new": "consumer"}
    for group, tool in tools.items():
        plan = reset_to_latest(reader, group, TopicSelection.of(["orders:0"]))
        assert plan is not None
        dry_run, execute = plan.commands("plan.csv", "b:1")
        begin = f"kafka-{tool}-groups.sh --bootstrap-server b:1 --reset-offsets --group {group}"
        assert dry_run == f"{begin} --from-file plan.csv --dry-run"
        assert execute == f"{begin} --from-file plan.csv --execute"
        before = {"shared": 60, "new": None}.get(group, 70)
        assert [row.from_offset for row in plan.offsets] == [before]
        is_of_stores = any("state stores" in warning for warning in plan.warnings)
        assert is_of_stores == (group == "topology")
    with pytest.raises(ConfigurationError, match="reset it with the program that keeps its off"):
        reset_to_latest(reader, "beside", TopicSelection.of(["orders:0"]))
    # A new group will be of the same type.
    copy = clone(reader, reader, "shared", "copy")
    assert copy is not None
    assert copy.commands("plan.csv", "b:1")[0].startswith("kafka-share-groups.sh")
    for source, target in (("shared", "classic"), ("topology", "shared")):
        with pytest.raises(ConfigurationError, match="start offsets of share groups are no comm"):
            clone(reader, reader, source, target)


def test_a_share_group_is_planned_once_all_its_start_offsets_are_loaded(tmp_path: Path) -> None:
    tables = create_tables(tmp_path)
    topic = {"log_topic": "__share_group_state", "updated_at": NOW}
    apply_micro_batch(
        tables,
        progress=[{}],
        groups=[{"group_id": "shared", "group_type": "share", "protocol_type": "share"}],
        share_partitions=[{"group_id": "shared", "partition": 0, "start_offset": 60}],
        topic_progress=[topic, topic | {"log_partition": 1, "state": "loading"}],
        log_offsets=[sample(0, NOW, 40, 100)],
    )
    with pytest.raises(ConfigurationError, match="the start offsets of shared are unknown"):
        reset_to_earliest_kept(TableReader(tables), "shared")


def test_given_offsets_are_kept_within_the_logs(planned: tuple[TableReader, TableReader]) -> None:
    now, _ = planned
    orders = TopicSelection.of(["orders:0", "orders:1", "orders:2"])
    latest = moves(reset_to_latest(now, "payments", orders))
    assert latest["orders", 0] == (300, 310, 0, 10, 0)
    to_offset = reset_to_offset(now, "payments", 100, orders)
    assert moves(to_offset)["orders", 0] == (300, 100, 200, 0, 0)
    assert "lowered from 100: the log ends at 70" in notes(to_offset)["orders", 1]
    back = shift(now, "payments", -50, orders)
    assert moves(back)["orders", 0] == (300, 250, 50, 0, 0)
    # The log begins at 40.
    assert moves(back)["orders", 1] == (60, 40, 20, 0, 30)
    assert to_offset is not None and back is not None
    assert (to_offset.goal, back.goal) == ("to offset 100", "shifted by -50")
    ninth = shift(now, "payments", 1, TopicSelection.of(["orders:9"]))
    assert notes(ninth) == {("orders", 9): "unchanged: no committed offset to shift"}


def test_the_offsets_of_a_file(planned: tuple[TableReader, TableReader]) -> None:
    now, _ = planned
    offsets = {OffsetKey("payments", "orders", 0): 5, OffsetKey("payments", "orders", 1): 70}
    assert moves(reset_to_offsets(now, "payments", offsets)) == {
        ("orders", 0): (300, 5, 295, 0, 0),
        ("orders", 1): (60, 70, 0, 10, 0),
    }
    second = reset_to_offsets(now, "payments", offsets, TopicSelection.of(["orders:1", "orders:2"]))
    assert [row.to_offset for row in second.offsets] == [70, None]
    assert notes(second)["orders", 2] == "unchanged: it is not in the file"
    with pytest.raises(ConfigurationError, match="the plan file has no offsets"):
        reset_to_offsets(now, "payments", {})


def test_offsets_that_are_still_loading_are_refused(tmp_path: Path) -> None:
    tables = create_tables(tmp_path)
    apply_micro_batch(tables, progress=[{"state": "loading"}], groups=[{"group_id": "g"}])
    reader = TableReader(tables)
    with pytest.raises(ConfigurationError, match="log partition 0 answers COORDINATOR_LOAD_IN_PRO"):
        reset_to_state(reader, reader, "g")
