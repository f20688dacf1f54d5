"""Samples of logs: which ones, their ends, failures, and that each is written once."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, NoReturn
from unittest.mock import Mock

import pytest
from deltalake import write_deltalake

from coordinator_state.errors import CorruptRecordBatch
from streaming.errors import WriterFenced
from streaming.kafka.partition_offsets import UNAVAILABLE, LogOffsets, TopicPartition
from streaming.lag import unwritten_samples
from streaming.tables import writer as writer_module
from streaming.tables.maintenance import maintain_tables
from streaming.tables.opening import open_for_writing
from streaming.tables.reader import TableReader
from tests.support.tables.every_table import create
from tests.support.tables.sampled import metric, sampling_of
from tests.support.tables.tables_folder import Row, apply_micro_batch, create_tables, write_rows

AT = TopicPartition("t", 0)
PLACE: Row = {"topic": "t", "partition": 0}
PROGRESS = [{"log_partition": 0}]
OWN = "__consumer_offsets:0"

Answer = Callable[[frozenset[TopicPartition]], list[LogOffsets]]


def present(end: int, at: TopicPartition = AT) -> LogOffsets:
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


def ending_at(*ends: int) -> Answer:
    """Each sample finds the log with the next of these ends."""
    left = iter(ends)
    return lambda _: [present(next(left))]


def always(*logs: LogOffsets) -> Answer:
    return lambda _: [*logs]


def unanswered(*_: object) -> NoReturn:
    raise TimeoutError("nobody answers")


def member(*partitions: int) -> Row:
    places = [PLACE | {"partition": partition} for partition in partitions]
    return {"group_id": "g", "member_id": "m", "assignment": places}


def offset(committed: int, topic: str = "t") -> Row:
    now = datetime.now(timezone.utc)
    at = {"topic": topic, "committed_offset": committed, "commit_timestamp": now}
    return PLACE | at | {"group_id": f"at {committed}"}


def earlier(seconds_ago: float, end: int = 9, **fields: Any) -> Row:
    """A sample of an earlier run."""
    sampled_at = datetime.now(timezone.utc) - timedelta(seconds=seconds_ago)
    return PLACE | {"log_end_offset": end, "sampled_at": sampled_at, **fields}


class Sampled:
    """The sampling of a folder, whose client has an answer; and the logs that it asked for."""

    def __init__(self, tables: str, monkeypatch: pytest.MonkeyPatch, answer: Answer) -> None:
        self.tables = tables
        self.sampling = sampling_of(tables)
        self.asked: list[set[str]] = []
        self._monkeypatch = monkeypatch
        self._answer = answer
        self.ends_ago: list[tuple[float, int]] = []
        """The seconds ago since which the log has an end; no end is known of earlier times."""
        self.asked_ago: list[list[float]] = []
        self.let_client(sample=self._sample, past_ends=self.past_ends)

    def let_client(self, **methods: Callable[..., Any]) -> None:
        """Replace methods of the client."""
        for name, method in methods.items():
            self._monkeypatch.setattr(self.sampling._client, name, method)

    def _sample(
        self, partitions: frozenset[TopicPartition], *, whole_topics: bool
    ) -> list[LogOffsets]:
        assert whole_topics
        self.asked.append({f"{at.topic}:{at.partition}" for at in partitions})
        return self._answer(partitions)

    def past_ends(
        self, partitions: list[TopicPartition], timestamps_ms: list[int]
    ) -> list[dict[TopicPartition, int | None]]:
        now_ms = datetime.now(timezone.utc).timestamp() * 1_000
        ages = [(now_ms - timestamp_ms) / 1_000 for timestamp_ms in timestamps_ms]
        self.asked_ago.append(ages)
        return [
            dict.fromkeys(partitions)
            if age < 0
            else {at: end for at in partitions for since, end in self.ends_ago if age <= since}
            for age in ages
        ]

    def sample(self, times: int = 1) -> None:
        for _ in range(times):
            self.sampling.sample()

    def metric(self, name: str, **labels: str) -> float | None:
        return metric(self.sampling, name, **labels)

    def rows(self) -> list[Row]:
        rows = TableReader(self.tables).read("log_offsets").sort_by("sampled_at")
        return list(rows.to_pylist())

    def ends(self) -> list[int]:
        return sorted(row["log_end_offset"] for row in self.rows())

    def end_markers(self) -> list[tuple[int, int | None]]:
        return [(row["log_end_offset"], row["end_markers"]) for row in self.rows()]


SampledWith = Callable[..., Sampled]


@pytest.fixture
def sampled_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SampledWith:
    """Sample into new tables with these rows, and these samples of an earlier run."""

    def create_sampled(
        answer: Answer = lambda _: [], *samples: Row, log_partitions: int = 1, **rows: list[Row]
    ) -> Sampled:
        tables = create_tables(tmp_path / "sampled", log_partitions=str(log_partitions))
        if samples:
            write_rows(tables, "log_offsets", [*samples])
        if rows:
            apply_micro_batch(tables, progress=PROGRESS, **rows)
        return Sampled(tables, monkeypatch, answer)

    return create_sampled


# --- which logs ----------------------------------------------------------------------------------


def test_assigned_partitions_are_sampled(sampled_with: SampledWith) -> None:
    """New records in its partitions show that a member never commits."""
    sampled = sampled_with()
    for assigned in ([1, 2], [2], []):
        apply_micro_batch(sampled.tables, progress=PROGRESS, group_members=[member(*assigned)])
        sampled.sample()
    assert sampled.asked == [{OWN, "t:1", "t:2"}, {OWN, "t:2"}, {OWN}]


def test_a_new_folder_samples_the_log_partitions_before_it_has_rows(
    sampled_with: SampledWith,
) -> None:
    """How far the tables are behind after a single load is then known."""
    sampled = sampled_with(log_partitions=3)
    sampled.sample()
    assert sampled.asked == [{f"__consumer_offsets:{number}" for number in range(3)}]


def test_the_partitions_that_nobody_reads_are_sampled_if_wanted(
    sampled_with: SampledWith, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list of them is renewed once a minute; until then the old one holds."""
    sampled = sampled_with(group_offsets=[offset(1)])
    sampled.sampling.of_all_topics = True
    answers: Iterator[set[TopicPartition]]
    answers = iter([{AT, TopicPartition("t", 1)}, set(), {TopicPartition("unread", 0)}])
    sampled.let_client(partitions=lambda: frozenset(next(answers) or unanswered()))
    for seconds in (0, 59, 61, 123):
        monkeypatch.setattr("streaming.run.sampling.time.monotonic", lambda now=seconds: now)
        sampled.sample()
    read = {OWN, "t:0"}
    assert sampled.asked == [*([read | {"t:1"}] * 3), read | {"unread:0"}]


# --- the ends of logs ----------------------------------------------------------------------------


def test_the_end_of_a_log_is_looked_at_once_it_rests_near_a_group(
    sampled_with: SampledWith,
) -> None:
    # Of the two groups that are behind, 4 is further from the end 9 than 8. So `run` reads from 4
    # on, and the answer holds for both. No group is near the end 30,000.
    offsets = [offset(committed) for committed in (4, 8, 9)]
    sampled = sampled_with(ending_at(9, 9, 9, 30_000, 30_000, 9, 9), group_offsets=offsets)
    asked: list[Any] = []

    def end_markers(places: Any) -> dict[TopicPartition, int]:
        if places:
            asked.append(dict(places))
        return dict.fromkeys(places, 1) if len(asked) <= 1 else unanswered()

    sampled.let_client(end_markers=end_markers)
    sampled.sample(7)
    assert asked == [{AT: (4, 9)}] * 2
    assert sampled.end_markers() == [
        *((9, None), (9, 1), (9, 1)),
        *((30_000, None), (30_000, None), (9, None)),
    ]


def test_the_lag_ends_at_the_last_record_of_an_idle_log(sampled_with: SampledWith) -> None:
    """A group that is behind when the log becomes idle reads on to the last record."""
    sampled = sampled_with(ending_at(100, 100, 100, 130, 130, 130), group_offsets=[offset(40)])
    asked: list[Any] = []
    # Ten records and fifty aborted ones; later thirty that are aborted, too.
    markers = {(40, 100): 50, (100, 130): 30}

    def end_markers(places: Any) -> dict[TopicPartition, int]:
        asked.extend(places.values())
        return {at: markers[place] for at, place in places.items()}

    sampled.let_client(end_markers=end_markers)
    sampled.sample(6)
    assert asked == [(40, 100), (100, 130)]
    samples = [*dict.fromkeys(sampled.end_markers())]
    assert samples == [(100, None), (100, 50), (130, None), (130, 80)]


def test_a_known_tail_stays_known_while_the_log_grows_by_markers_or_is_away(
    sampled_with: SampledWith,
) -> None:
    """Otherwise the lag of the group would jump up and down."""
    away = replace(present(0), state=UNAVAILABLE, log_end_offset=None, last_stable_offset=None)
    logs = iter([present(100), present(100), present(102), away, present(102), present(104)])
    sampled = sampled_with(lambda _: [next(logs)], group_offsets=[offset(40)])
    asked: list[Any] = []

    def end_markers(places: Any) -> dict[TopicPartition, int]:
        asked.extend(places.values())
        return {at: 50 if first == 40 else 2 for at, (first, _) in places.items()}

    sampled.let_client(end_markers=end_markers)
    sampled.sample(6)
    assert asked == [(40, 100), (100, 102), (102, 104)]
    samples = [*dict.fromkeys(sampled.end_markers())]
    assert samples == [(100, None), (100, 50), (102, 52), (None, None), (104, 54)]


def test_a_failure_is_tried_again_and_an_unread_end_once_log_and_group_have_moved(
    sampled_with: SampledWith,
) -> None:
    """A group waits behind ten markers each time, so it is never half as far from the end."""
    ends = iter([100, 100, 100, 200, 200, 200])
    sampled = sampled_with(lambda _: [present(next(ends))], group_offsets=[offset(90)])
    asked: list[Any] = []

    def end_markers(places: Any) -> dict[TopicPartition, int]:
        asked.extend(places.values())
        if len(asked) == 1:
            unanswered()
        return {} if len(asked) == 2 else dict.fromkeys(places, 10)

    sampled.let_client(end_markers=end_markers)
    sampled.sample(3)
    row = PLACE | {"group_id": "g", "committed_offset": 190}
    apply_micro_batch(sampled.tables, progress=PROGRESS, group_offsets=[row])
    sampled.sample(3)
    assert asked == [(90, 100), (90, 100), (190, 200)]
    assert sampled.end_markers()[-1] == (200, 10)


def test_an_end_that_takes_too_many_fetches_is_read_again_once_the_group_is_nearer(
    sampled_with: SampledWith,
) -> None:
    # A log that grows is no reason to read it again.
    ends = iter([9_000, 9_000, 9_000, 9_000, 9_001, 9_001, 9_001, 9_001])
    sampled = sampled_with(lambda _: [present(next(ends))])
    asked: list[Any] = []

    def end_markers(places: Any) -> dict[TopicPartition, int | None]:
        asked.extend(places.values())
        return {at: 7 if first > 8_000 else None for at, (first, _) in places.items()}

    sampled.let_client(end_markers=end_markers)
    for committed in (1_000, 1_000, 4_999, 5_000, 5_000, 5_000, 8_500, 8_993):
        row = PLACE | {"group_id": "g", "committed_offset": committed}
        apply_micro_batch(sampled.tables, progress=PROGRESS, group_offsets=[row])
        sampled.sample()
    assert asked == [(1_000, 9_000), (5_000, 9_000), (8_500, 9_001)]
    assert sampled.rows()[-1]["end_markers"] == 7


def test_the_end_of_a_log_is_looked_at_for_a_member_that_never_committed(
    sampled_with: SampledWith,
) -> None:
    """It waits behind aborted records: a `read_committed` consumer gets none of them."""
    sampled = sampled_with(always(present(60)), group_members=[member(0)])
    now = datetime.now(timezone.utc)
    unread = {"uncommitted_since": now, "log_end_offset": 60, "lag": 50}
    row = {"group_type": "classic", "group_state": "Stable", "commit_age_ms": 0, "status": "OK"}
    row |= {"group_id": "g", "reason": "", "evaluated_at": now, "commit_timestamp": now}
    write_rows(sampled.tables, "group_lag", [PLACE | row | unread])
    asked: list[Any] = []

    def end_markers(places: Any) -> dict[TopicPartition, int]:
        asked.append(dict(places))
        return dict.fromkeys(places, 50)

    sampled.let_client(end_markers=end_markers)
    sampled.sample(3)
    assert asked == [{AT: (10, 60)}]
    assert sampled.end_markers() == [(60, None), (60, 50)]


def test_a_log_that_moves_is_read_for_a_group_that_waits_there(sampled_with: SampledWith) -> None:
    """A producer aborts all of its transactions, and the next one is always open."""
    stable = [100, 130, 160, 160, 190, 230]
    logs = iter([replace(present(each + 7), last_stable_offset=each) for each in stable])
    row = PLACE | {"group_id": "g", "committed_offset": 90}
    waits = row | {"commit_timestamp": datetime.now(timezone.utc) - timedelta(seconds=30)}
    sampled = sampled_with(lambda _: [next(logs)], group_offsets=[waits])
    asked: list[Any] = []

    def end_markers(places: Any) -> dict[TopicPartition, int]:
        asked.extend(places.values())
        # At 185, a transaction is committed.
        return {
            at: end - max(first, 185 if end > 185 else 0) for at, (first, end) in places.items()
        }

    sampled.let_client(end_markers=end_markers)
    sampled.sample(6)
    # Once a record is left for the group, the log is not read for it again.
    assert asked == [(90, 100), (100, 130), (130, 160), (160, 190)]
    markers = [(row["last_stable_offset"], row["end_markers"]) for row in sampled.rows()]
    assert [*dict.fromkeys(markers)] == [(100, 10), (130, 40), (160, 70), (190, 5), (230, None)]


def test_a_log_that_moves_is_not_read_for_a_group_that_commits(sampled_with: SampledWith) -> None:
    row = PLACE | {"group_id": "g", "committed_offset": 90}
    row |= {"commit_timestamp": datetime.now(timezone.utc)}
    sampled = sampled_with(ending_at(100, 130, 160), group_offsets=[row])
    sampled.let_client(end_markers=lambda places: unanswered() if places else {})
    sampled.sample(3)
    assert sampled.end_markers() == [(100, None), (130, None), (160, None)]


def test_a_later_run_knows_the_ends_that_retention_has_deleted_since(
    sampled_with: SampledWith,
) -> None:
    sample = earlier(86_400, end_markers=2)
    sampled = sampled_with(ending_at(9, 9, 10, 10), sample, group_offsets=[offset(7)])
    sampled.let_client(end_markers=lambda _: {})
    sampled.ends_ago = [(100_000, 9)]
    sampled.sample(4)
    assert [*dict.fromkeys(sampled.end_markers())] == [(9, 2), (10, None)]


def test_a_log_end_that_cannot_be_read_is_the_state_of_its_log(
    sampled_with: SampledWith, caplog: pytest.LogCaptureFixture
) -> None:
    damaged, sound = TopicPartition("damaged", 0), TopicPartition("sound", 0)
    # It is read twice, because the log has grown in between.
    ends = iter([9, 9, 9, 20, 9, 9, 9, 9])
    sampled = sampled_with(
        lambda _: [present(end, at) for end in [next(ends)] for at in (damaged, sound)],
        group_offsets=[offset(8, at.topic) for at in (damaged, sound)],
    )
    answers: dict[TopicPartition, Any] = {
        damaged: CorruptRecordBatch("no such magic", position=16),
        sound: 1,
    }
    sampled.let_client(end_markers=lambda places: {at: answers[at] for at in places})
    caplog.set_level(logging.WARNING, "streaming.run.sampling")
    sampled.sample(6)
    (line,) = (record.getMessage() for record in caplog.records)
    assert re.match("cannot read the end of log damaged-0: .*no such magic; it is unknown", line)
    assert sampled.metric("unreadable_log_ends") == 1
    assert sampled.metric("sampled_partitions", state="present") == 2
    markers = {(r["topic"], r["end_markers"]) for r in sampled.rows() if r["log_end_offset"] == 9}
    assert markers == {("damaged", None), ("sound", None), ("sound", 1)}
    answers[damaged] = 1
    sampled.sampling._ends.continue_from({})
    sampled.sample(2)
    assert sampled.metric("unreadable_log_ends") == 0
    assert sampled.metric("sampling_total", outcome="failed") == 0


# --- moments without samples ---------------------------------------------------------------------


def test_the_log_ends_of_the_time_without_a_run_are_asked_for(
    sampled_with: SampledWith, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "streaming.run.missed_sampling")
    sampled = sampled_with(always(present(30)), earlier(600))
    sampled.ends_ago = [(1_000, 9), (400, 20), (200, 30)]
    sampled.sample(2)
    (ages,) = sampled.asked_ago
    # Later timestamps than those of now would be wrong.
    assert -61 < ages[0] < -58
    assert 590 < ages[-1] < 606
    assert 118 <= len(ages) - 1 <= 121
    now = datetime.now(timezone.utc)
    by_end: dict[int, list[float]] = {9: [], 20: [], 30: []}
    for row in sampled.rows():
        by_end[row["log_end_offset"]].append((now - row["sampled_at"]).total_seconds())
    assert 390 < min(by_end[9]) < 410
    assert 390 < max(by_end[20]) < 401
    assert 190 < min(by_end[20]) < 210
    assert 190 < max(by_end[30]) < 201
    (line,) = (record.getMessage() for record in caplog.records)
    assert re.match("asked for the ends of 1 logs since .*, at 1[12]", line)


def test_all_logs_of_an_earlier_run_are_asked_for_together(sampled_with: SampledWith) -> None:
    """A log that does not change has a sample once a minute, each at its own second."""
    samples = [earlier(600 + 7 * number, partition=number) for number in range(8)]
    logs = [present(9, TopicPartition("t", number)) for number in range(8)]
    sampled = sampled_with(always(*logs), *samples)
    sampled.ends_ago = [(100_000, 9)]
    sampled.sample()
    assert len(sampled.asked_ago) == 1


def test_the_log_ends_before_the_first_sample_are_asked_for_once(
    sampled_with: SampledWith,
) -> None:
    sampled = sampled_with(always(present(30)))
    sampled.ends_ago = [(86_400, 20)]
    sampled.sample(2)
    assert len(sampled.asked_ago) == 1
    assert sampled.ends()[0] == 20


def test_a_gap_stays_one_if_the_brokers_do_not_answer(sampled_with: SampledWith) -> None:
    sampled = sampled_with(always(present(30)), earlier(600))
    past_ends = Mock(side_effect=unanswered)
    sampled.let_client(past_ends=past_ends)
    sampled.sample(12)
    assert past_ends.call_count == 10
    rows = [(row["state"], row["log_end_offset"]) for row in sampled.rows()]
    assert [*dict.fromkeys(rows)] == [("present", 9), ("unavailable", None), ("present", 30)]
    assert sampled.metric("sampling_total", outcome="done") == 12


def test_a_gap_is_asked_for_again_once_the_brokers_answer(sampled_with: SampledWith) -> None:
    sampled = sampled_with(always(present(30)), earlier(600))
    sampled.ends_ago = [(1_000, 9), (400, 20), (200, 30)]
    methods: Iterator[Callable[..., Any]] = iter([unanswered, unanswered, sampled.past_ends])
    sampled.let_client(past_ends=lambda *question: next(methods)(*question))
    sampled.sample(4)
    assert set(sampled.ends()) == {9, 20, 30}
    assert len(sampled.asked_ago) == 1


def test_a_log_with_timestamps_of_the_future_is_not_asked_for(sampled_with: SampledWith) -> None:
    sampled = sampled_with(always(present(30)))
    sampled.let_client(past_ends=lambda logs, asked: [dict.fromkeys(logs, 7)] * len(asked))
    sampled.sample()
    assert sampled.ends() == [30]


def test_a_log_that_an_earlier_run_has_sampled_is_not_asked_for_its_first_days(
    sampled_with: SampledWith,
) -> None:
    """A group has left the topic before the restart, and reads it again."""
    logs = always(present(30), present(30, TopicPartition("new", 0)))
    sampled = sampled_with(logs, earlier(3_600), earlier(5, topic="other"))
    past_ends = Mock(side_effect=sampled.past_ends)
    sampled.let_client(past_ends=past_ends)
    sampled.sample()
    ((asked, _),) = (call.args for call in past_ends.call_args_list)
    assert [*asked] == [TopicPartition("new", 0)]


# --- failures ------------------------------------------------------------------------------------


BEFORE, AFTER = "before the commit", "after the commit"


@pytest.fixture
def growing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sampled:
    """The sampling of a log that grows."""
    folder = str(tmp_path / "tables")
    create(folder)
    return Sampled(folder, monkeypatch, ending_at(*range(1, 20)))


def fail(monkeypatch: pytest.MonkeyPatch, when: str) -> None:
    """Have each append report a failure, done or not."""

    def failing(*arguments: Any, **options: Any) -> None:
        if when == AFTER:
            write_deltalake(*arguments, **options)
        raise OSError("no answer")

    monkeypatch.setattr(writer_module, "write_deltalake", failing)


def heal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_module, "write_deltalake", write_deltalake)


def test_a_failure_is_logged_once_and_then_its_end(
    growing: Sampled, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    failures: list[Exception] = [TimeoutError("nobody answers\nfor long"), OSError("x")]
    answer = growing._answer

    def fail_at_first(partitions: frozenset[TopicPartition]) -> list[LogOffsets]:
        if failures:
            raise failures.pop(0)
        return answer(partitions)

    monkeypatch.setattr(growing, "_answer", fail_at_first)
    caplog.set_level(logging.WARNING, "streaming.run.sampling")
    growing.sample(4)
    assert [record.getMessage() for record in caplog.records] == [
        "cannot sample log offsets: nobody answers; retrying",
        "sampling log offsets works again; 0 samples were dropped",
    ]
    assert growing.ends() == [1, 2]


@pytest.mark.parametrize("failures", [(BEFORE, AFTER), (AFTER, BEFORE), (AFTER, AFTER)])
def test_samples_are_written_once_whatever_a_commit_reports(
    growing: Sampled, failures: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A done commit that reports a failure is followed by more samples, and by maintenance."""
    growing.sample()
    for when in failures:
        fail(monkeypatch, when)
        growing.sample()
        heal(monkeypatch)
        now = datetime.now(timezone.utc)
        list(maintain_tables(growing.sampling.writer.epoch, timedelta(days=7), now=now))
    growing.sample(2)
    assert growing.ends() == [1, 2, 3, 4, 5]
    assert growing.metric("sampling_total", outcome="failed") == 2


def test_samples_that_cannot_be_written_are_bounded(
    growing: Sampled, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(unwritten_samples, "MOST_QUEUED", 3)
    caplog.set_level(logging.WARNING, "streaming.run.sampling")
    for _ in range(2):
        fail(monkeypatch, BEFORE)
        growing.sample(6)
        assert len(growing.sampling._unwritten._queued) == 3
        heal(monkeypatch)
        growing.sample()
    # The first write is retried as it was; of what waited behind it the newest three are kept.
    assert growing.ends() == [1, 5, 6, 7, 8, 12, 13, 14]
    assert growing.metric("samples_dropped_total") == 6
    lines = [record.getMessage() for record in caplog.records]
    assert [re.sub(r": .*log_offsets.*", "", line) for line in lines] == 2 * [
        "cannot sample log offsets",
        "too many unwritten samples of log offsets: dropping the oldest",
        "sampling log offsets works again; 3 samples were dropped",
    ]
    # A round of samples of a large cluster is kept whole.
    answer = [present(end, TopicPartition("large", end)) for end in range(20, 25)]
    monkeypatch.setattr(growing, "_answer", lambda _: answer)
    growing.sample()
    assert growing.ends()[-5:] == [20, 21, 22, 23, 24]
    assert growing.metric("samples_dropped_total") == 6


def test_a_newer_writer_ends_the_sampling(
    growing: Sampled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With samples left over too, whose write the newer one must not take for its own."""
    fail(monkeypatch, BEFORE)
    growing.sample()
    heal(monkeypatch)
    open_for_writing(growing.tables, "test")
    for _ in range(2):
        with pytest.raises(WriterFenced):
            growing.sample()
    assert growing.ends() == []
