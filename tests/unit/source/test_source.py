"""The source without Spark and without Kafka: planning and reading against a log in memory."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from coordinator_state.log.log_rows import LOG_ROW_SCHEMA, PACKED_ROW_SCHEMA, unpack
from coordinator_state.records.internal_topics import OFFSETS_TOPIC
from streaming.errors import ConfigurationError, LogTruncated
from streaming.kafka.seen_log import OffsetAndEpoch
from streaming.source import MOST_RECORDS_PER_TRIGGER
from streaming.source.coordinator_log import CoordinatorLogDataSource, LogRangeGroup
from streaming.source.log_range import LogRange
from streaming.source.micro_batch import group_ranges, share_out
from streaming.source.options import SourceOptions
from tests.support.logs.memory_log import (
    BOOTSTRAP,
    ENTRIES,
    MemoryLogClient,
    positions_of,
    progress_of,
    range_of,
    reader_of,
    rows_of,
)


class TestDataSource:
    def test_its_schema_is_that_of_the_log_rows(self) -> None:
        schema = CoordinatorLogDataSource(BOOTSTRAP).schema()
        assert to_arrow_schema(schema, timezone="UTC").equals(LOG_ROW_SCHEMA)
        assert CoordinatorLogDataSource.name() == "coordinator_log"

    def test_a_reader_is_pickled_without_its_connections(self, client: MemoryLogClient) -> None:
        reader = reader_of(history="all", start_offsets='{"0": 3}')
        start = reader.initialOffset()
        copy = cloudpickle.loads(cloudpickle.dumps(reader))
        assert copy._offsets._client is None
        end = reader.latestOffset(start, ReadAllAvailable())
        partitions = cloudpickle.loads(cloudpickle.dumps(list(reader.partitions(start, end))))
        assert rows_of(copy, partitions) == rows_of(reader, reader.partitions(start, end))
        reader.stop()
        assert client.is_closed

    @pytest.mark.parametrize(
        ("options", "complaint"),
        [
            ({"kafka.bootstrap.servers": ""}, r"kafka.bootstrap.servers is missing"),
            ({"kafka.securty.protocol": "SSL"}, "unknown Kafka setting"),
            ({"max_records": "1"}, "unknown option 'max_records'"),
            ({"max_records_per_trigger": "0"}, "whole number of at least 1"),
            ({"packed": "yes"}, "option packed must be true or false, not 'yes'"),
            ({"max_bytes_per_trigger": "lots"}, "whole number of at least 1"),
            ({"tasks": "-1"}, "whole number of at least 1"),
            ({"history": "some"}, "one of off, sampled, all"),
            ({"log_partitions": "1-3"}, "must be a list of numbers"),
            ({"start_offsets": "[1]"}, "must be JSON"),
            ({"start_offsets": '{"0": [1, 2, 3]}'}, "must be JSON"),
            ({"start_offsets": '{"0": []}'}, "must be JSON"),
            ({"start_offsets": '{"a": 1}'}, "must be JSON"),
            ({"kafka.sasl.plain.password": "hush"}, "a secret, which Spark would show"),
            *(
                ({"other_topics": text}, "option other_topics must be JSON")
                for text in (
                    *("no", "[1]", '{"x": {"log_partitions": [0]}}'),
                    '{"x": {"log_partitions": ["a"], "start_offsets": {}}}',
                    '{"x": {"log_partitions": [0], "start_offsets": {"0": [1, 2, 3]}}}',
                )
            ),
        ],
    )
    def test_a_wrong_option_is_refused(self, options: dict[str, str], complaint: str) -> None:
        with pytest.raises(ConfigurationError, match=complaint):
            SourceOptions.read(BOOTSTRAP | options)

    def test_options_come_in_any_case_and_hide_the_kafka_settings(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("KAFKA_PASSWORD", "secret")
        options = SourceOptions.read(
            BOOTSTRAP
            | {
                "Log_Partitions": "3, 1",
                "kafka.security.protocol": "SASL_PLAINTEXT",
                "kafka.sasl.mechanism": "PLAIN",
                "kafka.sasl.plain.username": "reader",
                "kafka.sasl.plain.password.env": "KAFKA_PASSWORD",
            }
        )
        assert options.log_partitions == (1, 3)
        assert "secret" not in repr(options)


@pytest.mark.usefixtures("client")
class TestPlanning:
    @pytest.mark.parametrize(("position", "gone"), [(1, "offsets 1 to 3"), (12, "10 to 11")])
    def test_a_start_offset_that_is_not_in_the_log_is_refused(
        self, client: MemoryLogClient, position: int, gone: str
    ) -> None:
        client.logs[0].log_start = 4
        with pytest.raises(LogTruncated, match=f"log partition 0 .*{gone} are lost"):
            reader_of(start_offsets=json.dumps({"0": position})).initialOffset()

    def test_only_the_chosen_log_partitions_are_read(self) -> None:
        reader = reader_of(log_partitions="2,0")
        start = reader.initialOffset()
        assert list(start["p"]) == ["0", "2"]
        end = reader.latestOffset(start, ReadAllAvailable())
        assert set(progress_of(rows_of(reader, reader.partitions(start, end)))) == {0, 2}

    def test_a_log_partition_that_is_not_there_is_refused(self) -> None:
        with pytest.raises(ConfigurationError, match="has 3 partitions, but no log partition 3"):
            reader_of(log_partitions="1,3").initialOffset()

    def test_without_a_limit_as_much_is_read_as_fits(self, client: MemoryLogClient) -> None:
        reader = reader_of()
        limit = reader.getDefaultReadLimit()
        assert limit == ReadMaxRows(MOST_RECORDS_PER_TRIGGER)
        client.logs[0].high_watermark = 10 * MOST_RECORDS_PER_TRIGGER
        start = reader.initialOffset()
        end = reader.latestOffset(start, limit)
        assert sum(positions_of(end).values()) == MOST_RECORDS_PER_TRIGGER
        everything = reader_of(history="all").latestOffset(start, limit)
        fitting = sum(positions_of(everything).values())
        assert 100_000 < fitting < 1_000_000
        shared = reader_of(history="all", planning_tasks="2").latestOffset(start, limit)
        assert sum(positions_of(shared).values()) == pytest.approx(2 * fitting, rel=0.01)

    def test_rows_come_packed_where_that_is_asked_for(self) -> None:
        rows, packed = (reader_of(packed=packed) for packed in ("false", "TRUE"))
        start = rows.initialOffset()
        ranges = rows.partitions(start, rows.latestOffset(start, ReadAllAvailable()))
        batches = [batch for planned in ranges for batch in packed.read(planned)]
        assert {batch.schema for batch in batches} == {PACKED_ROW_SCHEMA}
        assert unpack(pa.Table.from_batches(batches)).to_pylist() == rows_of(rows, ranges)
        assert unpack(PACKED_ROW_SCHEMA.empty_table()).equals(LOG_ROW_SCHEMA.empty_table())

    def test_a_byte_limit_is_turned_into_offsets_by_a_sample(self, client: MemoryLogClient) -> None:
        size = sum(len(raw) for log in client.logs.values() for _, _, raw in log.batches)
        reader = reader_of(max_bytes_per_trigger=str(size // 2))
        end = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
        assert sum(positions_of(end).values()) in (5, 6)
        everything = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
        assert positions_of(everything) == {0: 10, 1: 2, 2: 0}

    @pytest.mark.parametrize("leaders", [{0: 1, 1: 1, 2: 1}, {0: 1, 1: 2, 2: 1}])
    def test_news_end_the_wait(self, client: MemoryLogClient, leaders: dict[int, int]) -> None:
        client.leaders = {p: (node, 5) for p, node in leaders.items()}
        reader = reader_of(long_poll_ms="60000")
        end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
        client.arrivals = [(2, "late")]
        assert positions_of(reader.latestOffset(end, ReadAllAvailable())) == {0: 10, 1: 2, 2: 1}

    def test_what_was_planned_is_in_the_ranges(self) -> None:
        reader = reader_of(max_records_per_trigger="2")
        start = reader.initialOffset()
        end = reader.latestOffset(start, reader.getDefaultReadLimit())
        (group,) = reader.partitions(start, end)
        assert isinstance(group, LogRangeGroup)
        assert [r.high_watermark for r in group.ranges] == [10, 2, 0]
        assert [r.to_offset for r in group.ranges] == [1, 1, 0]

    def test_offsets_of_another_cluster_topic_or_format_are_refused(self) -> None:
        start = reader_of().initialOffset()
        for change, complaint in (
            ({"cluster_id": "other"}, "to cluster other, but this is cluster a-cluster"),
            (
                {"topic_id": "older"},
                "deleted and created again .its id was older, now it is a-topic",
            ),
            ({"v": 1}, "format version 1"),
            ({"p": {"0": [0, 5]}}, "name a new folder with --checkpoint"),
        ):
            with pytest.raises(ConfigurationError, match=complaint):
                reader_of().latestOffset(start | change, ReadAllAvailable())
            with pytest.raises(ConfigurationError, match=complaint):
                reader_of().partitions(start | change, start)


class TestTruncation:
    def test_leaders_must_have_what_start_offsets_say_was_seen(
        self, client: MemoryLogClient
    ) -> None:
        reader = reader_of(start_offsets='{"0": [7, 4], "1": 1}')
        assert positions_of(reader.initialOffset()) == {0: 7, 1: 1, 2: 0}
        assert client.expected == {0: (7, 4, ()), 1: (1, -1, ())}

    def test_leaders_must_have_what_was_planned(self, client: MemoryLogClient) -> None:
        reader = reader_of(max_records_per_trigger="4")
        start = reader.initialOffset()
        end = reader.latestOffset(start, reader.getDefaultReadLimit())
        rows_of(reader, reader.partitions(start, end))
        assert client.expected == {0: (3, 5, ENTRIES), 1: (1, 5, ENTRIES)}

    def test_an_offset_has_the_epoch_of_the_leader_that_told_the_log_end(
        self, client: MemoryLogClient, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        reader, log_ends = reader_of(), client.log_ends

        def and_then_it_moves(log_partitions: Collection[int]) -> dict[int, OffsetAndEpoch]:
            ends = log_ends(log_partitions)
            client.leaders[0] = (2, 6)
            return ends

        start = reader.initialOffset()
        monkeypatch.setattr(client, "log_ends", and_then_it_moves)
        end = reader.latestOffset(start, ReadMaxRows(4))
        assert end["p"]["0"] == [3, 5, [[3, 0]]]
        later = reader.latestOffset(end, ReadMaxRows(4))
        assert later["p"]["0"] == [6, 6, [[3, 0]]]


class TestSharing:
    def test_a_share_is_never_more_than_what_is_left(self) -> None:
        assert share_out({0: 1_000_000, 1: 1, 2: 0}, 10) == {0: 9, 1: 1, 2: 0}
        assert share_out({0: 5, 1: 5, 2: 5}, 10) == {0: 4, 1: 3, 2: 3}
        assert share_out({0: 5, 1: 5, 2: 5}, 2) == {0: 1, 1: 1, 2: 1}
        assert share_out({0: 3, 1: 4}, 7) == {0: 3, 1: 4}
        assert share_out({0: 3, 1: 4}, None) == {0: 3, 1: 4}

    def ranges(self, sizes: Mapping[int, int]) -> list[LogRange]:
        return [range_of(p, 5 + size, 5) for p, size in sizes.items()]

    def test_tasks_have_alike_to_read_and_leaders_stay_together(self) -> None:
        sizes = {p: 10_000 + p for p in range(48)} | {48: 100_000, 49: 0}
        leaders = {(OFFSETS_TOPIC, p): p % 2 for p in sizes}
        groups = group_ranges(self.ranges(sizes), leaders, 2)
        loads = [sum(r.to_offset - r.from_offset for r in group) for group in groups]
        assert len(groups) == 2
        assert max(loads) < 1.1 * min(loads)
        assert sorted(r.log_partition for group in groups for r in group) == list(sizes)
        even = group_ranges(self.ranges(dict.fromkeys(range(48), 10_000)), leaders, 2)
        assert [{leaders[r.place] for r in group} for group in even] == [{0}, {1}]

    def test_little_to_read_and_one_range_are_one_task(self) -> None:
        assert len(group_ranges(self.ranges({0: 100, 1: 100, 2: 0}), {}, 4)) == 1
        assert len(group_ranges(self.ranges({0: 50_000}), {}, 4)) == 1
