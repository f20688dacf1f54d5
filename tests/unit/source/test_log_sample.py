"""How much of a log a micro-batch takes where nobody says: by what stays of it."""

from __future__ import annotations

import math
import random

import pytest

from coordinator_state.log.commit_sampling import CommitSampling
from coordinator_state.log.record_batch_writer import write_record_batch
from streaming.source import MOST_RECORDS_PER_TRIGGER
from streaming.source.log_sample import MOST_STAYING_BYTES, PLAIN_COMMIT_WEIGHT, offsets_that_fit
from tests.support.logs.log_rows import SAMPLED
from tests.support.logs.logs import offset_key, offset_value
from tests.support.logs.memory_log import MemoryLog, MemoryLogClient

MANY = 10_000_000
GROUP_METADATA_KEY = b"\0\2\0\1g"


def fitting(log: MemoryLog, *, left: int = MANY, sampling: CommitSampling | None = SAMPLED) -> int:
    client = MemoryLogClient({0: log, 1: MemoryLog()})
    offsets = offsets_that_fit(client, {0: 0, 1: 0}, {0: left, 1: 0}, sampling=sampling)
    assert all(set(positions) == {0} for positions in client.fetches)
    return offsets


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


def test_all_records_stay_of_history_of_transactions_and_of_tombstones(plain: MemoryLog) -> None:
    transaction, tombstone = MemoryLog(), MemoryLog()
    transaction.transaction("g", producer_id=7)
    tombstone.commit("g", None)
    for log, sampling in ((plain, None), (transaction, SAMPLED), (tombstone, SAMPLED)):
        assert 400_000 < fitting(log, sampling=sampling) < MOST_STAYING_BYTES // 200


@pytest.mark.parametrize("size_bytes", [1_000, 50_000])
def test_records_of_groups_stay_with_all_their_bytes(size_bytes: int) -> None:
    offsets = fitting(group_records(size_bytes))
    assert offsets == pytest.approx(MOST_STAYING_BYTES / (size_bytes + 205), rel=0.01)


def many_keys(keys: int, *, repeats: int = 1, log_partitions: int = 50) -> dict[int, MemoryLog]:
    """Logs of random keys, each some times in a row, at the two places that are looked at."""
    rng = random.Random(7)
    logs = {}
    for log_partition in range(log_partitions):
        logs[log_partition] = log = MemoryLog()
        for place in (0, MANY // log_partitions // 2):
            log.high_watermark = place
            names = rng.choices(range(keys // log_partitions), k=200)
            commits = [
                (n, 0, offset_key(f"g-{name}", "t", 0), offset_value(n))
                for n, name in enumerate(name for name in names for _ in range(repeats))
            ]
            log.append(write_record_batch(place, commits), len(commits))
    return logs


def fitting_all(logs: dict[int, MemoryLog]) -> int:
    left = dict.fromkeys(logs, MANY // len(logs))
    client = MemoryLogClient(logs)
    return offsets_that_fit(client, dict.fromkeys(logs, 0), left, sampling=SAMPLED)


def rows_of(offsets: int, keys: int) -> float:
    """The first and the last commit of each key among so many random ones."""
    return min(offsets, 2 * keys * (1 - math.exp(-offsets / keys)))


@pytest.mark.parametrize("repeats", [1, 3])
@pytest.mark.parametrize("keys", [1_000_000, 10_000_000])
def test_of_many_keys_as_many_commits_as_their_rows_fit(keys: int, repeats: int) -> None:
    offsets = fitting_all(many_keys(keys, repeats=repeats))
    most_rows = MOST_STAYING_BYTES / PLAIN_COMMIT_WEIGHT / 200
    assert most_rows / 3 < rows_of(offsets, keys) <= most_rows


def test_few_keys_are_read_whole_and_keys_that_never_come_again_all_stay() -> None:
    assert fitting_all(many_keys(100_000)) == MOST_RECORDS_PER_TRIGGER
    offsets = fitting_all(many_keys(10**12))
    assert 1_000_000 < offsets < MOST_STAYING_BYTES / PLAIN_COMMIT_WEIGHT / 200


def test_a_log_partition_without_a_sample_is_like_the_others() -> None:
    logs = {p: group_records(1_000) for p in range(4)}
    expected = pytest.approx(fitting_all(logs), rel=0.01)
    for log_partition in (1, 2):
        logs[log_partition].batches.insert(0, (0, 0, b"\xff" * 40))
    assert fitting_all(logs) == expected


def test_what_cannot_be_read_tells_nothing(plain: MemoryLog) -> None:
    plain.batches.insert(0, (0, 0, b"\xff" * 40))
    assert fitting(plain) == MOST_RECORDS_PER_TRIGGER


def test_of_little_nothing_is_looked_at() -> None:
    log = group_records(5_000)
    client = MemoryLogClient({0: log})
    assert offsets_that_fit(client, {0: 0}, {0: 1_000}, sampling=SAMPLED) == (
        MOST_RECORDS_PER_TRIGGER
    )
    assert client.fetches == []
