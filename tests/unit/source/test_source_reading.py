"""What the tasks of a micro-batch read, without Spark and without Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable

from coordinator_state.log import held_rows
from coordinator_state.log.commit_sampling import CommitSampling
from streaming.source import log_range
from streaming.source.log_range import read_ranges
from tests.support.logs.log_rows import SAMPLED
from tests.support.logs.memory_log import (
    MemoryLogClient,
    assert_accounted,
    progress_of,
    range_of,
    reader_of,
    rows_of,
)


class TestReading:
    def read(
        self, client: MemoryLogClient, *, sampling: CommitSampling | None = SAMPLED, **bounds: int
    ) -> list[dict[str, Any]]:
        ranges = [
            range_of(
                p,
                bounds.get("to_offset", log.high_watermark),
                bounds.get("from_offset", log.log_start),
                log.high_watermark,
            )
            for p, log in client.logs.items()
        ]
        batches = list(read_ranges(client, ranges, sampling=sampling))
        rows = [row for batch in batches for row in batch.to_pylist()]
        assert_accounted(rows)
        assert set(progress_of(rows)) == set(client.logs)
        return rows

    def test_superseded_commits_are_dropped_and_counted(self, client: MemoryLogClient) -> None:
        rows = self.read(client)
        commits = {r["group_id"]: r["committed_offset"] for r in rows if r["row_kind"] == "offset"}
        assert commits == {"group-0": 8, "group-1": 9, "transactional": 1}
        assert [row["control_type"] for row in rows if row["row_kind"] == "marker"] == [1]
        progress = progress_of(rows)
        assert (progress[0]["records_read"], progress[0]["records_superseded"]) == (10, 6)
        assert progress[0]["bytes_read"] == sum(len(raw) for _, _, raw in client.logs[0].batches)
        assert [progress[p]["record_offset"] for p in (0, 1, 2)] == [10, 2, 0]
        assert {progress[p]["log_leader_epoch"] for p in (0, 1, 2)} == {5}

    def test_a_range_ends_where_it_was_planned(self, client: MemoryLogClient) -> None:
        client.logs = {0: client.logs[0]}
        rows = self.read(client, sampling=None, from_offset=3, to_offset=6)
        assert [row["record_offset"] for row in rows] == [3, 4, 5, 6]
        assert rows[-1]["from_offset"] == 3
        assert rows[-1]["high_watermark"] == 10

    def test_compaction_reaches_across_fetches(
        self, client: MemoryLogClient, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(log_range, "DEFAULT_MAX_BYTES", 300)
        monkeypatch.setattr(log_range, "DEFAULT_MAX_PARTITION_BYTES", 300)
        monkeypatch.setattr(held_rows, "_COMPACTION_STEP_ROWS", 2)
        rows = self.read(client)
        assert len(client.fetches) > 5
        commits = [row["group_id"] for row in rows if row["row_kind"] == "offset"]
        # The first and the last of each key that is no transaction's.
        assert sorted(commits) == ["group-0"] * 2 + ["group-1"] * 2 + ["transactional"]
        assert len(rows) == len(commits) + 1 + 3

    def test_rows_that_take_too_much_memory_are_given_up_early(
        self, client: MemoryLogClient, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(log_range, "DEFAULT_MAX_PARTITION_BYTES", 300)
        monkeypatch.setattr(log_range, "_MAX_HELD_BYTES", 1)
        rows = self.read(client)
        commits = [row for row in rows if row["log_partition"] == 0 and row["group_id"]]
        assert len(commits) > 2
        assert commits[-1]["committed_offset"] == 9

    def test_a_batch_that_does_not_fit_is_fetched_with_more_bytes(
        self, client: MemoryLogClient, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(log_range, "DEFAULT_MAX_BYTES", 20)
        monkeypatch.setattr(log_range, "DEFAULT_MAX_PARTITION_BYTES", 10)
        rows = self.read(client)
        assert progress_of(rows)[0]["records_read"] == 10
        assert max(limit for limit, _ in client.limits) > 100

    def test_gaps_and_a_range_whose_end_was_compacted_away_are_passed(
        self, client: MemoryLogClient
    ) -> None:
        client.logs[0].commit("after a gap", 1, gap=100)
        client.logs[1].batches.clear()
        client.logs[2].high_watermark = 50
        progress = progress_of(self.read(client))
        assert [progress[p]["record_offset"] for p in (0, 1, 2)] == [111, 2, 50]
        assert [progress[p]["records_read"] for p in (0, 1, 2)] == [11, 0, 0]

    def test_a_leader_that_lags_behind_the_end_is_waited_for(self, client: MemoryLogClient) -> None:
        client.logs = {2: client.logs[2]}
        client.arrivals = [(2, "a"), (2, "b"), (2, "c")]
        assert progress_of(self.read(client, to_offset=3))[2]["records_read"] == 3

    def test_it_is_waited_for_as_long_as_the_retry_timeout_says(
        self, client: MemoryLogClient
    ) -> None:
        reader = reader_of(retry_timeout_ms="50")
        start = reader.initialOffset()
        (partition,) = reader.partitions(start, reader.latestOffset(start, ReadAllAvailable()))
        for log in client.logs.values():
            log.batches.clear()
            log.high_watermark = 0
        with pytest.raises(TimeoutError, match=r"no records for 0\.05 s below the planned high"):
            list(reader.read(partition))

    def test_the_next_fetch_is_for_what_is_not_being_decoded(
        self, client: MemoryLogClient, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(log_range, "DEFAULT_MAX_BYTES", 300)
        self.read(client)
        assert client.fetches[0] == {0: 0, 1: 0}
        assert client.fetches[1] == {1: 0}

    def test_batches_are_of_moderate_size(
        self, client: MemoryLogClient, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for number in range(200):
            client.logs[2].commit(f"group-{number}", number)
        monkeypatch.setattr(log_range, "_BATCH_ROWS", 50)
        sizes = [batch.num_rows for batch in self.batches(client)]
        assert sum(sizes) == 200 + 1
        assert max(sizes) <= 50
        assert len(sizes) < 10
        monkeypatch.setattr(log_range, "_BATCH_BYTES", 1)
        assert {batch.num_rows for batch in self.batches(client)} == {1}

    def batches(self, client: MemoryLogClient) -> Iterator[pa.RecordBatch]:
        return read_ranges(client, [range_of(2, client.logs[2].high_watermark)], sampling=SAMPLED)

    def test_records_below_the_start_offsets_are_neither_rows_nor_counted(
        self, client: MemoryLogClient
    ) -> None:
        beginning = reader_of().initialOffset()
        reader = reader_of(start_offsets='{"0": 9, "1": 99}')
        end = reader_of().latestOffset(beginning, ReadAllAvailable())
        rows = rows_of(reader, reader.partitions(beginning, end))
        assert_accounted(rows)
        progress = progress_of(rows)
        assert [row["record_offset"] for row in rows if row["row_kind"] != "progress"] == [9]
        assert progress[0]["from_offset"] == 9
        assert (progress[1]["from_offset"], progress[1]["record_offset"]) == (2, 2)
        assert [progress[p]["records_read"] for p in (0, 1)] == [1, 0]
        # The batch before comes along.
        assert client.fetches[-1] == {0: 8}

    def test_a_partition_of_another_source_is_refused(self) -> None:
        with pytest.raises(TypeError, match="not a partition of this source"):
            reader_of().read(InputPartition(None))
