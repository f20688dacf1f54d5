"""The source with other internal topics besides `__consumer_offsets`, against logs in memory."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from coordinator_state.log.record_batch_writer import write_record_batch
from coordinator_state.records.internal_topics import (
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
)
from streaming.errors import ConfigurationError, LogChanged, LogTruncated, NotAuthorised
from streaming.kafka.fetch import FetchedRecords
from streaming.kafka.leaders import LogDescription
from streaming.source import coordinator_log, log_range, topic_plan
from streaming.source.coordinator_log import CoordinatorLogStreamReader
from streaming.source.topic_plan import TopicPlan
from tests.support.eventually import wait_until
from tests.support.logs.memory_log import (
    ENTRIES,
    TOPIC_ID,
    MemoryLog,
    MemoryLogClient,
    assert_accounted,
    reader_of,
    rows_of,
)
from tests.support.logs.topic_logs import transaction_key, transaction_value

# A wait that nothing ends takes longer.
pytestmark = pytest.mark.timeout(300)

Row = dict[str, Any]
Offset = dict[str, Any]

EVERYTHING = ReadAllAvailable()
LONG_MS = 600_000
"""The longest wait of a test that must not wait."""
BOTH = {
    TRANSACTION_STATE_TOPIC: {"log_partitions": [0, 1], "start_offsets": {}},
    SHARE_STATE_TOPIC: {"log_partitions": [0], "start_offsets": {}},
}
END = {OFFSETS_TOPIC: {0: 10}, TRANSACTION_STATE_TOPIC: {0: 4, 1: 2}, SHARE_STATE_TOPIC: {0: 1}}
"""The ends of the logs at first."""


class TopicClient(MemoryLogClient):
    """A client of a topic; a leader holds a fetch until it has records."""

    def __init__(self, topic: str, topic_id: str, log_partitions: int) -> None:
        super().__init__({p: MemoryLog() for p in range(log_partitions)})
        self.topic, self.topic_id = topic, topic_id
        self.arrived = threading.Condition()
        self.failure: Exception | None = None
        self.waits = 0
        self.is_waiting = False

    def describe(self) -> LogDescription:
        return LogDescription(
            topic=self.topic,
            cluster_id=self.cluster_id,
            topic_id=self.topic_id,
            leaders=dict(self.leaders),
        )

    def append(self, log_partition: int = 0, records: int = 1) -> None:
        """Append records, which end a fetch that waits for them."""
        with self.arrived:
            log = self.logs[log_partition]
            for _ in range(records):
                record = (0, 0, transaction_key(), transaction_value())
                log.append(write_record_batch(log.high_watermark, [record]))
            self.arrived.notify_all()

    def fail(self, error: Exception) -> None:
        """End a fetch that waits with an error."""
        with self.arrived:
            self.failure = error
            self.arrived.notify_all()

    def fetch(
        self,
        positions: Mapping[int, int],
        max_bytes: int = 1 << 20,
        max_partition_bytes: int = 1 << 20,
        max_wait_ms: int = 0,
    ) -> dict[int, FetchedRecords]:
        with self.arrived:
            self.waits += max_wait_ms > 0
            self.is_waiting = max_wait_ms > 0
            self.arrived.wait_for(lambda: self._has_news(positions), max_wait_ms / 1000)
            self.is_waiting = False
            if self.failure is not None:
                raise self.failure
            return super().fetch(positions, max_bytes, max_partition_bytes)

    def _has_news(self, positions: Mapping[int, int]) -> bool:
        news = (self.logs[p].high_watermark > at for p, at in positions.items())
        return self.failure is not None or any(news)


Clients = dict[str, TopicClient]


def reader(topics: Mapping[str, Any] = BOTH, **options: str) -> CoordinatorLogStreamReader:
    return reader_of(other_topics=json.dumps(topics), **options)


def positions(offset: Offset) -> dict[str, dict[int, int]]:
    """The next offset of each topic and log partition."""
    offset_by_topic = {OFFSETS_TOPIC: offset, **offset["others"]}
    return {
        topic: {int(p): next_offset for p, (next_offset, *_) in topic_offset["p"].items()}
        for topic, topic_offset in offset_by_topic.items()
    }


def at_end(stream: CoordinatorLogStreamReader) -> Offset:
    """The offset at the end of every log."""
    return stream.latestOffset(stream.initialOffset(), EVERYTHING)


@pytest.fixture
def clients(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clients]:
    """The logs of each topic: ten commits, four and two transactions, and one share partition."""
    clients = {
        OFFSETS_TOPIC: TopicClient(OFFSETS_TOPIC, TOPIC_ID, 1),
        TRANSACTION_STATE_TOPIC: TopicClient(TRANSACTION_STATE_TOPIC, "tx", 2),
        SHARE_STATE_TOPIC: TopicClient(SHARE_STATE_TOPIC, "share", 1),
    }
    for number in range(10):
        clients[OFFSETS_TOPIC].logs[0].commit("g", number)
    clients[TRANSACTION_STATE_TOPIC].append(0, records=4)
    clients[TRANSACTION_STATE_TOPIC].append(1, records=2)
    clients[SHARE_STATE_TOPIC].append()
    monkeypatch.setattr(topic_plan, "LogClient", lambda _, __, topic, **_options: clients[topic])
    monkeypatch.setattr(coordinator_log, "shared_log_client", lambda *given: clients[given[2]])
    yield clients
    # Ends the waits in flight.
    for client in clients.values():
        client.fail(TimeoutError("the test is over"))


@pytest.mark.usefixtures("clients")
class TestOffsets:
    def test_the_first_offset_is_the_log_start_of_every_topic(self, clients: Clients) -> None:
        clients[OFFSETS_TOPIC].logs[0].log_start = 4
        clients[TRANSACTION_STATE_TOPIC].logs[1].log_start = 1
        start = reader().initialOffset()
        assert positions(start) == {
            OFFSETS_TOPIC: {0: 4},
            TRANSACTION_STATE_TOPIC: {0: 0, 1: 1},
            SHARE_STATE_TOPIC: {0: 0},
        }
        assert start["others"][TRANSACTION_STATE_TOPIC]["p"]["1"] == [1, 5, [[3, 0]]]

    def test_each_topic_has_its_own_log_partitions_and_start_offsets(self) -> None:
        topic = {"log_partitions": [1], "start_offsets": {"1": [1, 4], "9": [7, 4]}}
        stream = reader({TRANSACTION_STATE_TOPIC: topic}, start_offsets='{"0": 3}')
        assert positions(stream.initialOffset()) == {
            OFFSETS_TOPIC: {0: 3},
            TRANSACTION_STATE_TOPIC: {1: 1},
        }

    def test_leaders_of_every_topic_must_have_what_was_seen(self, clients: Clients) -> None:
        topic = {"log_partitions": [0, 1], "start_offsets": {"0": [3, 4]}}
        reader({TRANSACTION_STATE_TOPIC: topic}).initialOffset()
        assert clients[TRANSACTION_STATE_TOPIC].expected == {0: (3, 4, ())}
        stream = reader()
        stream.latestOffset(at_end(stream), EVERYTHING)
        assert clients[TRANSACTION_STATE_TOPIC].expected == {0: (4, 5, ENTRIES), 1: (2, 5, ENTRIES)}
        assert clients[SHARE_STATE_TOPIC].expected == {0: (1, 5, ENTRIES)}
        assert clients[OFFSETS_TOPIC].expected == {0: (10, 5, ENTRIES)}

    def test_progress_reports_the_high_watermarks(
        self, clients: Clients, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        stream = reader(max_records_per_trigger="1")
        assert stream.reportLatestOffset() is None
        stream.latestOffset(stream.initialOffset(), stream.getDefaultReadLimit())
        for client in clients.values():
            # A wait may be in flight, so nobody is asked.
            monkeypatch.setattr(client, "with_entries", None)
        reported = stream.reportLatestOffset()
        assert reported is not None
        assert positions(reported) == END

    def test_offsets_of_other_topics_are_refused(self) -> None:
        start = reader().initialOffset()
        topic = start["others"][TRANSACTION_STATE_TOPIC]
        share = {SHARE_STATE_TOPIC: start["others"][SHARE_STATE_TOPIC]}
        for others, complaint in (
            ({}, f"has the topics {OFFSETS_TOPIC}, but this query reads others"),
            (share, f"has the topics {OFFSETS_TOPIC}, {SHARE_STATE_TOPIC}, but"),
            ({**start["others"], "more": topic}, "state, more, but this query reads others"),
            (
                {**share, TRANSACTION_STATE_TOPIC: {**topic, "topic_id": "old"}},
                f"topic {TRANSACTION_STATE_TOPIC} was deleted and created again .its id was old",
            ),
            (
                {**share, TRANSACTION_STATE_TOPIC: {**topic, "p": {"0": [0, 5]}}},
                "has 1 log partitions, but not the 2 of this query",
            ),
        ):
            other = {**start, "others": others}
            with pytest.raises(ConfigurationError, match=complaint):
                reader().latestOffset(other, EVERYTHING)
            with pytest.raises(ConfigurationError, match=complaint):
                reader().partitions(other, start)

    def test_a_truncated_log_is_named(self, clients: Clients) -> None:
        stream = reader()
        end = at_end(stream)
        clients[TRANSACTION_STATE_TOPIC].logs[0].high_watermark = 3
        lost = f"partition 0 of {TRANSACTION_STATE_TOPIC}: .*offset.* 3.* lost"
        with pytest.raises(LogTruncated, match=lost):
            stream.latestOffset(end, EVERYTHING)


def rows_by_topic(
    stream: CoordinatorLogStreamReader, start: Offset, end: Offset
) -> dict[str, list]:
    rows = rows_of(stream, stream.partitions(start, end))
    by_topic = {topic: [row for row in rows if row["log_topic"] == topic] for topic in BOTH}
    by_topic[OFFSETS_TOPIC] = [row for row in rows if row["log_topic"] is None]
    assert sum(map(len, by_topic.values())) == len(rows)
    for topic_rows in by_topic.values():
        assert_accounted(topic_rows)
    return by_topic


class TestReading:
    @pytest.mark.parametrize("tasks", ["1", "3"])
    def test_rows_name_their_topic(
        self, clients: Clients, monkeypatch: pytest.MonkeyPatch, tasks: str
    ) -> None:
        monkeypatch.setattr("streaming.source.micro_batch._SMALL_BATCH_OFFSETS", 1)
        clients[OFFSETS_TOPIC].leaders = {0: (2, 5)}
        stream = reader(tasks=tasks)
        start, end = stream.initialOffset(), at_end(stream)
        assert len(stream.partitions(start, end)) == int(tasks)
        by_topic = rows_by_topic(stream, start, end)
        for topic, expected in END.items():
            ends = {
                row["log_partition"]: row["record_offset"]
                for row in by_topic[topic]
                if row["row_kind"] == "progress"
            }
            assert ends == expected
        records = [r for r in by_topic[TRANSACTION_STATE_TOPIC] if r["row_kind"] == "record"]
        places = [(row["log_partition"], row["record_offset"]) for row in records]
        assert sorted(places) == [*((0, n) for n in range(4)), (1, 0), (1, 1)]
        assert {(r["raw_key"], r["raw_value"]) for r in records} == {
            (transaction_key(), transaction_value())
        }
        assert {row["row_kind"] for row in by_topic[OFFSETS_TOPIC]} == {"offset", "progress"}

    @pytest.mark.usefixtures("clients")
    def test_no_record_is_superseded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(log_range, "DEFAULT_MAX_PARTITION_BYTES", 200)
        stream = reader(history="sampled")
        by_topic = rows_by_topic(stream, stream.initialOffset(), at_end(stream))
        reports = [r for r in by_topic[TRANSACTION_STATE_TOPIC] if r["row_kind"] == "progress"]
        assert {r["log_partition"]: r["records_read"] for r in reports} == {0: 4, 1: 2}
        assert {r["records_superseded"] for r in reports} == {0}
        # As those of `__consumer_offsets` are.
        (report,) = (r for r in by_topic[OFFSETS_TOPIC] if r["row_kind"] == "progress")
        assert report["records_superseded"] > 0

    def test_an_idle_topic_costs_no_fetch(self, clients: Clients) -> None:
        stream = reader()
        end = at_end(stream)
        for client in clients.values():
            client.fetches.clear()
        by_topic = rows_by_topic(stream, end, end)
        assert [len(rows) for rows in by_topic.values()] == [2, 1, 1]
        assert all(client.fetches == [] for client in clients.values())

    def test_a_task_refuses_another_topic_than_was_planned(self, clients: Clients) -> None:
        stream = reader()
        partitions = stream.partitions(stream.initialOffset(), at_end(stream))
        clients[SHARE_STATE_TOPIC].topic_id = "recreated"
        with pytest.raises(ConfigurationError, match=f"topic {SHARE_STATE_TOPIC} was deleted and"):
            rows_of(stream, partitions)


def ends_of_micro_batches(stream: CoordinatorLogStreamReader) -> list[dict[str, dict[int, int]]]:
    """The positions after each micro-batch, until nothing is left to read."""
    ends, start = [], stream.initialOffset()
    while (end := stream.latestOffset(start, stream.getDefaultReadLimit())) != start:
        ends.append(positions(end))
        start = end
    return ends


class TestBudgets:
    @pytest.mark.usefixtures("clients")
    def test_each_topic_has_the_limit_for_itself_and_is_read_to_its_end(self) -> None:
        stream = reader(max_records_per_trigger="3")
        ends = ends_of_micro_batches(stream)
        assert [end[TRANSACTION_STATE_TOPIC] for end in ends[:2]] == [{0: 2, 1: 1}, {0: 4, 1: 2}]
        assert [end[OFFSETS_TOPIC][0] for end in ends] == [3, 6, 9, 10]
        assert ends[-1] == END

    @pytest.mark.usefixtures("clients")
    def test_without_a_limit_other_topics_have_one(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(coordinator_log, "_MOST_OF_OTHERS", 3)
        for stream in (reader(), reader(max_records_per_trigger="1000")):
            end = stream.latestOffset(stream.initialOffset(), stream.getDefaultReadLimit())
            assert positions(end) == {**END, TRANSACTION_STATE_TOPIC: {0: 2, 1: 1}}

    def test_the_limit_is_of_records_and_not_of_their_offsets(self, clients: Clients) -> None:
        """The cleaner has removed most records of a log."""
        log = clients[TRANSACTION_STATE_TOPIC].logs[0]
        for _ in range(4):
            offset = log.high_watermark + 1_000_000
            record = (0, 0, transaction_key(), transaction_value())
            log.append(write_record_batch(offset, [record]), gap=1_000_000)
        stream = reader(max_records_per_trigger="6")
        ends = ends_of_micro_batches(stream)
        assert ends[-1][TRANSACTION_STATE_TOPIC][0] == log.high_watermark
        assert len(ends) <= 3

    def test_available_now_ends_where_every_log_ended_then(self, clients: Clients) -> None:
        stream = reader(long_poll_ms=str(LONG_MS))
        stream.prepareForTriggerAvailableNow()
        for client in clients.values():
            client.append()
        end = stream.latestOffset(stream.initialOffset(), stream.getDefaultReadLimit())
        assert positions(end) == END
        assert stream.latestOffset(end, stream.getDefaultReadLimit()) is end


# --- waiting for records of several topics at once ------------------------------------------------


def once_all_wait(clients: Clients, action: Callable[[], None]) -> None:
    """Act as soon as a leader of each topic holds a fetch."""

    def act() -> None:
        wait_until(lambda: all(client.is_waiting for client in clients.values()))
        action()

    threading.Thread(target=act, daemon=True).start()


def test_without_news_the_start_is_given_back(clients: Clients) -> None:
    stream = reader(long_poll_ms="50")
    end = at_end(stream)
    assert stream.latestOffset(end, EVERYTHING) is end
    # Waits that end just before the others are followed by a few more.
    assert all(1 <= client.waits <= 10 for client in clients.values())


def test_the_waits_of_the_other_topics_go_on(clients: Clients) -> None:
    """The next micro-batches end them, whichever topic has records."""
    stream = reader(long_poll_ms=str(LONG_MS))
    end = at_end(stream)
    for topic in (SHARE_STATE_TOPIC, OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, OFFSETS_TOPIC):
        before = positions(end)[topic][0]
        once_all_wait(clients, clients[topic].append)
        end = stream.latestOffset(end, EVERYTHING)
        assert positions(end)[topic][0] == before + 1
        assert len(rows_of(stream, stream.partitions(end, end))) == 4, "one for each log partition"
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
    stream = reader(long_poll_ms=str(LONG_MS))
    end = at_end(stream)
    once_all_wait(clients, clients[OFFSETS_TOPIC].append)
    assert positions(stream.latestOffset(end, EVERYTHING)) == {**END, OFFSETS_TOPIC: {0: 11}}
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
    stream = reader(long_poll_ms=str(LONG_MS))
    end = at_end(stream)
    once_all_wait(clients, lambda: clients[topic].fail(error))
    with pytest.raises(LogChanged, match=str(error)):
        stream.latestOffset(end, EVERYTHING)


def test_a_topic_without_leaders_does_not_hold_up_the_offsets(clients: Clients) -> None:
    stream = reader(long_poll_ms="100")
    end = at_end(stream)
    clients[SHARE_STATE_TOPIC].fail(TimeoutError("no leader answers"))
    assert stream.latestOffset(end, EVERYTHING) is end
    clients[OFFSETS_TOPIC].append()
    # A call can also end with the wait of another topic, and then finds nothing.
    while positions(end)[OFFSETS_TOPIC] == {0: 10}:
        end = stream.latestOffset(end, EVERYTHING)
    assert positions(end) == {**END, OFFSETS_TOPIC: {0: 11}}
    clients[OFFSETS_TOPIC].fail(TimeoutError("no leader answers"))
    with pytest.raises(TimeoutError, match="no leader answers"):
        while True:
            stream.latestOffset(end, EVERYTHING)


def test_stopping_closes_the_clients_that_do_not_wait(clients: Clients) -> None:
    stream = reader(long_poll_ms=str(LONG_MS))
    end = at_end(stream)
    once_all_wait(clients, clients[SHARE_STATE_TOPIC].append)
    stream.latestOffset(end, EVERYTHING)
    stream.stop()
    assert {topic for topic, client in clients.items() if client.is_closed} == {SHARE_STATE_TOPIC}
