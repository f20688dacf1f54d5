"""The checks beside a running query, for its own log and for other internal topics."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from functools import partial
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from coordinator_state.replay.offsets import Semantics
from coordinator_state.replay.releases import Release
from streaming.errors import LogChanged, TopicMissing
from streaming.kafka.leaders import ELECTION_S, LogDescription
from streaming.kafka.loader_rules import LoaderRules
from streaming.run import beat, log_watch
from streaming.run.beat import beating
from streaming.run.log_watch import LogWatch, OtherTopicsWatch
from streaming.run.other_topics import OpenedTopic, OtherTopics
from streaming.run.start import Start
from streaming.run.suspension import Suspension
from streaming.tables.load_progress import LoadProgress
from streaming.tables.opening import open_for_writing
from streaming.tables.schemas import STATE_CURRENT, STATE_LOADING
from streaming.tables.topic_progress import Progress, TopicProgress
from streaming.tables.writer import Writer
from tests.support.eventually import Eventually
from tests.support.tables.every_table import create

OFFSETS, AWAITED, FOLLOWED = "offsets", "awaited", "followed"
NOTHING = LoadProgress(cluster_id="c", topic_id="id", semantics=Semantics.COORDINATOR)
DELETE_RETENTION_S = 3600
RULES = LoaderRules(semantics=Semantics.COORDINATOR)
AT_FIRST = (1, 1, -1)
"""The node of the leader of each log partition; the query reads the two that have one."""
LEADER_CHANGES = {
    "nothing": [(AT_FIRST, 100, "")] * 100,
    "a leader is back": [((1, 1, 2), 10, "log partitions of followed have a leader again: 2")],
    "more partitions": [((1, 1, -1, 1), 10, "followed now has 4 partitions, previously 3")],
    "an election": [
        ((1, -1, -1), ELECTION_S - 1, ""),
        ((1, 2, -1), 10, ""),
        ((1, -1, -1), ELECTION_S - 1, ""),
        ((1, -1, -1), 1, "log partitions of followed without a leader: 1"),
    ],
}
"""Leaders, seconds, and the reason to restart by then."""

leader_changes = pytest.mark.parametrize("steps", LEADER_CHANGES.values(), ids=LEADER_CHANGES)


def log_of(topic: str, nodes: Sequence[int] = AT_FIRST) -> LogDescription:
    leaders = {log_partition: (node, 0) for log_partition, node in enumerate(nodes)}
    return LogDescription(topic=topic, cluster_id="c", topic_id="id", leaders=leaders)


# --- the log of the query -------------------------------------------------------------------------


@dataclass
class Watched:
    """A query that reads log partitions 0 and 1, a clock, and a client of the log."""

    topic: LogDescription
    start: Start
    watch: LogWatch = field(init=False)
    now_s: float = 0.0
    rules: LoaderRules = RULES
    ends: dict[int, int] = field(default_factory=lambda: dict.fromkeys(range(3), 0))

    def refresh(self) -> LogDescription:
        return self.topic

    def high_watermarks(self, log_partitions: Collection[int]) -> dict[int, int]:
        assert set(log_partitions) <= self.topic.with_leader
        return {p: self.ends[p] for p in log_partitions}

    def close(self) -> None:
        pass

    def after(self, seconds: float) -> bool:
        """Whether the query must restart by then."""
        self.now_s += seconds
        self.watch.check()
        return self.watch.restart.is_set()

    def lead(self, *nodes: int) -> None:
        self.topic = log_of(OFFSETS, nodes)


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> Writer:
    """The writer of a folder without rows."""
    tables = str(tmp_path_factory.mktemp("watched") / "tables")
    create(tables)
    return open_for_writing(tables, "test")


@pytest.fixture
def watched(writer: Writer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watched]:
    now, log = datetime.now(timezone.utc), log_of(OFFSETS)
    states = enumerate((STATE_CURRENT, STATE_LOADING))
    rows = {number: Progress(state=state, current_at=now) for number, state in states}
    start = Start(
        writer=writer,
        progress=replace(NOTHING, rows=rows),
        log=log,
        log_partitions=frozenset({0, 1}),
        leaderless=frozenset({2}),
    )
    watched = Watched(log, start)
    monkeypatch.setattr(log_watch, "LogClient", lambda *_, **__: watched)
    watched.watch = LogWatch(
        writer.epoch,
        "unused:9092",
        {},
        timedelta(seconds=DELETE_RETENTION_S),
        lambda: watched.rules,
        clock=lambda: watched.now_s,
    )
    watched.watch.begin(start)
    yield watched
    watched.watch.close()


@leader_changes
def test_leaders_that_change(watched: Watched, steps: list[tuple[Any, float, str]]) -> None:
    for nodes, seconds, reason in steps:
        watched.lead(*nodes)
        assert watched.after(seconds) == bool(reason)


def test_without_any_leader_the_query_waits(watched: Watched) -> None:
    watched.lead(-1, -1, -1)
    assert not any(watched.after(10) for _ in range(100))


@pytest.mark.parametrize(
    ("nodes", "is_over"), [((1, 2, -1), [True]), (AT_FIRST, [False, False, True])]
)
def test_an_upgrade_to_other_rules_moves_leaders_or_is_noticed_in_time(
    watched: Watched, nodes: tuple[int, ...], is_over: list[bool]
) -> None:
    """A broker that leads nothing moves none."""
    assert not watched.after(10)
    watched.rules = replace(watched.rules, release=Release.KAFKA_4_2)
    assert not watched.after(10)
    watched.lead(*nodes)
    assert [watched.after(100) for _ in is_over] == is_over


def test_each_time_at_the_end_counts(watched: Watched) -> None:
    watched.ends[0] = 5
    assert not watched.after(DELETE_RETENTION_S - 10)
    watched.start.progress.rows[0].next_offset = 5
    assert not watched.after(1)
    watched.ends[0] = 6
    assert not watched.after(DELETE_RETENTION_S - 10)
    at = watched.watch.last_at_end()[0]
    age_s = (datetime.now(timezone.utc) - at).total_seconds()
    assert DELETE_RETENTION_S - 20 < age_s < DELETE_RETENTION_S
    assert watched.after(20)


def test_a_busy_log_partition_is_read_to_its_end_by_micro_batches(watched: Watched) -> None:
    """Whenever the end is looked at, it has moved on."""
    row = watched.start.progress.rows[0]
    for number in range(10):
        row.current_at = datetime.now(timezone.utc) + timedelta(seconds=number)
        watched.ends[0] = row.next_offset + 1
        assert not watched.after(DELETE_RETENTION_S / 2)


def test_a_suspend_that_is_too_long_restarts_the_query(watched: Watched) -> None:
    suspended_s = 100.0
    watched.watch.suspension = Suspension(DELETE_RETENTION_S, lambda: suspended_s)
    suspended_s += DELETE_RETENTION_S + 1
    assert watched.after(1)
    watched.watch.begin(watched.start)
    assert not watched.after(1)


def test_a_load_takes_as_long_as_it_takes(watched: Watched) -> None:
    """Loading it again would take as long."""
    watched.ends[1] = 1_000_000
    assert not watched.after(10 * DELETE_RETENTION_S)


# --- other internal topics ------------------------------------------------------------------------


@dataclass
class Cluster:
    """A query that reads log partitions 0 and 1 of a topic, and awaits another; and a clock."""

    answers: dict[str, LogDescription | Exception] = field(
        default_factory=lambda: {
            FOLLOWED: log_of(FOLLOWED),
            AWAITED: TopicMissing("there is no topic", "c"),
        }
    )
    opened: Counter[str] = field(default_factory=Counter)
    closed: Counter[str] = field(default_factory=Counter)
    now_s: float = 0.0
    watch: OtherTopicsWatch = field(init=False)
    awaited: Mapping[int, tuple[int, int]] | None = None

    def __post_init__(self) -> None:
        self.watch = OtherTopicsWatch(self.new_client, lambda: self.now_s)
        assert list(self.watch.reasons()) == [], "no query has started"
        assert self.opened == {}
        self.begin()

    def new_client(self, topic: str) -> Any:
        """A client of a topic, which has an answer."""
        self.opened[topic] += 1
        close = partial(self.closed.update, [topic])
        return SimpleNamespace(refresh=partial(self.refresh, topic), close=close)

    def refresh(self, topic: str) -> LogDescription:
        answer = self.answers[topic]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def begin(self) -> None:
        followed = OpenedTopic(
            log=log_of(FOLLOWED),
            progress=TopicProgress(topic=FOLLOWED, topic_id="id"),
            log_partitions=frozenset({0, 1}),
            leaderless=frozenset({2}),
        )
        self.watch.begin(OtherTopics(followed=(followed,), awaited={AWAITED: self.awaited}))

    def lead(self, topic: str, *nodes: int) -> None:
        self.answers[topic] = log_of(topic, nodes)

    def after(self, seconds: float) -> list[str]:
        """The reasons by then."""
        self.now_s += seconds
        return list(self.watch.reasons())


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@leader_changes
def test_leaders_of_another_topic_that_change(
    cluster: Cluster, steps: list[tuple[Any, float, str]]
) -> None:
    for nodes, seconds, reason in steps:
        cluster.lead(FOLLOWED, *nodes)
        assert cluster.after(seconds) == ([reason] if reason else [])
    assert cluster.opened == {AWAITED: 1, FOLLOWED: 1}
    cluster.watch.close()
    assert cluster.closed == {AWAITED: 1, FOLLOWED: 1}


def test_without_any_leader_the_query_goes_on_without_another_topic(cluster: Cluster) -> None:
    cluster.lead(FOLLOWED, -1, -1, -1)
    assert cluster.after(ELECTION_S) == ["log partitions of followed without a leader: 0, 1"]
    cluster.begin()
    assert cluster.after(ELECTION_S - 1) == []


def test_an_awaited_topic_appears(cluster: Cluster) -> None:
    cluster.lead(AWAITED, -1)
    assert cluster.after(10) == [], "it cannot be read without a leader"
    cluster.lead(AWAITED, 1)
    assert cluster.after(10) == ["topic awaited can be read now"]


def test_a_topic_that_could_not_be_read_is_tried_again_after_minutes(cluster: Cluster) -> None:
    cluster.lead(AWAITED, 1)
    cluster.awaited = log_of(AWAITED, (1,)).leaders
    cluster.begin()
    assert not any(cluster.after(10) for _ in range(29))
    assert cluster.after(10) == ["topic awaited can be read now"]
    cluster.begin()
    cluster.lead(AWAITED, 2)
    assert cluster.after(10) == ["topic awaited can be read now"], "its leader has changed"


@pytest.mark.parametrize("topic", [AWAITED, FOLLOWED])
def test_a_topic_that_cannot_be_checked_is_no_reason(cluster: Cluster, topic: str) -> None:
    for error in (TimeoutError("no answer"), TopicMissing("there is no topic", "c")):
        cluster.answers[topic] = error
        assert cluster.after(10 * ELECTION_S) == []


@pytest.mark.parametrize(("topic", "reasons"), [(AWAITED, []), (FOLLOWED, ["created again"])])
def test_a_topic_that_is_recreated_has_a_new_client(
    cluster: Cluster, topic: str, reasons: list[str]
) -> None:
    """A client refuses another topic id."""
    assert cluster.after(10) == []
    answer, cluster.answers[topic] = cluster.answers[topic], LogChanged("created again")
    assert cluster.after(10) == reasons
    assert cluster.closed == {topic: 1}
    cluster.answers[topic] = answer
    assert cluster.after(10) == []
    assert cluster.opened[topic] == 2


# --- the interval of the checks -------------------------------------------------------------------


def test_it_beats_until_the_block_ends(eventually: Eventually) -> None:
    beats: list[int] = []
    with beating("a-beat", timedelta(milliseconds=10), lambda: beats.append(1)):
        eventually(lambda: len(beats) >= 3)
    count = len(beats)
    assert not [thread for thread in threading.enumerate() if thread.name == "a-beat"]
    assert len(beats) == count


def test_an_action_that_takes_long_has_a_longer_interval(
    eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    began_s: list[float] = []
    shares: list[float] = []

    def longer_s(_duration_s: float, most_share: float) -> float:
        shares.append(most_share)
        return 0.25

    monkeypatch.setattr(beat, "shortest_interval_s", longer_s)
    interval = timedelta(milliseconds=10)
    with beating("a-beat", interval, lambda: began_s.append(time.monotonic()), most_share=0.2):
        eventually(lambda: len(began_s) >= 3)
    assert min(later - earlier for earlier, later in pairwise(began_s)) >= 0.25
    assert set(shares) == {0.2}
