"""Samples are written once, whatever a write reports, and are bounded."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from deltalake import write_deltalake

from streaming.errors import WriterFenced
from streaming.kafka.partition_offsets import LogOffsets
from streaming.lag import unwritten_samples
from streaming.run.sampling import LogOffsetsSampling
from streaming.tables import writer as writer_module
from streaming.tables.maintenance import maintain_tables
from streaming.tables.opening import open_for_writing
from streaming.tables.reader import TableReader
from tests.support.brokers.object_store import served_object_store
from tests.support.tables.every_table import create
from tests.support.tables.sampled import metric, sampling_of


@pytest.fixture(scope="module")
def object_store() -> Iterator[dict[str, str]]:
    with served_object_store() as environment:
        yield environment


HERE, STORE = "on this machine", "in an object store"


@pytest.fixture(params=[HERE])
def tables(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    folder = str(tmp_path / "tables")
    if request.param == STORE:
        for name, value in request.getfixturevalue("object_store").items():
            monkeypatch.setenv(name, value)
        folder = f"s3a://bucket/{tmp_path.name}"
    create(folder)
    return folder


BEFORE, AFTER = "before the commit", "after the commit"


def fail(monkeypatch: pytest.MonkeyPatch, when: str) -> None:
    """Have each append report a failure, done or not."""

    def failing(*arguments: Any, **options: Any) -> None:
        if when == AFTER:
            write_deltalake(*arguments, **options)
        raise OSError("no answer")

    monkeypatch.setattr(writer_module, "write_deltalake", failing)


def heal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_module, "write_deltalake", write_deltalake)


def growing_log(sampling: LogOffsetsSampling, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each sample finds the log one record longer than the one before, from 1 on."""
    ends = count(1)

    def sample(_partitions: Any) -> list[LogOffsets]:
        return [LogOffsets(topic="t", partition=0, state="present", log_end_offset=next(ends))]

    monkeypatch.setattr(sampling._client, "sample", sample)


def ends_in(tables: str) -> list[int]:
    found = TableReader(tables).read("log_offsets", ["log_end_offset"])
    ends: list[int] = found["log_end_offset"].to_pylist()
    return sorted(ends)


@pytest.mark.parametrize(
    ("tables", "failures"),
    [
        *((HERE, failures) for failures in ((BEFORE, AFTER), (AFTER, BEFORE), (AFTER, AFTER))),
        pytest.param(STORE, (AFTER, AFTER), marks=pytest.mark.long),
    ],
    indirect=["tables"],
)
def test_samples_are_written_once_whatever_a_commit_reports(
    tables: str, failures: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A done commit that reports a failure is followed by more samples, and by maintenance."""
    sampling = sampling_of(tables)
    growing_log(sampling, monkeypatch)
    sampling.sample()
    for when in failures:
        fail(monkeypatch, when)
        sampling.sample()
        heal(monkeypatch)
        list(
            maintain_tables(
                sampling.writer.epoch, timedelta(days=7), now=datetime.now(timezone.utc)
            )
        )
    sampling.sample()
    sampling.sample()
    sampling.close()
    assert ends_in(tables) == [1, 2, 3, 4, 5]
    assert metric(sampling, "sampling_total", outcome="failed") == 2


def test_samples_that_cannot_be_written_are_bounded(
    tables: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(unwritten_samples, "MOST_QUEUED", 3)
    caplog.set_level(logging.WARNING, "streaming.run.sampling")
    sampling = sampling_of(tables)
    growing_log(sampling, monkeypatch)
    for _ in range(2):
        fail(monkeypatch, BEFORE)
        for _ in range(6):
            sampling.sample()
        assert len(sampling._unwritten._queued) == 3
        heal(monkeypatch)
        sampling.sample()
    sampling.close()
    # The first write is retried as it was; of what waited behind it the newest three are kept.
    assert ends_in(tables) == [1, 5, 6, 7, 8, 12, 13, 14]
    assert metric(sampling, "samples_dropped_total") == 6
    said = [record.getMessage() for record in caplog.records]
    assert [re.sub(r": .*log_offsets.*", "", line) for line in said] == 2 * [
        "cannot sample log offsets",
        "too many unwritten samples of log offsets: dropping the oldest",
        "sampling log offsets works again; 3 samples were dropped",
    ]


def test_a_round_of_samples_of_a_large_cluster_is_whole(
    tables: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unwritten_samples, "MOST_QUEUED", 3)
    sampling = sampling_of(tables)

    def sample(_partitions: Any) -> list[LogOffsets]:
        return [
            LogOffsets(topic="t", partition=partition, state="present", log_end_offset=partition)
            for partition in range(5)
        ]

    monkeypatch.setattr(sampling._client, "sample", sample)
    sampling.sample()
    sampling.close()
    assert ends_in(tables) == [0, 1, 2, 3, 4]
    assert metric(sampling, "samples_dropped_total") == 0


def test_a_newer_writer_ends_the_sampling(tables: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With samples left over too, whose write the newer one must not take for its own."""
    sampling = sampling_of(tables)
    growing_log(sampling, monkeypatch)
    fail(monkeypatch, BEFORE)
    sampling.sample()
    heal(monkeypatch)
    open_for_writing(tables, "test")
    for _ in range(2):
        with pytest.raises(WriterFenced):
            sampling.sample()
    sampling.close()
    assert ends_in(tables) == []
