"""What goes wrong while logs are sampled."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from coordinator_state.record_batch_writer import write_control_batch, write_record_batch
from streaming.kafka.log_offsets import LogOffsets, TopicPartition, _markers
from streaming.lag.sampling import LogOffsetsSampling
from streaming.opening import open_for_writing
from streaming.tables.writer import Writer
from tests.tables_folder import apply_micro_batch, create_tables


def test_a_failure_is_said_once_and_then_that_it_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tables = create_tables(tmp_path)
    offset = {"group_id": "g", "log_partition": 0, "topic": "t", "committed_offset": 1}
    apply_micro_batch(
        tables,
        progress=[{"log_partition": 0}],
        group_offsets=[{**offset, "partition": 3}, {**offset, "partition": 3, "group_id": "h"}],
    )
    sampling = LogOffsetsSampling(open_for_writing(tables, "test"), "localhost:1", {})
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

    def append(*arguments: Any) -> None:
        written.append(arguments[-1])
        if len(written) == 1:
            raise OSError("the disk is full")

    monkeypatch.setattr(Writer, "append", append)
    caplog.set_level(logging.WARNING, "streaming.lag.sampling")
    for _ in range(5):
        sampling.sample()
    sampling.close()

    assert [record.getMessage() for record in caplog.records] == [
        "log offsets are not sampled: nobody answers; trying again",
        "log offsets are sampled again",
    ]
    own = TopicPartition("__consumer_offsets", 0)
    assert asked == [[own, TopicPartition("t", 3)]] * 5
    # What could not be written is written with the next sample, and once.
    failed, rows = written
    assert rows == failed
    assert rows["log_end_offset"].to_pylist() == [5]


def test_the_end_of_a_log_is_looked_at_once_it_rests_near_a_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = create_tables(tmp_path)
    offset = {"group_id": "g", "topic": "t", "partition": 0}
    apply_micro_batch(
        tables,
        progress=[{"log_partition": 0}],
        group_offsets=[
            {**offset, "committed_offset": 4},
            {**offset, "committed_offset": 8, "group_id": "h"},
            {**offset, "committed_offset": 9, "group_id": "i"},
        ],
    )
    sampling = LogOffsetsSampling(open_for_writing(tables, "test"), "localhost:1", {})
    ends = iter([9, 9, 9, 30, 30, 9, 9])
    asked: list[Any] = []
    written: list[Any] = []

    def sample(_partitions: Any) -> list[LogOffsets]:
        end = next(ends)
        one = LogOffsets(topic="t", partition=0, state="present", log_end_offset=end)
        return [replace(one, last_stable_offset=end)]

    def end_markers(places: Any) -> dict[TopicPartition, int]:
        if places:
            asked.append(dict(places))
        if len(asked) > 1:
            raise TimeoutError("nobody answers")
        return dict.fromkeys(places, 1)

    monkeypatch.setattr(sampling._client, "sample", sample)
    monkeypatch.setattr(sampling._client, "end_markers", end_markers)
    monkeypatch.setattr(Writer, "append", lambda *arguments: written.append(arguments[-1]))
    for _ in range(7):
        sampling.sample()
    sampling.close()
    at = TopicPartition("t", 0)
    # 9 of the offsets is at the end, 4 further from it than 8; nothing is near 30.
    assert asked == [{at: (8, 9)}] * 2
    told = [(row["log_end_offset"], row["end_markers"]) for t in written for row in t.to_pylist()]
    assert told == [(9, None), (9, 1), (9, 1), (30, None), (30, None), (9, None)]


def test_markers_that_are_cut_short_are_not_known() -> None:
    marker = write_control_batch(8, 7, 0, 1)
    two = marker + write_control_batch(9, 7, 0, 1)
    assert _markers(two, 8, 10) == 2
    assert _markers(two[:-1], 8, 10) == 2
    assert _markers(marker + two[len(marker) :][:50], 8, 10) is None
    assert _markers(b"", 8, 10) is None
    record = write_record_batch(9, [(0, 0, None, b"x")])
    assert _markers(marker + record, 8, 10) == 0
