"""Which ends of logs `run` reads, round after round, and what an answer that is missing changes."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

import pyarrow as pa
import pytest

from coordinator_state.errors import DecodeError
from streaming.kafka.connections import TransientFailure
from streaming.kafka.log_offsets import LogOffsetsClient
from streaming.kafka.partition_offsets import LogOffsets, TopicPartition
from streaming.run import log_ends
from streaming.run.log_ends import POSITIONS, LogEnds

NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)
WAITING = NOW - timedelta(hours=1)
_MOST_OFFSETS = 500
"""An end with more offsets takes too many fetches."""


class Brokers:
    """Logs whose records end at `records_end`; the offsets behind them have none."""

    def __init__(self, records_end: Mapping[str, int], *, away: Collection[str] = ()) -> None:
        self.records_end = records_end
        self.away = set(away)
        self.denied: set[str] = set()
        self.asked: list[dict[str, int]] = []

    def end_markers(
        self, places: Mapping[TopicPartition, tuple[int, int]]
    ) -> dict[TopicPartition, int | DecodeError | None]:
        self.asked.append({at.topic: first for at, (first, _) in places.items()})
        return {
            at: None
            if at.topic in self.denied or end - first > _MOST_OFFSETS
            else end - max(first, self.records_end[at.topic])
            for at, (first, end) in places.items()
            if at.topic not in self.away
        }


def markers_then(
    ends: LogEnds, samples: Mapping[str, tuple[int, int]], groups: Sequence[tuple[str, int]]
) -> dict[str, int | None]:
    """The markers of a round; samples have a log start and an end, groups a committed offset."""
    offsets = [
        LogOffsets(
            topic=topic,
            partition=0,
            state="present",
            topic_id="t",
            log_start_offset=start,
            log_end_offset=end,
            last_stable_offset=end,
        )
        for topic, (start, end) in samples.items()
    ]
    rows = [(topic, 0, offset, WAITING) for topic, offset in groups]
    positions = pa.table([list(column) for column in zip(*rows, strict=True)], schema=POSITIONS)
    answers = ends.with_markers(NOW, offsets, lambda _: positions)
    return {sample.topic: sample.end_markers for sample in answers}


@pytest.mark.parametrize("grows_by", [0, 20])
def test_a_leader_that_did_not_answer_is_asked_again(grows_by: int) -> None:
    """An election lasts for two samples, while a producer aborts or after it."""
    brokers = Brokers({"a": 100}, away={"a"})
    ends = LogEnds(brokers)
    markers = []
    for number in range(5):
        if number == 3:
            brokers.away.clear()
        markers.append(markers_then(ends, {"a": (0, 200 + number * grows_by)}, [("a", 100)])["a"])
    assert markers == [None, None, None, 100 + 3 * grows_by, 100 + 4 * grows_by]


def test_a_log_that_may_not_be_read_is_not_asked_for_each_time() -> None:
    brokers = Brokers({"a": 100})
    brokers.denied.add("a")
    ends = LogEnds(brokers)
    for number in range(9):
        markers_then(ends, {"a": (0, 200 + number)}, [("a", 100)])
    assert sum("a" in asked for asked in brokers.asked) == 1


def test_a_dead_group_stops_no_reading_for_another_one() -> None:
    """The records of the dead one are deleted, or it is too far from the end."""
    ends = LogEnds(Brokers({"a": 120, "b": 8_000}))
    groups = [("a", 90), ("a", 120), ("b", 0), ("b", 8_000)]
    for _ in range(4):
        markers = markers_then(ends, {"a": (100, 200), "b": (0, 8_100)}, groups)
    assert markers == {"a": 80, "b": 100}


def test_logs_that_move_are_read_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also beside some that may not be read, and whatever their offsets are."""
    monkeypatch.setattr(log_ends, "_MOST_MOVING", 2)
    begins = {"denied": 0, "other": 0, "small": 1_000, "middle": 50_000, "large": 9_000_000}
    brokers = Brokers(begins)
    brokers.denied.update(("denied", "other"))
    ends = LogEnds(brokers)
    read = dict.fromkeys(begins, 0)
    for number in range(1, 13):
        samples = {topic: (0, begin + 20 * number) for topic, begin in begins.items()}
        for topic, markers in markers_then(ends, samples, list(begins.items())).items():
            read[topic] += markers is not None
    assert read["denied"] == read["other"] == 0
    # There is room for two, and the one that has waited longest comes first.
    assert min(read[topic] for topic in ("small", "middle", "large")) >= 5


def test_the_logs_of_other_leaders_are_read_although_one_does_not_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    silent, sound = TopicPartition("a", 0), TopicPartition("b", 0)
    client = LogOffsetsClient.__new__(LogOffsetsClient)

    async def metadata(topics: object) -> object:
        return topics

    async def read_on(leader: int, tails: dict[Any, Any], _: object, results: Any) -> None:
        if leader == 1:
            raise TransientFailure("no answer")
        results[tails.popitem()[0]] = 7

    monkeypatch.setattr(client, "_metadata", metadata)
    monkeypatch.setattr(client, "_read_on", read_on)
    monkeypatch.setattr(
        "streaming.kafka.log_offsets._by_leader", lambda *_: {1: [silent], 2: [sound]}
    )
    places = {silent: (0, 9), sound: (0, 9)}
    assert asyncio.run(client._end_markers(places)) == {sound: 7}
    monkeypatch.setattr("streaming.kafka.log_offsets._ENDS_WITHIN_S", -1)
    assert asyncio.run(client._end_markers(places)) == {}
