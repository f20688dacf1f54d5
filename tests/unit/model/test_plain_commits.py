"""Commits by the million: as the readable writer writes them, and their outcome by the loader."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from coordinator_state.log.record_batch import RecordBatch, read_record_batches
from coordinator_state.log.record_batch_writer import write_record_batch
from coordinator_state.model.plain_commits import PlainCommits
from coordinator_state.replay.loader import ReferenceLoader
from coordinator_state.replay.partitioner import partition_for
from coordinator_state.wire.primitives import uuid_text

SOME = PlainCommits(count=3_007, key_count=400, from_ms=1_700_000_000_000)
IN_TRANSACTIONS = PlainCommits(count=3_007, key_count=400, from_ms=1, in_transactions=True)
# More keys than commits, and batches of one; a timestamp's delta takes several bytes.
FEW = PlainCommits(count=300, key_count=400, from_ms=1, log_partitions=3, batch_records=1)
ONE_BATCH = PlainCommits(count=900, key_count=10, from_ms=1, log_partitions=1, batch_records=900)
BUSY = PlainCommits(count=3_007, key_count=400, from_ms=1, busy_share=0.95)


def _batches(log: bytes) -> Iterable[RecordBatch]:
    for batch in read_record_batches(log):
        assert isinstance(batch, RecordBatch)
        assert batch.remainder is None
        yield batch


def _written(batch: RecordBatch) -> bytes:
    return write_record_batch(
        batch.base_offset,
        [
            (r.record_offset - batch.base_offset, r.timestamp_ms, r.key, r.value)
            for r in batch.records
        ],
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        is_transactional=batch.is_transactional,
        is_control=batch.is_control,
    )


@pytest.mark.parametrize("commits", [SOME, IN_TRANSACTIONS, FEW, ONE_BATCH, BUSY])
def test_the_bytes_are_those_of_the_readable_writer_and_the_outcome_is_known(
    commits: PlainCommits,
) -> None:
    records, loaded = 0, {}
    for log_partition, log in commits.logs():
        batches = list(_batches(log))
        assert b"".join(map(_written, batches)) == log
        records += sum(len(batch.records) for batch in batches)
        loader = ReferenceLoader(strict=True)
        loader.load(batches)
        assert not loader.pending
        for key, offset in loader.offsets.items():
            assert partition_for(key.group_id, commits.log_partitions) == log_partition
            loaded[key] = (
                offset.committed_offset,
                -1 if offset.leader_epoch is None else offset.leader_epoch,
                offset.metadata,
                offset.commit_timestamp_ms,
                offset.topic_id,
            )
    assert records == commits.records
    assert loaded == {
        key: (*last[:4], None if last.topic_id is None else uuid_text(last.topic_id))
        for key, last in commits.last.items()
    }


def test_one_log_partition_has_most_commits() -> None:
    records = [BUSY.next_offset(log_partition) for log_partition in range(50)]
    further = BUSY.count - BUSY.key_count
    assert max(records) == pytest.approx(0.95 * further + 0.05 * further / 50, rel=0.05)
    assert BUSY.records == BUSY.count


def test_fewer_are_the_first_ones_of_more() -> None:
    fewer = PlainCommits(count=1_000, key_count=400, from_ms=SOME.from_ms)
    for (_, whole), (_, part) in zip(SOME.logs(), fewer.logs(), strict=True):
        records = [record for batch in _batches(part) for record in batch.records]
        of_more = [record for batch in _batches(whole) for record in batch.records]
        assert of_more[: len(records)] == records
