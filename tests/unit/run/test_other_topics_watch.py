"""The reasons to restart a query because of another internal topic than `__consumer_offsets`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from streaming.errors import LogChanged, TopicMissing
from streaming.kafka.leaders import ELECTION_S, LogDescription
from streaming.run.other_topics import OtherTopic, OtherTopics
from streaming.run.other_topics_watch import OtherTopicsWatch
from streaming.tables.topic_progress import TopicProgress

AWAITED, FOLLOWED = "awaited", "followed"


def log_of(topic: str, **leaders: int) -> LogDescription:
    """A topic with the node of the leader of each log partition, such as `p0=1`; -1 for none."""
    nodes = {int(name[1:]): (node, 0) for name, node in leaders.items()}
    return LogDescription(topic=topic, cluster_id="c", topic_id="id", leaders=nodes)


@dataclass
class Client:
    """The client of a topic; the cluster has its answer."""

    cluster: Cluster
    topic: str

    def refresh(self) -> LogDescription:
        answer = self.cluster.answers[self.topic]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        self.cluster.closed[self.topic] += 1


@dataclass
class Cluster:
    """A query that reads log partitions 0 and 1 of a topic, and awaits another; and a clock."""

    answers: dict[str, LogDescription | Exception] = field(
        default_factory=lambda: {
            FOLLOWED: log_of(FOLLOWED, p0=1, p1=1, p2=-1),
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
        self.begin()

    def new_client(self, topic: str) -> Any:
        self.opened[topic] += 1
        return Client(self, topic)

    def begin(self) -> None:
        followed = OtherTopic(
            log=log_of(FOLLOWED, p0=1, p1=1, p2=-1),
            progress=TopicProgress(topic=FOLLOWED, topic_id="id"),
            log_partitions=frozenset({0, 1}),
            leaderless=frozenset({2}),
        )
        self.watch.begin(OtherTopics(followed=(followed,), awaited={AWAITED: self.awaited}))

    def lead(self, **leaders: int) -> None:
        self.answers[FOLLOWED] = log_of(FOLLOWED, **leaders)

    def after(self, seconds: float) -> list[str]:
        """The reasons by then."""
        self.now_s += seconds
        return list(self.watch.reasons())


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def test_nothing_new(cluster: Cluster) -> None:
    assert not any(cluster.after(10) for _ in range(100))
    assert cluster.opened == {AWAITED: 1, FOLLOWED: 1}


def test_before_a_query_starts_there_is_nothing_to_check(cluster: Cluster) -> None:
    watch = OtherTopicsWatch(cluster.new_client, lambda: 0.0)
    assert list(watch.reasons()) == []
    assert cluster.opened == {}


def test_an_awaited_topic_appears(cluster: Cluster) -> None:
    cluster.answers[AWAITED] = log_of(AWAITED, p0=-1)
    assert cluster.after(10) == [], "it cannot be read without a leader"
    cluster.answers[AWAITED] = log_of(AWAITED, p0=1)
    assert cluster.after(10) == ["topic awaited can be read now"]


def test_a_topic_that_could_not_be_read_is_tried_again_after_minutes(cluster: Cluster) -> None:
    log = cluster.answers[AWAITED] = log_of(AWAITED, p0=1)
    cluster.awaited = log.leaders
    cluster.begin()
    assert not any(cluster.after(10) for _ in range(29))
    assert cluster.after(10) == ["topic awaited can be read now"]
    cluster.begin()
    cluster.answers[AWAITED] = log_of(AWAITED, p0=2)
    assert cluster.after(10) == ["topic awaited can be read now"], "its leader has changed"


def test_an_awaited_topic_that_is_recreated_is_no_reason(cluster: Cluster) -> None:
    cluster.answers[AWAITED] = LogChanged("created again")
    assert cluster.after(10) == []
    assert cluster.opened[AWAITED] == 1


@pytest.mark.parametrize("topic", [AWAITED, FOLLOWED])
def test_a_topic_that_cannot_be_checked_is_no_reason(cluster: Cluster, topic: str) -> None:
    for error in (TimeoutError("no answer"), TopicMissing("there is no topic", "c")):
        cluster.answers[topic] = error
        assert cluster.after(10 * ELECTION_S) == []


def test_more_partitions(cluster: Cluster) -> None:
    cluster.lead(p0=1, p1=1, p2=-1, p3=1)
    assert cluster.after(10) == ["followed: now 4 partitions, previously 3"]


def test_a_leader_is_back(cluster: Cluster) -> None:
    cluster.lead(p0=1, p1=1, p2=2)
    assert cluster.after(10) == ["followed: log partitions have a leader again: 2"]


def test_an_election_is_waited_for(cluster: Cluster) -> None:
    cluster.lead(p0=1, p1=-1, p2=-1)
    assert cluster.after(ELECTION_S - 1) == []
    cluster.lead(p0=1, p1=2, p2=-1)
    assert cluster.after(10) == []
    cluster.lead(p0=1, p1=-1, p2=-1)
    assert cluster.after(ELECTION_S - 1) == []
    assert cluster.after(1) == ["followed: log partitions without a leader: 1"]


def test_all_log_partitions_without_a_leader(cluster: Cluster) -> None:
    """Unlike for `__consumer_offsets`: the query goes on without the topic."""
    cluster.lead(p0=-1, p1=-1, p2=-1)
    assert cluster.after(ELECTION_S) == ["followed: log partitions without a leader: 0, 1"]
    cluster.begin()
    assert cluster.after(ELECTION_S - 1) == []


def test_a_topic_that_was_created_again(cluster: Cluster) -> None:
    assert cluster.after(10) == []
    cluster.answers[FOLLOWED] = LogChanged("topic followed was deleted and created again")
    assert cluster.after(10) == ["topic followed was deleted and created again"]
    assert cluster.closed == {FOLLOWED: 1}
    cluster.lead(p0=1, p1=1, p2=-1)
    assert cluster.after(10) == []
    assert cluster.opened[FOLLOWED] == 2, "a client refuses another topic id"


def test_closing_closes_every_client(cluster: Cluster) -> None:
    cluster.after(10)
    cluster.watch.close()
    assert cluster.closed == {AWAITED: 1, FOLLOWED: 1}
