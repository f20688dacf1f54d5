"""What ends a query so that it starts again, looked at beat by beat."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone

import pytest

from coordinator_state.replay.offsets import Semantics
from coordinator_state.replay.releases import Release
from streaming.kafka.leaders import LogDescription
from streaming.kafka.loader_rules import LoaderRules
from streaming.run import log_watch
from streaming.run.beat import beating
from streaming.run.log_watch import LogWatch
from streaming.run.start import Start
from streaming.tables.load_progress import LoadProgress
from streaming.tables.opening import open_for_writing
from streaming.tables.schemas import STATE_CURRENT, STATE_LOADING
from streaming.tables.topic_progress import Progress
from streaming.tables.writer import Writer
from tests.support.eventually import Eventually
from tests.support.tables.every_table import create

NOTHING = LoadProgress.nothing(cluster_id="c", topic_id="t", semantics=Semantics.COORDINATOR)
TOPIC = LogDescription(
    topic="t", cluster_id="c", topic_id="t", leaders={0: (1, 0), 1: (1, 0), 2: (2, 0)}
)
DELETE_RETENTION_S = 3600
RULES = LoaderRules(semantics=Semantics.COORDINATOR)


@dataclass
class Log:
    """The log as its leaders tell it, in place of a client."""

    topic: LogDescription = TOPIC
    ends: dict[int, int] = field(default_factory=lambda: dict.fromkeys(TOPIC.leaders, 0))

    def refresh(self) -> LogDescription:
        return self.topic

    def high_watermarks(self, log_partitions: Collection[int]) -> dict[int, int]:
        assert set(log_partitions) <= self.topic.with_leader
        return {p: self.ends[p] for p in log_partitions}

    def close(self) -> None:
        pass


@dataclass
class Watched:
    """A query that reads log partitions 0 and 1, and a clock."""

    watch: LogWatch
    start: Start
    log: Log
    now_s: float = 0.0
    rules: LoaderRules = RULES

    def after(self, seconds: float) -> bool:
        """Whether the query is over by then."""
        self.now_s += seconds
        self.watch.check()
        return self.watch.restart.is_set()

    def lead(self, **leaders: int) -> None:
        self.log.topic = replace(
            TOPIC, leaders={int(name[1:]): (node, 0) for name, node in leaders.items()}
        )


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> Writer:
    """The writer of a folder without rows."""
    tables = str(tmp_path_factory.mktemp("watched") / "tables")
    create(tables)
    return open_for_writing(tables, "test")


@pytest.fixture
def watched(writer: Writer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watched]:
    log = Log()
    monkeypatch.setattr(log_watch, "LogClient", lambda *_, **__: log)
    rows = {
        0: Progress(state=STATE_CURRENT, current_at=datetime.now(timezone.utc)),
        1: Progress(state=STATE_LOADING, current_at=datetime.now(timezone.utc)),
    }
    start = Start(
        writer=writer,
        progress=replace(NOTHING, rows=rows),
        log=TOPIC,
        log_partitions=frozenset({0, 1}),
        leaderless=frozenset({2}),
    )
    running: list[Watched] = []
    watch = LogWatch(
        writer.epoch,
        "unused:9092",
        {},
        timedelta(seconds=DELETE_RETENTION_S),
        lambda: running[0].rules,
        clock=lambda: running[0].now_s if running else 0.0,
    )
    running.append(Watched(watch, start, log))
    running[0].lead(p0=1, p1=1, p2=-1)
    watch.begin(start)
    yield running[0]
    watch.close()


def test_nothing_new(watched: Watched) -> None:
    assert not any(watched.after(100) for _ in range(100))


def test_a_leader_is_back(watched: Watched) -> None:
    watched.lead(p0=1, p1=1, p2=2)
    assert watched.after(10)


def test_an_upgrade_to_other_rules_moves_leaders(watched: Watched) -> None:
    assert not watched.after(10)
    watched.rules = replace(watched.rules, release=Release.KAFKA_4_2)
    assert not watched.after(10)
    watched.lead(p0=1, p1=2, p2=-1)
    assert watched.after(10)


def test_an_upgrade_of_a_broker_that_leads_nothing_is_noticed_in_time(watched: Watched) -> None:
    assert not watched.after(10)
    watched.rules = replace(watched.rules, release=Release.KAFKA_4_2)
    assert not watched.after(200)
    assert watched.after(100)


def test_an_election_is_waited_for(watched: Watched) -> None:
    watched.lead(p0=1, p1=-1, p2=-1)
    assert not watched.after(10)
    watched.lead(p0=1, p1=2, p2=-1)
    assert not watched.after(25)
    watched.lead(p0=1, p1=-1, p2=-1)
    assert not watched.after(25)
    assert watched.after(10)


def test_without_any_leader_the_query_waits(watched: Watched) -> None:
    watched.lead(p0=-1, p1=-1, p2=-1)
    assert not any(watched.after(10) for _ in range(100))


def test_new_log_partitions(watched: Watched) -> None:
    watched.lead(p0=1, p1=1, p2=-1, p3=1)
    assert watched.after(10)


def test_behind_for_longer_than_tombstones_are_kept(watched: Watched) -> None:
    watched.log.ends[0] = 5
    assert not watched.after(DELETE_RETENTION_S - 10)
    assert watched.after(20)


def test_each_time_at_the_end_counts(watched: Watched) -> None:
    watched.log.ends[0] = 5
    assert not watched.after(DELETE_RETENTION_S - 10)
    watched.start.progress.rows[0].next_offset = 5
    assert not watched.after(1)
    watched.log.ends[0] = 6
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
        watched.log.ends[0] = row.next_offset + 1
        assert not watched.after(DELETE_RETENTION_S / 2)


def test_a_load_takes_as_long_as_it_takes(watched: Watched) -> None:
    """Loading it again would take as long."""
    watched.log.ends[1] = 1_000_000
    assert not watched.after(10 * DELETE_RETENTION_S)


def test_it_beats_until_the_block_ends(eventually: Eventually) -> None:
    taken: list[int] = []
    with beating("a-beat", timedelta(milliseconds=10), lambda: taken.append(1)):
        eventually(lambda: len(taken) >= 3)
    found = len(taken)
    assert not [thread for thread in threading.enumerate() if thread.name == "a-beat"]
    assert len(taken) == found
