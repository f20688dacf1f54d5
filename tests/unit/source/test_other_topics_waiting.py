"""The source waits for records of several topics at once, against logs in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

import pytest

from coordinator_state.records.internal_topics import SHARE_STATE_TOPIC, TRANSACTION_STATE_TOPIC
from coordinator_state.replay.partitioner import OFFSETS_TOPIC
from streaming.errors import LogChanged, NotAuthorised
from streaming.source.topic_plan import TopicPlan
from tests.support.logs.memory_log import rows_of
from tests.support.logs.topic_clients import (
    END,
    EVERYTHING,
    LONG_MS,
    Clients,
    at_end,
    positions,
    reader,
)

# A wait that nothing ends takes longer.
pytestmark = pytest.mark.timeout(300)


def soon(action: Callable[[], None]) -> None:
    timer = threading.Timer(0.05, action)
    timer.daemon = True
    timer.start()


def test_without_news_the_start_is_given_back(clients: Clients) -> None:
    one = reader(long_poll_ms="50")
    end = at_end(one)
    assert one.latestOffset(end, EVERYTHING) is end
    assert all(client.waits for client in clients.values())


@pytest.mark.parametrize("topic", END)
def test_a_record_in_any_topic_ends_the_wait(clients: Clients, topic: str) -> None:
    one = reader(long_poll_ms=str(LONG_MS))
    end = at_end(one)
    soon(clients[topic].append)
    found = positions(one.latestOffset(end, EVERYTHING))
    assert found == {**END, topic: {**END[topic], 0: END[topic][0] + 1}}


def test_the_waits_of_the_other_topics_go_on(clients: Clients) -> None:
    """The next micro-batches end them, whichever topic has records."""
    one = reader(long_poll_ms=str(LONG_MS))
    end = at_end(one)
    for topic in (SHARE_STATE_TOPIC, OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, OFFSETS_TOPIC):
        before = positions(end)[topic][0]
        soon(clients[topic].append)
        end = one.latestOffset(end, EVERYTHING)
        assert positions(end)[topic][0] == before + 1
        assert len(rows_of(one, one.partitions(end, end))) == 4, "one for each log partition"
    # Of the share group's wait, the first one ended with a record.
    assert clients[SHARE_STATE_TOPIC].waits == 2


def test_a_wait_that_ends_without_records_is_followed_by_another(
    clients: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a topic would not be looked at until the waits of the others end, too."""
    wait_for_records, ended = TopicPlan._wait_for_records, list[str]()

    def ends_once(plan: TopicPlan, next_offsets: Mapping[int, int]) -> bool:
        if plan.topic.name == OFFSETS_TOPIC and not ended:
            ended.append(OFFSETS_TOPIC)
            return False
        return wait_for_records(plan, next_offsets)

    monkeypatch.setattr(TopicPlan, "_wait_for_records", ends_once)
    one = reader(long_poll_ms=str(LONG_MS))
    end = at_end(one)
    soon(clients[OFFSETS_TOPIC].append)
    assert positions(one.latestOffset(end, EVERYTHING)) == {**END, OFFSETS_TOPIC: {0: 11}}
    assert ended


@pytest.mark.parametrize(
    ("topic", "error"),
    [
        *((topic, LogChanged("created again")) for topic in END),
        # The query restarts without the topic.
        (SHARE_STATE_TOPIC, NotAuthorised("needs the ACL Read")),
    ],
)
def test_a_wait_that_fails_ends_the_query(clients: Clients, topic: str, error: Exception) -> None:
    one = reader(long_poll_ms=str(LONG_MS))
    end = at_end(one)
    soon(lambda: clients[topic].fail(error))
    with pytest.raises(LogChanged, match=str(error)):
        one.latestOffset(end, EVERYTHING)


def test_a_topic_without_leaders_does_not_hold_up_the_offsets(clients: Clients) -> None:
    one = reader(long_poll_ms="100")
    end = at_end(one)
    clients[SHARE_STATE_TOPIC].fail(TimeoutError("no leader answers"))
    assert one.latestOffset(end, EVERYTHING) is end
    clients[OFFSETS_TOPIC].append()
    # A call can also end with the wait of another topic, and then finds nothing.
    while positions(end)[OFFSETS_TOPIC] == {0: 10}:
        end = one.latestOffset(end, EVERYTHING)
    assert positions(end) == {**END, OFFSETS_TOPIC: {0: 11}}
    clients[OFFSETS_TOPIC].fail(TimeoutError("no leader answers"))
    with pytest.raises(TimeoutError, match="no leader answers"):
        while True:
            one.latestOffset(end, EVERYTHING)


def test_stopping_closes_the_clients_that_do_not_wait(clients: Clients) -> None:
    one = reader(long_poll_ms=str(LONG_MS))
    end = at_end(one)
    soon(clients[SHARE_STATE_TOPIC].append)
    one.latestOffset(end, EVERYTHING)
    one.stop()
    assert {topic for topic, client in clients.items() if client.is_closed} == {SHARE_STATE_TOPIC}
