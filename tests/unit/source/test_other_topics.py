"""The source with other internal topics besides `__consumer_offsets`, against logs in memory."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from coordinator_state.log.record_batch_writer import write_record_batch
from coordinator_state.records.internal_topics import SHARE_STATE_TOPIC, TRANSACTION_STATE_TOPIC
from coordinator_state.replay.partitioner import OFFSETS_TOPIC
from streaming.errors import ConfigurationError, LogChanged, LogTruncated, NotAuthorised
from streaming.kafka.fetch import FetchedRecords, LogDescription
from streaming.source import coordinator_log, log_range, topic_plan
from streaming.source.coordinator_log import CoordinatorLogStreamReader
from streaming.source.options import SourceOptions
from tests.support.logs.memory_log import (
    BOOTSTRAP,
    CLUSTER_ID,
    TOPIC_ID,
    MemoryLog,
    MemoryLogClient,
    assert_accounted,
    reader_of,
    rows_of,
)
from tests.support.logs.topic_logs import transaction_key, transaction_value

Row = dict[str, Any]
Offset = dict[str, Any]

EVERYTHING = ReadAllAvailable()
BOTH = {
    TRANSACTION_STATE_TOPIC: {"log_partitions": [0, 1], "start_offsets": {}},
    SHARE_STATE_TOPIC: {"log_partitions": [0], "start_offsets": {}},
}
LONG_MS = 60_000
"""The longest wait of a test that must not wait."""


class TopicClient(MemoryLogClient):
    """A client of a topic; a leader holds a fetch until it has records."""

    def __init__(self, topic: str, topic_id: str, log_partitions: int) -> None:
        super().__init__({p: MemoryLog() for p in range(log_partitions)})
        self.topic, self.topic_id = topic, topic_id
        self.arrived = threading.Condition()
        self.failure: Exception | None = None
        self.waits = 0

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
            self.arrived.wait_for(lambda: self._has_news(positions), max_wait_ms / 1000)
            if self.failure is not None:
                raise self.failure
            return super().fetch(positions, max_bytes, max_partition_bytes)

    def _has_news(self, positions: Mapping[int, int]) -> bool:
        news = (self.logs[p].high_watermark > at for p, at in positions.items())
        return self.failure is not None or any(news)


Clients = dict[str, TopicClient]


@pytest.fixture
def clients(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clients]:
    """Logs of ten commits, of four and two transactions, and of one share partition."""
    found = {
        OFFSETS_TOPIC: TopicClient(OFFSETS_TOPIC, TOPIC_ID, 1),
        TRANSACTION_STATE_TOPIC: TopicClient(TRANSACTION_STATE_TOPIC, "tx", 2),
        SHARE_STATE_TOPIC: TopicClient(SHARE_STATE_TOPIC, "share", 1),
    }
    for number in range(10):
        found[OFFSETS_TOPIC].logs[0].commit("g", number)
    found[TRANSACTION_STATE_TOPIC].append(0, records=4)
    found[TRANSACTION_STATE_TOPIC].append(1, records=2)
    found[SHARE_STATE_TOPIC].append()
    monkeypatch.setattr(topic_plan, "LogClient", lambda _, __, topic, **_options: found[topic])
    monkeypatch.setattr(coordinator_log, "shared_log_client", lambda *given: found[given[2]])
    yield found
    # Ends the waits in flight.
    for client in found.values():
        client.fail(TimeoutError("the test is over"))


def reader(topics: Mapping[str, Any] = BOTH, **options: str) -> CoordinatorLogStreamReader:
    return reader_of(other_topics=json.dumps(topics), **options)


def positions(offset: Offset) -> dict[str, dict[int, int]]:
    """The next offset of each topic and log partition."""
    of_topics = {OFFSETS_TOPIC: offset, **offset["others"]}
    return {
        topic: {int(p): next_offset for p, (next_offset, _) in of_topic["p"].items()}
        for topic, of_topic in of_topics.items()
    }


def at_end(one: CoordinatorLogStreamReader) -> Offset:
    """The offset at the end of every log."""
    return one.latestOffset(one.initialOffset(), EVERYTHING)


def soon(action: Callable[[], None], after_s: float = 0.05) -> None:
    timer = threading.Timer(after_s, action)
    timer.daemon = True
    timer.start()


START = {OFFSETS_TOPIC: {0: 0}, TRANSACTION_STATE_TOPIC: {0: 0, 1: 0}, SHARE_STATE_TOPIC: {0: 0}}
END = {OFFSETS_TOPIC: {0: 10}, TRANSACTION_STATE_TOPIC: {0: 4, 1: 2}, SHARE_STATE_TOPIC: {0: 1}}


@pytest.mark.usefixtures("clients")
class TestOffsets:
    def test_an_offset_has_the_position_in_every_topic(self) -> None:
        assert reader().initialOffset() == {
            "v": 2,
            "cluster_id": CLUSTER_ID,
            "topic_id": TOPIC_ID,
            "p": {"0": [0, 5]},
            "others": {
                TRANSACTION_STATE_TOPIC: {"topic_id": "tx", "p": {"0": [0, 5], "1": [0, 5]}},
                SHARE_STATE_TOPIC: {"topic_id": "share", "p": {"0": [0, 5]}},
            },
        }

    def test_each_topic_has_its_own_log_partitions_and_start_offsets(self) -> None:
        topic = {"log_partitions": [1], "start_offsets": {"1": [1, 4], "9": [7, 4]}}
        one = reader({TRANSACTION_STATE_TOPIC: topic}, start_offsets='{"0": 3}')
        assert positions(one.initialOffset()) == {
            OFFSETS_TOPIC: {0: 3},
            TRANSACTION_STATE_TOPIC: {1: 1},
        }

    def test_leaders_of_every_topic_must_have_what_was_seen(self, clients: Clients) -> None:
        topic = {"log_partitions": [0, 1], "start_offsets": {"0": [3, 4]}}
        reader({TRANSACTION_STATE_TOPIC: topic}).initialOffset()
        assert clients[TRANSACTION_STATE_TOPIC].expected == {0: (3, 4)}
        one = reader()
        one.latestOffset(at_end(one), EVERYTHING)
        assert clients[TRANSACTION_STATE_TOPIC].expected == {0: (4, 5), 1: (2, 5)}
        assert clients[SHARE_STATE_TOPIC].expected == {0: (1, 5)}

    def test_the_end_is_that_of_every_topic_and_stays_the_same_json(self) -> None:
        one = reader()
        end = at_end(one)
        assert positions(end) == END
        again = one.latestOffset(json.loads(json.dumps(end)), EVERYTHING)
        assert json.dumps(again) == json.dumps(end)

    def test_progress_reports_the_high_watermarks(self) -> None:
        one = reader(max_records_per_trigger="1")
        assert one.reportLatestOffset() is None
        one.latestOffset(one.initialOffset(), one.getDefaultReadLimit())
        reported = one.reportLatestOffset()
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
                "has 1 log partitions, but this query reads 2 or others",
            ),
        ):
            other = {**start, "others": others}
            with pytest.raises(ConfigurationError, match=complaint):
                reader().latestOffset(other, EVERYTHING)
            with pytest.raises(ConfigurationError, match=complaint):
                reader().partitions(other, start)
        with pytest.raises(ConfigurationError, match="format version 1"):
            reader().latestOffset({"v": 1}, EVERYTHING)

    def test_a_truncated_log_is_named(self, clients: Clients) -> None:
        one = reader()
        end = at_end(one)
        clients[TRANSACTION_STATE_TOPIC].logs[0].high_watermark = 3
        with pytest.raises(LogTruncated, match=f"partition 0 of {TRANSACTION_STATE_TOPIC}: .* 3"):
            one.latestOffset(end, EVERYTHING)

    @pytest.mark.parametrize(
        "text",
        [
            "no",
            "[1]",
            '{"x": {"log_partitions": [0]}}',
            '{"x": {"log_partitions": ["a"], "start_offsets": {}}}',
            '{"x": {"log_partitions": [0], "start_offsets": {"0": [1, 2, 3]}}}',
        ],
    )
    def test_a_wrong_option_is_refused(self, text: str) -> None:
        with pytest.raises(ConfigurationError, match="option other_topics must be JSON"):
            SourceOptions.read(BOOTSTRAP | {"other_topics": text})


def rows_by_topic(one: CoordinatorLogStreamReader, start: Offset, end: Offset) -> dict[str, list]:
    rows = rows_of(one, one.partitions(start, end))
    found = {topic: [row for row in rows if row["log_topic"] == topic] for topic in BOTH}
    found[OFFSETS_TOPIC] = [row for row in rows if row["log_topic"] is None]
    assert sum(map(len, found.values())) == len(rows)
    for of_topic in found.values():
        assert_accounted(of_topic)
    return found


class TestReading:
    @pytest.mark.parametrize("tasks", ["1", "3"])
    def test_rows_name_their_topic(
        self, clients: Clients, monkeypatch: pytest.MonkeyPatch, tasks: str
    ) -> None:
        monkeypatch.setattr("streaming.source.micro_batch._SMALL_BATCH_OFFSETS", 1)
        clients[OFFSETS_TOPIC].leaders = {0: (2, 5)}
        one = reader(tasks=tasks)
        start, end = one.initialOffset(), at_end(one)
        assert len(one.partitions(start, end)) == int(tasks)
        found = rows_by_topic(one, start, end)
        for topic, expected in END.items():
            ends = {
                row["log_partition"]: row["record_offset"]
                for row in found[topic]
                if row["row_kind"] == "progress"
            }
            assert ends == expected
        records = [r for r in found[TRANSACTION_STATE_TOPIC] if r["row_kind"] == "record"]
        places = [(row["log_partition"], row["record_offset"]) for row in records]
        assert sorted(places) == [*((0, n) for n in range(4)), (1, 0), (1, 1)]
        assert {(r["raw_key"], r["raw_value"]) for r in records} == {
            (transaction_key(), transaction_value())
        }
        assert {row["row_kind"] for row in found[OFFSETS_TOPIC]} == {"offset", "progress"}

    @pytest.mark.usefixtures("clients")
    def test_no_record_is_superseded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(log_range, "DEFAULT_MAX_PARTITION_BYTES", 200)
        one = reader(history="sampled")
        found = rows_by_topic(one, one.initialOffset(), at_end(one))
        reports = [r for r in found[TRANSACTION_STATE_TOPIC] if r["row_kind"] == "progress"]
        assert {r["log_partition"]: r["records_read"] for r in reports} == {0: 4, 1: 2}
        assert {r["records_superseded"] for r in reports} == {0}
        # As those of `__consumer_offsets` are.
        (report,) = (r for r in found[OFFSETS_TOPIC] if r["row_kind"] == "progress")
        assert report["records_superseded"] > 0

    def test_an_idle_topic_costs_no_fetch(self, clients: Clients) -> None:
        one = reader()
        end = at_end(one)
        for client in clients.values():
            client.fetches.clear()
        found = rows_by_topic(one, end, end)
        assert [len(rows) for rows in found.values()] == [2, 1, 1]
        assert all(client.fetches == [] for client in clients.values())

    def test_a_task_refuses_another_topic_than_was_planned(self, clients: Clients) -> None:
        one = reader()
        partitions = one.partitions(one.initialOffset(), at_end(one))
        clients[SHARE_STATE_TOPIC].topic_id = "recreated"
        with pytest.raises(ConfigurationError, match=f"topic {SHARE_STATE_TOPIC} was deleted and"):
            rows_of(one, partitions)


class TestBudgets:
    @pytest.mark.usefixtures("clients")
    def test_each_topic_has_the_limit_for_itself_and_is_read_to_its_end(self) -> None:
        one = reader(max_records_per_trigger="3")
        limit = one.getDefaultReadLimit()
        seen = [one.initialOffset()]
        while (end := one.latestOffset(seen[-1], limit)) != seen[-1]:
            seen.append(end)
        assert [positions(offset)[TRANSACTION_STATE_TOPIC] for offset in seen[:3]] == [
            {0: 0, 1: 0},
            {0: 2, 1: 1},
            {0: 4, 1: 2},
        ]
        assert [positions(offset)[OFFSETS_TOPIC][0] for offset in seen] == [0, 3, 6, 9, 10]
        assert positions(seen[-1]) == END

    @pytest.mark.usefixtures("clients")
    def test_without_a_limit_other_topics_have_one(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(coordinator_log, "_MOST_OF_OTHERS", 3)
        for one in (reader(), reader(max_records_per_trigger="1000")):
            end = one.latestOffset(one.initialOffset(), one.getDefaultReadLimit())
            assert positions(end) == {**END, TRANSACTION_STATE_TOPIC: {0: 2, 1: 1}}

    def test_the_limit_is_of_records_and_not_of_their_offsets(self, clients: Clients) -> None:
        """The cleaner has removed most records of a log."""
        log = clients[TRANSACTION_STATE_TOPIC].logs[0]
        for _ in range(4):
            offset = log.high_watermark + 1_000_000
            record = (0, 0, transaction_key(), transaction_value())
            log.append(write_record_batch(offset, [record]), gap=1_000_000)
        one = reader(max_records_per_trigger="6")
        seen = [one.initialOffset()]
        while (end := one.latestOffset(seen[-1], one.getDefaultReadLimit())) != seen[-1]:
            seen.append(end)
        assert positions(seen[-1])[TRANSACTION_STATE_TOPIC][0] == log.high_watermark
        assert len(seen) <= 4

    def test_available_now_ends_where_every_log_ended_then(self, clients: Clients) -> None:
        one = reader(long_poll_ms=str(LONG_MS))
        one.prepareForTriggerAvailableNow()
        for client in clients.values():
            client.append()
        end = one.latestOffset(one.initialOffset(), one.getDefaultReadLimit())
        assert positions(end) == END
        assert one.latestOffset(end, one.getDefaultReadLimit()) is end


class TestWaiting:
    def test_without_news_the_start_is_given_back(self, clients: Clients) -> None:
        one = reader(long_poll_ms="50")
        end = at_end(one)
        assert one.latestOffset(end, EVERYTHING) is end
        # A wait that ends just before the others is followed by another.
        assert {client.waits for client in clients.values()} <= {1, 2}

    @pytest.mark.timeout(20)
    @pytest.mark.parametrize("topic", END)
    def test_a_record_in_any_topic_ends_the_wait(self, clients: Clients, topic: str) -> None:
        one = reader(long_poll_ms=str(LONG_MS))
        end = at_end(one)
        soon(clients[topic].append)
        found = positions(one.latestOffset(end, EVERYTHING))
        assert found == {**END, topic: {**END[topic], 0: END[topic][0] + 1}}

    @pytest.mark.timeout(20)
    def test_the_waits_of_the_other_topics_go_on(self, clients: Clients) -> None:
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

    @pytest.mark.timeout(20)
    def test_a_wait_that_ends_without_records_is_followed_by_another(
        self, clients: Clients
    ) -> None:
        """Otherwise a topic would not be looked at until the waits of the others end, too."""
        one = reader(long_poll_ms="1000")
        end = at_end(one)
        soon(clients[SHARE_STATE_TOPIC].append, after_s=0.8)
        end = one.latestOffset(end, EVERYTHING)
        # The other waits end after 1 s, the new one of this topic after 1.8 s.
        soon(clients[OFFSETS_TOPIC].append, after_s=0.3)
        while positions(end)[OFFSETS_TOPIC] == {0: 10}:
            end = one.latestOffset(end, EVERYTHING)
        assert clients[OFFSETS_TOPIC].waits >= 2

    @pytest.mark.timeout(20)
    @pytest.mark.parametrize("topic", END)
    def test_a_wait_that_fails_ends_the_query(self, clients: Clients, topic: str) -> None:
        one = reader(long_poll_ms=str(LONG_MS))
        end = at_end(one)
        soon(lambda: clients[topic].fail(LogChanged("created again")))
        with pytest.raises(LogChanged, match="created again"):
            one.latestOffset(end, EVERYTHING)

    @pytest.mark.timeout(20)
    def test_a_topic_without_leaders_does_not_hold_up_the_offsets(self, clients: Clients) -> None:
        one = reader(long_poll_ms="100")
        end = at_end(one)
        clients[SHARE_STATE_TOPIC].fail(TimeoutError("no leader answers"))
        assert one.latestOffset(end, EVERYTHING) is end
        clients[OFFSETS_TOPIC].append()
        end = one.latestOffset(end, EVERYTHING)
        assert positions(end) == {**END, OFFSETS_TOPIC: {0: 11}}
        clients[OFFSETS_TOPIC].fail(TimeoutError("no leader answers"))
        with pytest.raises(TimeoutError, match="no leader answers"):
            one.latestOffset(end, EVERYTHING)

    @pytest.mark.timeout(20)
    def test_without_an_acl_the_query_restarts_without_the_topic(self, clients: Clients) -> None:
        one = reader(long_poll_ms=str(LONG_MS))
        end = at_end(one)
        soon(lambda: clients[SHARE_STATE_TOPIC].fail(NotAuthorised("needs the ACL Read")))
        with pytest.raises(LogChanged, match="needs the ACL Read"):
            one.latestOffset(end, EVERYTHING)

    @pytest.mark.timeout(20)
    def test_stopping_closes_the_clients_that_do_not_wait(self, clients: Clients) -> None:
        one = reader(long_poll_ms=str(LONG_MS))
        end = at_end(one)
        soon(clients[SHARE_STATE_TOPIC].append)
        one.latestOffset(end, EVERYTHING)
        one.stop()
        assert {topic for topic, client in clients.items() if client.is_closed} == {
            SHARE_STATE_TOPIC
        }
