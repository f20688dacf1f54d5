"""What goes wrong while logs are sampled."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from streaming.kafka.log_offsets import LogOffsets, TopicPartition
from streaming.lag.sampling import LogOffsetsSampling
from streaming.tables import delta
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
    sampling = LogOffsetsSampling(tables, "localhost:1", {})
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

    monkeypatch.setattr(delta, "append", append)
    caplog.set_level(logging.WARNING, "streaming.lag.sampling")
    session: Any = None
    for _ in range(5):
        sampling.sample(session)
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
