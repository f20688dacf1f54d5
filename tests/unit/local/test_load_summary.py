"""Load summaries out of lines that brokers 4.2.0 and 3.9.1 wrote."""

from __future__ import annotations

import pytest

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


BOTH = KAFKA_4_LOADED + KAFKA_3_LOADED


@pytest.mark.parametrize(
    ("log", "summaries"),
    [
        (KAFKA_4_SCHEDULED, []),
        (KAFKA_4_SCHEDULED + KAFKA_4_LOADED, [LOADED_42]),
        (KAFKA_3_LOADED, [LOADED_4]),
        # An unload takes back the load of its log partition only.
        (BOTH + KAFKA_4_UNLOAD, [LOADED_4]),
        (BOTH + KAFKA_3_UNLOAD, [LOADED_42]),
        # A log partition that is being loaded again is not loaded.
        (KAFKA_4_LOADED + KAFKA_4_SCHEDULED, []),
        (KAFKA_4_LOADED + KAFKA_4_SCHEDULED + KAFKA_4_LOADED, [LOADED_42]),
        (BOTH.replace("__consumer_offsets", "__transaction_state"), []),
    ],
)
def test_load_summaries(log: str, summaries: list[LoadSummary]) -> None:
    assert parse_load_summaries(log) == summaries
