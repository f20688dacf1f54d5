"""The source without Spark and without Kafka: planning and reading against a log in memory."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from coordinator_state.log_rows import LOG_ROW_SCHEMA
from coordinator_state.record_batch import write_control_batch, write_record_batch
from streaming.errors import ConfigurationError, LogTruncated
from streaming.kafka.fetch import FetchedRecords, LogDescription
from streaming.source import coordinator_log as source
from streaming.source import log_range
from streaming.source.coordinator_log import (
    CoordinatorLogDataSource,
    CoordinatorLogStreamReader,
    LogRangeGroup,
)
from streaming.source.log_range import LogRange, read_ranges
from streaming.source.micro_batch import group_ranges, share_out
from streaming.source.options import SourceOptions
from tests.logs import offset_key, offset_value

CLUSTER_ID, TOPIC_ID = "a-cluster", "a-topic"
BOOTSTRAP = {"kafka.bootstrap.servers": "broker:9092"}


@dataclass
class MemoryLog:
    """One log partition: record batches with their first and last offsets."""

    batches: list[tuple[int, int, bytes]] = field(default_factory=list)
    log_start: int = 0
    high_watermark: int = 0

    def append(self, raw: bytes, records: int = 1, *, gap: int = 0) -> None:
        base_offset = self.high_watermark + gap
        self.batches.append((base_offset, base_offset + records - 1, raw))
        self.high_watermark = base_offset + records

    def commit(self, group_id: str, committed_offset: int | None, *, gap: int = 0) -> None:
        value = None if committed_offset is None else offset_value(committed_offset)
        record = (0, 0, offset_key(group_id, "t", 0), value)
        self.append(write_record_batch(self.high_watermark + gap, [record]), gap=gap)

    def transaction(self, group_id: str, producer_id: int) -> None:
        record = (0, 0, offset_key(group_id, "t", 0), offset_value(1))
        self.append(
            write_record_batch(
                self.high_watermark,
                [record],
                producer_id=producer_id,
                producer_epoch=0,
                is_transactional=True,
            )
        )
        self.append(write_control_batch(self.high_watermark, producer_id, 0, 1))


class MemoryLogClient:
    """What a `LogClient` does, over logs in memory; `fetches` are the positions of each request."""

    def __init__(self, logs: Mapping[int, MemoryLog]) -> None:
        self.logs = dict(logs)
        self.leaders = dict.fromkeys(self.logs, (1, 5))
        self.cluster_id, self.topic_id = CLUSTER_ID, TOPIC_ID
        self.epoch_ends: dict[int, int] = {}
        self.sizes: dict[int, int] = {}
        self.fetches: list[dict[int, int]] = []
        self.limits: list[tuple[int, int]] = []
        self.is_closed = False
        self.arrivals: list[tuple[int, str]] = []

    def describe(self) -> LogDescription:
        return LogDescription(
            topic="__consumer_offsets",
            cluster_id=self.cluster_id,
            topic_id=self.topic_id,
            leaders=dict(self.leaders),
        )

    def earliest_offsets(self) -> dict[int, int]:
        return {p: log.log_start for p, log in self.logs.items()}

    def high_watermarks(self) -> dict[int, int]:
        return {p: log.high_watermark for p, log in self.logs.items()}

    def epoch_end_offsets(self, epochs: Mapping[int, int]) -> dict[int, int]:
        return {p: self.epoch_ends[p] for p in epochs if p in self.epoch_ends}

    def log_sizes(self) -> dict[int, int]:
        return self.sizes

    def fetch(
        self,
        positions: Mapping[int, int],
        max_bytes: int = 1 << 20,
        max_partition_bytes: int = 1 << 20,
        max_wait_ms: int = 0,  # noqa: ARG002
    ) -> dict[int, FetchedRecords]:
        self.fetches.append(dict(positions))
        self.limits.append((max_bytes, max_partition_bytes))
        if self.arrivals:
            log_partition, group_id = self.arrivals.pop()
            self.logs[log_partition].commit(group_id, 1)
        fetched = {}
        for log_partition, position in positions.items():
            log = self.logs[log_partition]
            records = self._records(log, position, min(max_bytes, max_partition_bytes))
            max_bytes = max(0, max_bytes - len(records))
            fetched[log_partition] = FetchedRecords(
                records=records,
                high_watermark=log.high_watermark,
                log_start_offset=log.log_start,
            )
        return fetched

    def _records(self, log: MemoryLog, position: int, size_bytes: int) -> bytes:
        found = b"".join(raw for _, last, raw in log.batches if last >= position)
        return found[:size_bytes]

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> MemoryLogClient:
    """Three log partitions: ten commits of two groups, one transaction, nothing."""
    logs = {0: MemoryLog(), 1: MemoryLog(), 2: MemoryLog()}
    for number in range(10):
        logs[0].commit(f"group-{number % 2}", number)
    logs[1].transaction("transactional", 7)
    client = MemoryLogClient(logs)
    monkeypatch.setattr(source, "LogClient", lambda *_: client)
    monkeypatch.setattr(source, "shared_log_client", lambda *_: client)
    return client


def reader_of(**options: str) -> CoordinatorLogStreamReader:
    texts = BOOTSTRAP | {"long_poll_ms": "20"} | options
    data_source = CoordinatorLogDataSource(texts)
    return data_source.streamReader(data_source.schema())


def rows_of(
    reader: CoordinatorLogStreamReader, partitions: Sequence[InputPartition]
) -> list[dict[str, Any]]:
    batches = [batch for partition in partitions for batch in reader.read(partition)]
    for batch in batches:
        assert batch.schema.equals(LOG_ROW_SCHEMA)
    return [row for batch in batches for row in batch.to_pylist()]


def positions_of(offset: Mapping[str, Any]) -> dict[int, int]:
    return {int(p): position for p, (position, _) in offset["p"].items()}


def progress_of(rows: Sequence[Mapping[str, Any]]) -> dict[int, Mapping[str, Any]]:
    return {row["log_partition"]: row for row in rows if row["row_kind"] == "progress"}


def assert_accounted(rows: Sequence[Mapping[str, Any]]) -> None:
    """Every record read is a row or superseded; the progress row is a log partition's last."""
    emitted: Counter[int] = Counter()
    ended: dict[int, Mapping[str, Any]] = {}
    for row in rows:
        assert row["log_partition"] not in ended
        if row["row_kind"] == "progress":
            ended[row["log_partition"]] = row
        else:
            emitted[row["log_partition"]] += 1
    for log_partition, progress in ended.items():
        superseded = progress["records_superseded"]
        assert progress["records_read"] == emitted[log_partition] + superseded
    assert set(emitted) <= set(ended)


class TestDataSource:
    def test_its_schema_is_that_of_the_log_rows(self) -> None:
        schema = CoordinatorLogDataSource(BOOTSTRAP).schema()
        assert to_arrow_schema(schema, timezone="UTC").equals(LOG_ROW_SCHEMA)
        assert CoordinatorLogDataSource.name() == "coordinator_log"

    def test_a_reader_is_pickled_without_its_connections(self, client: MemoryLogClient) -> None:
        reader = reader_of(history="all", start_offsets='{"0": 3}')
        start = reader.initialOffset()
        copy = cloudpickle.loads(cloudpickle.dumps(reader))
        assert copy._client is None
        end = reader.latestOffset(start, ReadAllAvailable())
        partitions = cloudpickle.loads(cloudpickle.dumps(list(reader.partitions(start, end))))
        assert rows_of(copy, partitions) == rows_of(reader, reader.partitions(start, end))
        reader.stop()
        assert client.is_closed

    @pytest.mark.parametrize(
        ("options", "complaint"),
        [
            ({"kafka.bootstrap.servers": ""}, r"kafka.bootstrap.servers is needed"),
            ({"kafka.securty.protocol": "SSL"}, "unknown Kafka setting"),
            ({"max_records": "1"}, "unknown option 'max_records'"),
            ({"max_records_per_trigger": "0"}, "whole number of at least 1"),
            ({"max_bytes_per_trigger": "lots"}, "whole number of at least 1"),
            ({"tasks": "-1"}, "whole number of at least 1"),
            ({"history": "some"}, "one of off, sampled, all"),
            ({"log_partitions": "1-3"}, "numbers with commas"),
            ({"start_offsets": "[1]"}, "must be JSON"),
            ({"start_offsets": '{"a": 1}'}, "must be JSON"),
        ],
    )
    def test_a_wrong_option_is_refused(self, options: dict[str, str], complaint: str) -> None:
        with pytest.raises(ConfigurationError, match=complaint):
            SourceOptions.read(BOOTSTRAP | options)

    def test_options_come_in_any_case_and_hide_the_kafka_settings(self) -> None:
        options = SourceOptions.read(
            BOOTSTRAP
            | {
                "Log_Partitions": "3, 1",
                "kafka.security.protocol": "SASL_PLAINTEXT",
                "kafka.sasl.mechanism": "PLAIN",
                "kafka.sasl.plain.username": "reader",
                "kafka.sasl.plain.password": "secret",
            }
        )
        assert options.log_partitions == (1, 3)
        assert "secret" not in repr(options)


@pytest.mark.usefixtures("client")
class TestPlanning:
    def test_the_first_offset_is_the_log_start(self, client: MemoryLogClient) -> None:
        client.logs[0].log_start = 4
        assert reader_of().initialOffset() == {
            "v": 1,
            "cluster_id": CLUSTER_ID,
            "topic_id": TOPIC_ID,
            "p": {"0": [4, 5], "1": [0, 5], "2": [0, 5]},
        }

    def test_a_query_goes_on_at_its_start_offsets(self) -> None:
        reader = reader_of(start_offsets='{"0": 7, "9": 1}')
        assert positions_of(reader.initialOffset()) == {0: 7, 1: 0, 2: 0}

    @pytest.mark.parametrize(("position", "gone"), [(1, "offsets 1 to 3"), (12, "10 to 11")])
    def test_a_start_offset_that_is_not_in_the_log_is_refused(
        self, client: MemoryLogClient, position: int, gone: str
    ) -> None:
        client.logs[0].log_start = 4
        with pytest.raises(LogTruncated, match=f"log partition 0 .*{gone} are gone"):
            reader_of(start_offsets=json.dumps({"0": position})).initialOffset()

    def test_the_end_is_the_high_watermark_and_stays_the_same_json(self) -> None:
        reader = reader_of()
        start = reader.initialOffset()
        end = reader.latestOffset(start, ReadAllAvailable())
        assert positions_of(end) == {0: 10, 1: 2, 2: 0}
        again = json.loads(json.dumps(end))
        assert json.dumps(reader.latestOffset(again, ReadAllAvailable())) == json.dumps(end)

    def test_only_the_chosen_log_partitions_are_read(self) -> None:
        reader = reader_of(log_partitions="2,0")
        start = reader.initialOffset()
        assert list(start["p"]) == ["0", "2"]
        end = reader.latestOffset(start, ReadAllAvailable())
        assert set(progress_of(rows_of(reader, reader.partitions(start, end)))) == {0, 2}

    def test_a_log_partition_that_is_not_there_is_refused(self) -> None:
        with pytest.raises(ConfigurationError, match="has 3 partitions, log partition 3 is none"):
            reader_of(log_partitions="1,3").initialOffset()

    def test_a_limit_is_shared_by_what_is_left_and_reached_in_the_end(self) -> None:
        reader = reader_of(max_records_per_trigger="4")
        limit = reader.getDefaultReadLimit()
        assert limit == ReadMaxRows(4)
        seen = [reader.initialOffset()]
        while (end := reader.latestOffset(seen[-1], limit)) != seen[-1]:
            seen.append(end)
        assert [positions_of(offset) for offset in seen] == [
            {0: 0, 1: 0, 2: 0},
            {0: 3, 1: 1, 2: 0},
            {0: 6, 1: 2, 2: 0},
            {0: 10, 1: 2, 2: 0},
        ]

    def test_a_byte_limit_is_turned_into_offsets_by_the_size_of_the_log(
        self, client: MemoryLogClient
    ) -> None:
        client.sizes = {0: 1000, 1: 200, 2: 0}
        reader = reader_of(max_bytes_per_trigger="600")
        start = reader.initialOffset()
        end = reader.latestOffset(start, reader.getDefaultReadLimit())
        assert positions_of(end) == {0: 5, 1: 1, 2: 0}
        everything = reader.latestOffset(start, ReadAllAvailable())
        assert positions_of(everything) == {0: 10, 1: 2, 2: 0}

    def test_a_byte_limit_is_turned_into_offsets_by_a_sample_where_sizes_are_not_told(
        self, client: MemoryLogClient
    ) -> None:
        size = sum(len(raw) for log in client.logs.values() for _, _, raw in log.batches)
        reader = reader_of(max_bytes_per_trigger=str(size // 2))
        end = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
        assert sum(positions_of(end).values()) in (5, 6)

    def test_without_news_it_waits_and_gives_the_start_back(self, client: MemoryLogClient) -> None:
        reader = reader_of()
        end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
        assert reader.latestOffset(end, ReadAllAvailable()) is end
        assert client.fetches[-1] == positions_of(end)

    @pytest.mark.parametrize("leaders", [{0: 1, 1: 1, 2: 1}, {0: 1, 1: 2, 2: 1}])
    def test_news_end_the_wait(self, client: MemoryLogClient, leaders: dict[int, int]) -> None:
        client.leaders = {p: (node, 5) for p, node in leaders.items()}
        reader = reader_of(long_poll_ms="60000")
        end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
        client.arrivals = [(2, "late")]
        assert positions_of(reader.latestOffset(end, ReadAllAvailable())) == {0: 10, 1: 2, 2: 1}

    def test_available_now_ends_where_the_log_ended_then(self, client: MemoryLogClient) -> None:
        reader = reader_of()
        reader.prepareForTriggerAvailableNow()
        client.logs[2].commit("late", 1)
        start = reader.initialOffset()
        end = reader.latestOffset(start, reader.getDefaultReadLimit())
        assert positions_of(end) == {0: 10, 1: 2, 2: 0}
        assert reader.latestOffset(end, reader.getDefaultReadLimit()) is end

    def test_what_was_planned_is_in_the_ranges(self) -> None:
        reader = reader_of(max_records_per_trigger="2")
        start = reader.initialOffset()
        end = reader.latestOffset(start, reader.getDefaultReadLimit())
        (group,) = reader.partitions(start, end)
        assert isinstance(group, LogRangeGroup)
        assert [r.high_watermark for r in group.ranges] == [10, 2, 0]
        assert [r.to_offset for r in group.ranges] == [1, 1, 0]

    def test_progress_reports_the_high_watermarks(self) -> None:
        reader = reader_of(log_partitions="0,1", max_records_per_trigger="2")
        assert reader.reportLatestOffset() is None
        reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
        reported = reader.reportLatestOffset()
        assert reported is not None
        assert positions_of(reported) == {0: 10, 1: 2}

    def test_offsets_of_another_cluster_topic_or_format_are_refused(self) -> None:
        start = reader_of().initialOffset()
        for change, complaint in (
            ({"cluster_id": "other"}, "of cluster other, but this is cluster a-cluster"),
            ({"topic_id": "older"}, "deleted and created again .its id was older and is a-topic"),
            ({"v": 2}, "format version 2"),
            ({"p": {"0": [0, 5]}}, "use a new checkpoint"),
        ):
            with pytest.raises(ConfigurationError, match=complaint):
                reader_of().latestOffset(start | change, ReadAllAvailable())
            with pytest.raises(ConfigurationError, match=complaint):
                reader_of().partitions(start | change, start)


class TestTruncation:
    def test_an_epoch_that_ended_below_the_start_is_a_truncated_log(
        self, client: MemoryLogClient
    ) -> None:
        reader = reader_of()
        end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
        client.leaders[0] = (2, 6)
        client.epoch_ends = {0: 8}
        client.logs[0].high_watermark = 30
        with pytest.raises(LogTruncated, match=r"offsets 8 to 9 are gone, .* truncated to 8"):
            reader.latestOffset(end, ReadAllAvailable())

    def test_a_new_leader_that_has_everything_is_asked_once(self, client: MemoryLogClient) -> None:
        reader = reader_of()
        end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
        client.leaders[0] = (2, 6)
        client.epoch_ends = {0: 10}
        assert reader.latestOffset(end, ReadAllAvailable()) is end
        client.epoch_ends = {0: 0}
        assert reader.latestOffset(end, ReadAllAvailable()) is end
        client.leaders[0] = (1, 7)
        with pytest.raises(LogTruncated):
            reader.latestOffset(end, ReadAllAvailable())

    def test_a_high_watermark_below_the_start_is_a_truncated_log(
        self, client: MemoryLogClient
    ) -> None:
        reader = reader_of()
        end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
        client.logs[0].high_watermark = 7
        with pytest.raises(LogTruncated, match="offsets 7 to 9 are gone"):
            reader.latestOffset(end, ReadAllAvailable())


class TestSharing:
    def test_a_share_is_never_more_than_what_is_left(self) -> None:
        assert share_out({0: 1_000_000, 1: 1, 2: 0}, 10) == {0: 9, 1: 1, 2: 0}
        assert share_out({0: 3, 1: 4}, 7) == {0: 3, 1: 4}
        assert share_out({0: 3, 1: 4}, None) == {0: 3, 1: 4}

    def ranges(self, sizes: Mapping[int, int]) -> list[LogRange]:
        return [
            LogRange(
                log_partition=p, from_offset=5, to_offset=5 + n, high_watermark=9, leader_epoch=0
            )
            for p, n in sizes.items()
        ]

    def test_tasks_have_alike_to_read_and_leaders_stay_together(self) -> None:
        sizes = {p: 10_000 + p for p in range(48)} | {48: 100_000, 49: 0}
        leaders = {p: p % 2 for p in sizes}
        groups = group_ranges(self.ranges(sizes), leaders, 2)
        loads = [sum(r.to_offset - r.from_offset for r in group) for group in groups]
        assert len(groups) == 2
        assert max(loads) < 1.1 * min(loads)
        assert sorted(r.log_partition for group in groups for r in group) == list(sizes)
        even = group_ranges(self.ranges(dict.fromkeys(range(48), 10_000)), leaders, 2)
        assert [{leaders[r.log_partition] for r in group} for group in even] == [{0}, {1}]

    def test_little_to_read_is_one_task(self) -> None:
        assert len(group_ranges(self.ranges({0: 100, 1: 100, 2: 0}), {}, 4)) == 1

    def test_there_are_no_tasks_without_ranges(self) -> None:
        assert len(group_ranges(self.ranges({0: 50_000}), {}, 4)) == 1


class TestReading:
    def read(
        self, client: MemoryLogClient, *, compact: bool = True, **bounds: int
    ) -> list[dict[str, Any]]:
        ranges = [
            LogRange(
                log_partition=p,
                from_offset=bounds.get("from_offset", log.log_start),
                to_offset=bounds.get("to_offset", log.high_watermark),
                high_watermark=log.high_watermark,
                leader_epoch=5,
            )
            for p, log in client.logs.items()
        ]
        batches = list(read_ranges(client, ranges, compact=compact))
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
        assert progress[0]["records_read"], progress[0]["records_superseded"] == (10, 8)
        assert progress[0]["bytes_read"] == sum(len(raw) for _, _, raw in client.logs[0].batches)
        assert [progress[p]["record_offset"] for p in (0, 1, 2)] == [10, 2, 0]
        assert {progress[p]["log_leader_epoch"] for p in (0, 1, 2)} == {5}

    def test_all_history_comes_through(self, client: MemoryLogClient) -> None:
        rows = self.read(client, compact=False)
        commits = [row["committed_offset"] for row in rows if row["log_partition"] == 0]
        assert commits == [*range(10), None]

    def test_a_range_ends_where_it_was_planned(self, client: MemoryLogClient) -> None:
        client.logs = {0: client.logs[0]}
        rows = self.read(client, compact=False, from_offset=3, to_offset=6)
        assert [row["record_offset"] for row in rows] == [3, 4, 5, 6]
        assert rows[-1]["from_offset"] == 3
        assert rows[-1]["high_watermark"] == 10

    def test_compaction_reaches_across_fetches(
        self, client: MemoryLogClient, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(log_range, "DEFAULT_MAX_BYTES", 300)
        monkeypatch.setattr(log_range, "DEFAULT_MAX_PARTITION_BYTES", 300)
        monkeypatch.setattr(log_range, "_COMPACTION_STEP_ROWS", 2)
        rows = self.read(client)
        assert len(client.fetches) > 5
        commits = {r["group_id"]: r["committed_offset"] for r in rows if r["row_kind"] == "offset"}
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

    def test_a_leader_that_lags_behind_the_end_is_waited_for(
        self, client: MemoryLogClient, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(log_range, "RETRY_TIMEOUT_MS", 50)
        client.logs = {2: client.logs[2]}
        with pytest.raises(TimeoutError, match="below what was the high watermark"):
            self.read(client, to_offset=3)
        client.arrivals = [(2, "a"), (2, "b"), (2, "c")]
        assert progress_of(self.read(client, to_offset=3))[2]["records_read"] == 3

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
        log = client.logs[2]
        whole = LogRange(
            log_partition=2,
            from_offset=0,
            to_offset=log.high_watermark,
            high_watermark=log.high_watermark,
            leader_epoch=0,
        )
        return read_ranges(client, [whole], compact=True)

    def test_an_idle_micro_batch_is_one_small_batch_without_a_fetch(
        self, client: MemoryLogClient
    ) -> None:
        reader = reader_of()
        end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
        (partition,) = reader.partitions(end, end)
        client.fetches.clear()
        (batch,) = reader.read(partition)
        assert batch.num_rows == 3
        assert client.fetches == []

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
        assert client.fetches[-1] == {0: 9}

    def test_a_task_refuses_another_topic_than_was_planned(self, client: MemoryLogClient) -> None:
        reader = reader_of()
        start = reader.initialOffset()
        partitions = reader.partitions(start, reader.latestOffset(start, ReadAllAvailable()))
        client.topic_id = "recreated"
        with pytest.raises(ConfigurationError, match="deleted and created again"):
            reader.read(partitions[0])
        with pytest.raises(TypeError, match="not a partition of this source"):
            reader.read(InputPartition(None))
