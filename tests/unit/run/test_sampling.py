"""Logs are sampled: which ones, their ends, and failures."""

from __future__ import annotations

import logging
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from coordinator_state.errors import CorruptRecordBatch
from streaming.kafka.partition_offsets import LogOffsets, TopicPartition
from streaming.lag.group_lag import tables_known_until
from streaming.lag.sample_runs import SampleRuns
from streaming.run.sampling import LogOffsetsSampling
from streaming.tables.opening import open_for_writing
from streaming.tables.reader import TableReader
from streaming.tables.writer import Writer
from tests.support.tables.sampled import metric, sampling_of
from tests.support.tables.tables_folder import apply_micro_batch, create_tables

PROGRESS = [{"log_partition": 0}]


class Sampled:
    """The sampling of a folder, whose client answers with nothing; and what it was asked."""

    def __init__(self, tables: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sampling = sampling_of(tables)
        self.asked: list[set[str]] = []
        monkeypatch.setattr(self.sampling._client, "sample", self._sample)

    def _sample(self, partitions: frozenset[TopicPartition]) -> list[LogOffsets]:
        self.asked.append({f"{at.topic}:{at.partition}" for at in partitions})
        return []


def present(at: TopicPartition, end: int) -> LogOffsets:
    """A log without open transactions."""
    return LogOffsets(
        topic=at.topic,
        partition=at.partition,
        state="present",
        topic_id="T",
        log_start_offset=0,
        last_stable_offset=end,
        log_end_offset=end,
    )


def test_a_failure_is_said_once_and_then_that_it_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tables = create_tables(tmp_path)
    offset = {"group_id": "g", "log_partition": 0, "topic": "t", "committed_offset": 1}
    apply_micro_batch(
        tables,
        progress=PROGRESS,
        group_offsets=[{**offset, "partition": 3}, {**offset, "partition": 3, "group_id": "h"}],
    )
    sampling = sampling_of(tables)
    asked: list[list[TopicPartition]] = []
    written: list[Any] = []
    answers: list[Any] = [TimeoutError("nobody answers\nfor long"), OSError("x"), [], None]
    seen = LogOffsets(topic="t", partition=3, state="present", log_end_offset=5)
    answers[2:] = [[seen], [seen], [seen]]

    def sample(partitions: Any) -> Any:
        asked.append(sorted(partitions))
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer or []

    monkeypatch.setattr(sampling._client, "sample", sample)

    def append(*arguments: Any, **_number: int) -> None:
        written.append(arguments[-1])
        if len(written) == 1:
            raise OSError("the disk is full")

    monkeypatch.setattr(Writer, "append", append)
    caplog.set_level(logging.WARNING, "streaming.run.sampling")
    for _ in range(5):
        sampling.sample()
    sampling.close()

    assert [record.getMessage() for record in caplog.records] == [
        "cannot sample log offsets: nobody answers; retrying",
        "sampling log offsets works again; 0 samples were dropped",
    ]
    own = TopicPartition("__consumer_offsets", 0)
    assert asked == [[own, TopicPartition("t", 3)]] * 5
    # What could not be written is written with the next sample, and once.
    failed, rows = written
    assert rows == failed
    assert rows["log_end_offset"].to_pylist() == [5]


def test_assigned_partitions_are_sampled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A member that never commits is noticed by what is produced to its partitions."""
    tables = create_tables(tmp_path)
    sampled = Sampled(tables, monkeypatch)
    member = {"group_id": "g", "member_id": "m"}
    for assignment in ([1, 2], [2], []):
        places = [{"topic": "t", "partition": partition} for partition in assignment]
        apply_micro_batch(
            tables,
            progress=PROGRESS,
            group_members=[{**member, "assignment": places}],
        )
        sampled.sampling.sample()
    sampled.sampling.close()
    own = "__consumer_offsets:0"
    assert sampled.asked == [{own, "t:1", "t:2"}, {own, "t:2"}, {own}]


def test_the_end_of_a_log_is_looked_at_once_it_rests_near_a_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = create_tables(tmp_path)
    offset = {"group_id": "g", "topic": "t", "partition": 0}
    apply_micro_batch(
        tables,
        progress=PROGRESS,
        group_offsets=[
            {**offset, "committed_offset": 4},
            {**offset, "committed_offset": 8, "group_id": "h"},
            {**offset, "committed_offset": 9, "group_id": "i"},
        ],
    )
    sampling = sampling_of(tables)
    ends = iter([9, 9, 9, 30, 30, 9, 9])
    asked: list[Any] = []
    written: list[Any] = []

    def sample(_partitions: Any) -> list[LogOffsets]:
        return [present(TopicPartition("t", 0), next(ends))]

    def end_markers(places: Any) -> dict[TopicPartition, int]:
        if places:
            asked.append(dict(places))
        if len(asked) > 1:
            raise TimeoutError("nobody answers")
        return dict.fromkeys(places, 1)

    monkeypatch.setattr(sampling._client, "sample", sample)
    monkeypatch.setattr(sampling._client, "end_markers", end_markers)
    monkeypatch.setattr(Writer, "append", lambda *arguments, **_: written.append(arguments[-1]))
    for _ in range(7):
        sampling.sample()
    sampling.close()
    at = TopicPartition("t", 0)
    # 9 of the offsets is at the end, 4 further from it than 8; nothing is near 30.
    assert asked == [{at: (8, 9)}] * 2
    rows = [row for table in written for row in table.to_pylist()]
    samples = [(row["log_end_offset"], row["end_markers"]) for row in rows]
    assert samples == [(9, None), (9, 1), (9, 1), (30, None), (30, None), (9, None)]


def test_a_log_end_that_cannot_be_read_is_the_state_of_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tables = create_tables(tmp_path)
    offset = {"group_id": "g", "partition": 0, "committed_offset": 8}
    apply_micro_batch(
        tables,
        progress=PROGRESS,
        group_offsets=[{**offset, "topic": topic} for topic in ("damaged", "sound")],
    )
    sampling = sampling_of(tables)
    ends = iter([9, 9, 9, 20, 9, 9, 9])
    damaged, sound = TopicPartition("damaged", 0), TopicPartition("sound", 0)
    answers: dict[TopicPartition, Any] = {
        damaged: CorruptRecordBatch("no such magic", position=16),
        sound: 1,
    }

    def sample(_partitions: Any) -> list[LogOffsets]:
        end = next(ends)
        return [present(at, end) for at in (damaged, sound)]

    monkeypatch.setattr(sampling._client, "sample", sample)
    monkeypatch.setattr(
        sampling._client, "end_markers", lambda places: {at: answers[at] for at in places}
    )
    caplog.set_level(logging.WARNING, "streaming.run.sampling")
    for _ in range(6):
        sampling.sample()
    # Twice: the log has grown in between.
    (said,) = (record.getMessage() for record in caplog.records)
    assert re.match("cannot read the end of log damaged-0: .*no such magic; it is unknown", said)
    assert metric(sampling, "unreadable_log_ends") == 1
    assert metric(sampling, "sampled_partitions", state="present") == 2
    rows = TableReader(tables).read("log_offsets").to_pylist()
    markers = {(row["topic"], row["end_markers"]) for row in rows if row["log_end_offset"] == 9}
    assert markers == {("damaged", None), ("sound", None), ("sound", 1)}
    answers[damaged] = 1
    monkeypatch.setattr(sampling, "_ends", {})
    ends = iter([9, 9])
    for _ in range(2):
        sampling.sample()
    assert metric(sampling, "unreadable_log_ends") == 0
    sampling.close()
    assert metric(sampling, "sampling_total", outcome="failed") == 0


def test_a_new_folder_samples_the_log_partitions_before_it_has_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How far the tables are behind after a single load is then known."""
    tables = create_tables(tmp_path, log_partitions="3")
    sampled = Sampled(tables, monkeypatch)
    sampled.sampling.sample()
    sampled.sampling.close()
    assert sampled.asked == [{f"__consumer_offsets:{number}" for number in range(3)}]


def test_samples_before_and_after_a_load_tell_how_far_behind_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `run --available-now` samples; one log partition grows meanwhile, the other rests."""
    tables = create_tables(tmp_path, log_partitions="2")
    writer = open_for_writing(tables, "test")
    sampling = LogOffsetsSampling(writer, "localhost:1", {}, runs=SampleRuns(timedelta(0)))
    ends = {0: 10, 1: 7}

    def sample(places: frozenset[TopicPartition]) -> list[LogOffsets]:
        return [present(place, ends[place.partition]) for place in places]

    monkeypatch.setattr(sampling._client, "sample", sample)
    monkeypatch.setattr(sampling._client, "end_markers", lambda _places: {})
    sampling.sample()
    # The load ends at the high watermarks of its start, and groups go on committing.
    loaded = [{"log_partition": p, "next_offset": end} for p, end in ends.items()]
    apply_micro_batch(tables, progress=loaded)
    ends[0] = 15
    sampling.sample()
    sampling.close()
    reader = TableReader(tables)
    known = {row["log_partition"]: row for row in tables_known_until(reader).to_pylist()}
    assert [known[p]["is_sampled"] for p in (0, 1)] == [True, True]
    samples = reader.read("log_offsets").to_pylist()
    first, last = (f(row["sampled_at"] for row in samples) for f in (min, max))
    millisecond = timedelta(milliseconds=1)
    assert first - millisecond <= known[0]["known_until"] < last
    assert last - millisecond <= known[1]["known_until"] <= last


def test_the_partitions_that_nobody_reads_are_sampled_if_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list of them is renewed once a minute; until then the old one holds."""
    tables = create_tables(tmp_path)
    offset = {"group_id": "g", "topic": "t", "partition": 0, "committed_offset": 1}
    apply_micro_batch(tables, progress=PROGRESS, group_offsets=[offset])
    sampled = Sampled(tables, monkeypatch)
    sampling = sampled.sampling
    sampling.of_all_topics = True
    lists: list[Any] = [
        frozenset({TopicPartition("t", 0), TopicPartition("t", 1)}),
        TimeoutError("nobody answers"),
        frozenset({TopicPartition("unread", 0)}),
    ]

    def partitions() -> frozenset[TopicPartition]:
        answer = lists.pop(0)
        if isinstance(answer, Exception):
            raise answer
        listed: frozenset[TopicPartition] = answer
        return listed

    monkeypatch.setattr(sampling._client, "partitions", partitions)
    for seconds in (0, 59, 61, 123):
        monkeypatch.setattr("streaming.run.sampling.time.monotonic", lambda now=seconds: now)
        sampling.sample()
    sampling.close()
    read = {"__consumer_offsets:0", "t:0"}
    assert sampled.asked == [*([read | {"t:1"}] * 3), read | {"unread:0"}]
