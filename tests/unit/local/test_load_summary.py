"""Load summaries out of lines that brokers 4.2.0 and 3.9.1 wrote."""

from __future__ import annotations

from streaming.local.broker.load_summary import LoadSummary, parse_load_summaries

KAFKA_4_SCHEDULED = (
    "[2026-11-21 11:13:26,790] INFO [GroupCoordinator id=1] Scheduling loading of metadata from "
    "__consumer_offsets-42 with epoch 2 "
    "(org.apache.kafka.coordinator.common.runtime.CoordinatorRuntime)\n"
)
KAFKA_4_LOADED = (
    "[2026-11-21 11:13:26,799] INFO [GroupCoordinator id=1] Finished loading of metadata from "
    "__consumer_offsets-42 with epoch 2 in 14ms where 3ms was spent in the scheduler. "
    "Loaded 2021 records which total to 183040 bytes. "
    "(org.apache.kafka.coordinator.common.runtime.CoordinatorRuntime)\n"
)
KAFKA_4_UNLOAD = (
    "[2026-11-21 11:13:25,327] INFO [GroupCoordinator id=1] Scheduling unloading of metadata for "
    "__consumer_offsets-42 with epoch OptionalInt[1] "
    "(org.apache.kafka.coordinator.common.runtime.CoordinatorRuntime)\n"
)
KAFKA_3_LOADED = (
    "[2026-11-21 11:14:02,323] INFO [GroupMetadataManager brokerId=1] Finished loading offsets and "
    "group metadata from __consumer_offsets-4 in 7 milliseconds for epoch 0, of which 6 "
    "milliseconds was spent in the scheduler. (kafka.coordinator.group.GroupMetadataManager)\n"
)
KAFKA_3_UNLOAD = (
    "[2026-11-21 11:14:18,380] INFO [GroupMetadataManager brokerId=1] Scheduling unloading of "
    "offsets and group metadata from __consumer_offsets-4 "
    "(kafka.coordinator.group.GroupMetadataManager)\n"
)

LOADED_42 = LoadSummary(
    log_partition=42, duration_ms=14, queued_ms=3, records=2021, size_bytes=183040
)
LOADED_4 = LoadSummary(log_partition=4, duration_ms=7, queued_ms=6, records=None, size_bytes=None)


def test_kafka_4() -> None:
    assert parse_load_summaries(KAFKA_4_SCHEDULED) == []
    assert parse_load_summaries(KAFKA_4_SCHEDULED + KAFKA_4_LOADED) == [LOADED_42]


def test_kafka_3() -> None:
    assert parse_load_summaries(KAFKA_3_LOADED) == [LOADED_4]


def test_an_unload_takes_back_the_load_of_its_log_partition_only() -> None:
    both = KAFKA_4_LOADED + KAFKA_3_LOADED
    assert parse_load_summaries(both + KAFKA_4_UNLOAD) == [LOADED_4]
    assert parse_load_summaries(both + KAFKA_3_UNLOAD) == [LOADED_42]


def test_a_log_partition_being_loaded_again_is_not_loaded() -> None:
    log = KAFKA_4_LOADED + KAFKA_4_SCHEDULED
    assert parse_load_summaries(log) == []
    assert parse_load_summaries(log + KAFKA_4_LOADED) == [LOADED_42]


def test_other_topics_do_not_count() -> None:
    log = (KAFKA_4_LOADED + KAFKA_3_LOADED).replace("__consumer_offsets", "__transaction_state")
    assert parse_load_summaries(log) == []
