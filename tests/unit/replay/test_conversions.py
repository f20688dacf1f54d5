"""A real log in which groups change their type, whole and compacted anywhere.

After GroupCoordinatorShardCompactionReplayTest.java of Kafka's trunk (12cd2a74): a log is loaded
with every prefix of its batches compacted, tombstones gone, as the cleaner leaves it; and with
every window of batches compacted, tombstones kept, as a load meets it beside a running cleaner
(KAFKA-19862). Of the windows, a broker 4.2.0 refuses the ones that the strict loader does.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from coordinator_state.errors import ReplayError
from coordinator_state.log.record import Record
from coordinator_state.log.record_batch import RecordBatch, read_record_batches
from coordinator_state.replay.groups import CLASSIC, EMPTY, Group
from coordinator_state.replay.loader import ReferenceLoader
from tests.golden.conversions import CONSUMERS, CONVERSIONS, STREAMS

Batches = list[list[Record]]


@pytest.fixture(scope="module")
def batches() -> Batches:
    batches = []
    for batch in read_record_batches(CONVERSIONS.read_bytes()):
        assert isinstance(batch, RecordBatch)
        assert not batch.is_control
        batches.append(list(batch.records))
    return batches


def compacted(batches: Batches, start: int, end: int, *, keeps_tombstones: bool) -> list[Record]:
    """The log with the last record of each key left of its batches from `start` to before `end`."""
    window = [record for batch in batches[start:end] for record in batch]
    last = {record.key: record for record in window}
    kept = [
        record
        for record in window
        if last[record.key] is record and (keeps_tombstones or record.value is not None)
    ]
    before = [record for batch in batches[:start] for record in batch]
    return [*before, *kept, *(record for batch in batches[end:] for record in batch)]


def load(records: list[Record], *, strict: bool = False) -> ReferenceLoader:
    loader = ReferenceLoader(strict=strict)
    for record in records:
        loader.replay(record_offset=record.record_offset, key=record.key, value=record.value)
    return loader


def groups_of(loader: ReferenceLoader) -> dict[str, Group]:
    """Without where a group or a member began, which compaction moves."""
    return {
        group_id: replace(
            group,
            created_record_offset=None,
            members=tuple(replace(m, created_record_offset=None) for m in group.members),
        )
        for group_id, group in loader.groups.items()
    }


def test_the_log_holds_every_conversion(batches: Batches) -> None:
    seen: dict[str, list[str]] = {CONSUMERS: [], STREAMS: []}
    loader = ReferenceLoader(strict=True)
    for batch in batches:
        for record in batch:
            loader.replay(record_offset=record.record_offset, key=record.key, value=record.value)
        for group_id, group in loader.groups.items():
            if seen[group_id][-1:] != [group.group_type]:
                seen[group_id].append(group.group_type)
    assert seen == {
        CONSUMERS: ["classic", "consumer", "classic"],
        STREAMS: ["classic", "streams", "classic"],
    }
    assert {(g.group_type, g.state) for g in loader.groups.values()} == {(CLASSIC, EMPTY)}


def test_every_compacted_prefix_loads_to_the_same_groups_and_offsets(batches: Batches) -> None:
    whole = load(compacted(batches, 0, 0, keeps_tombstones=False))
    for end in range(len(batches) + 1):
        loader = load(compacted(batches, 0, end, keeps_tombstones=False), strict=True)
        assert (groups_of(loader), loader.offsets) == (groups_of(whole), whole.offsets), end


def test_every_compacted_window_loads_to_the_same_groups_and_offsets(batches: Batches) -> None:
    """Also where a broker refuses.

    That is where records of a consumer or streams group which became classic again meet the classic
    group of before, whose tombstone is compacted away: KAFKA-21117, which 4.2.0 has.
    """
    whole = load(compacted(batches, 0, 0, keeps_tombstones=False))
    expected = groups_of(whole), whole.offsets
    refused = set()
    for start in range(len(batches)):
        for end in range(start + 1, len(batches) + 1):
            records = compacted(batches, start, end, keeps_tombstones=True)
            try:
                loader = load(records, strict=True)
            except ReplayError as error:
                refused.add(str(error).partition(": ")[2])
                loader = load(records)
            assert (groups_of(loader), loader.offsets) == expected
    assert refused == {
        f"Group {CONSUMERS} is not a consumer group",
        f"Group {STREAMS} is not a streams group.",
    }
