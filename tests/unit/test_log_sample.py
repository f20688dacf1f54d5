"""How much of a log a micro-batch takes where nobody says: by what stays of it."""

from __future__ import annotations

import pytest

from coordinator_state.record_batch_writer import write_record_batch
from streaming.source import MOST_RECORDS_PER_TRIGGER
from streaming.source.log_sample import MOST_STAYING_BYTES, offsets_that_fit
from tests.memory_log import MemoryLog, MemoryLogClient

MANY = 10_000_000
GROUP_METADATA_KEY = b"\0\2\0\1g"


def fitting(log: MemoryLog, *, left: int = MANY, is_compacted: bool = True) -> int:
    client = MemoryLogClient({0: log, 1: MemoryLog()})
    found = offsets_that_fit(client, {0: 0, 1: 0}, {0: left, 1: 0}, is_compacted=is_compacted)
    assert all(set(positions) == {0} for positions in client.fetches)
    return found


def group_records(size_bytes: int) -> MemoryLog:
    log = MemoryLog()
    record = (0, 0, GROUP_METADATA_KEY, b"\0" * size_bytes)
    log.append(write_record_batch(0, [record]))
    return log


@pytest.fixture
def plain() -> MemoryLog:
    log = MemoryLog()
    for committed_offset in range(5):
        log.commit("g", committed_offset)
    return log


def test_of_plain_commits_few_stay(plain: MemoryLog) -> None:
    assert fitting(plain) == MOST_RECORDS_PER_TRIGGER


def test_all_of_them_stay_where_all_history_is_kept(plain: MemoryLog) -> None:
    assert 400_000 < fitting(plain, is_compacted=False) < MOST_STAYING_BYTES // 200


def test_what_is_in_a_transaction_stays() -> None:
    log = MemoryLog()
    log.transaction("g", producer_id=7)
    assert 400_000 < fitting(log) < MOST_STAYING_BYTES // 200


def test_a_tombstone_stays() -> None:
    log = MemoryLog()
    log.commit("g", None)
    assert 400_000 < fitting(log) < MOST_STAYING_BYTES // 200


@pytest.mark.parametrize("size_bytes", [1_000, 50_000])
def test_records_of_groups_stay_with_all_their_bytes(size_bytes: int) -> None:
    found = fitting(group_records(size_bytes))
    assert found == pytest.approx(MOST_STAYING_BYTES / (size_bytes + 205), rel=0.01)


def test_what_cannot_be_read_tells_nothing(plain: MemoryLog) -> None:
    plain.batches.insert(0, (0, 0, b"\xff" * 40))
    assert fitting(plain) == MOST_RECORDS_PER_TRIGGER


def test_of_little_nothing_is_looked_at() -> None:
    log = group_records(5_000)
    client = MemoryLogClient({0: log})
    assert offsets_that_fit(client, {0: 0}, {0: 1_000}, is_compacted=True) == (
        MOST_RECORDS_PER_TRIGGER
    )
    assert client.fetches == []
