"""The logs of user topics in a scenario: their ends, as clients and samples see them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import NAMESPACE_URL, UUID, uuid5

from coordinator_state.insight.lag import GONE, PRESENT
from coordinator_state.wire.primitives import uuid_text
from streaming.kafka.partition_offsets import UNAVAILABLE, LogOffsets
from streaming.local.scenario.scenario import (
    TICK_S,
    AbortRecords,
    AddPartitions,
    CreateTopic,
    DeleteRecords,
    DeleteTopic,
    HangRecords,
    Produce,
    Topic,
    TopicEvent,
    Unavailable,
    Write,
)


class Ends(NamedTuple):
    """The ends of a log.

    Attributes:
        end: the log end.
        last_stable_offset: the end for `read_committed` consumers.
        records_end: the offset after the last record.
        committed_end: the offset after the last record that `read_committed` consumers get.
    """

    end: int
    last_stable_offset: int
    records_end: int
    committed_end: int


@dataclass(slots=True)
class PartitionLog:
    """The offsets of a log.

    Attributes:
        end: the log end.
        start: the log start.
        records_end: the offset after the last record.
        committed_end: the offset after the last record of no open or aborted transaction.
        open_at: the first offset of the open transaction of the topic's producer.
        hung_at: the same of another producer, whose transaction hangs.
    """

    end: int = 0
    start: int = 0
    records_end: int = 0
    committed_end: int = 0
    open_at: int | None = None
    hung_at: int | None = None
    _ends: list[Ends] = field(default_factory=list)
    """The ends after each tick."""

    @property
    def last_stable_offset(self) -> int:
        """The end for `read_committed` consumers."""
        return min(at for at in (self.end, self.open_at, self.hung_at) if at is not None)

    def append(self, records: int) -> None:
        """Append records; those of a transaction are not committed yet."""
        self.end += records
        if records:
            self.records_end = self.end
            if self.open_at is None:
                self.committed_end = self.end

    def end_transaction(self, *, aborts: bool) -> None:
        """End the open transaction of the topic's producer, and begin the next one."""
        if self.open_at is not None and self.records_end > self.open_at and not aborts:
            self.committed_end = self.records_end
        if self.open_at is not None and self.records_end > self.open_at:
            self.end += 1
        self.open_at = self.end

    def tick(self, retention_s: int | None) -> None:
        """Note the ends of this moment, and delete the records that are too old."""
        stable = self.last_stable_offset
        self._ends.append(Ends(self.end, stable, self.records_end, min(self.committed_end, stable)))
        if retention_s is not None:
            self.start = max(self.start, self.ends_before(retention_s).end)

    def ends_before(self, ago_s: int) -> Ends:
        """The ends so long ago."""
        number = len(self._ends) - 1 - ago_s // TICK_S
        return self._ends[number] if number >= 0 else Ends(0, 0, 0, 0)

    def end_before(self, ago_s: float) -> int | None:
        """The log end so long ago, without the records of that moment; None if it is as now."""
        if ago_s < 0:
            return None
        end = self.ends_before(int(ago_s // TICK_S + 1) * TICK_S).end
        return None if end == self.end else end

    def end_markers(self, first: int, end: int) -> int:
        """The number of offsets between two that follow the last record of consumers."""
        return end - max(first, min(end, self.committed_end))


class TopicLogs:
    """A topic with its producers, and its logs."""

    def __init__(self, name: str, topic: Topic) -> None:
        self.name = name
        self.topic = topic
        self.logs = [PartitionLog() for _ in range(topic.partitions)]
        self.is_deleted = False
        self._created = 0
        self.topic_id = self._new_id()
        self._carry = 0.0
        self._next = 0
        self._t = 0

    def _new_id(self) -> UUID:
        """The topic's id, which is another one after each creation."""
        self._created += 1
        return uuid5(NAMESPACE_URL, f"{self.name}/{self._created}")

    @property
    def can_be_used(self) -> bool:
        """Whether clients reach the leaders."""
        windows = [e for e in self.topic.events if isinstance(e, Unavailable) and e.clients]
        return not (self.is_deleted or any(window.has(self._t) for window in windows))

    def tick(self, t: int) -> bool:
        """What happens at a moment; returns whether the topic is deleted now."""
        self._t = t
        due = [event for event in self.topic.events if getattr(event, "at_s", None) == t]
        self._create(due)
        if self.is_deleted:
            return False
        if self.can_be_used:
            self._produce(t)
        for log in self.logs:
            _change(log, due)
            log.tick(self.topic.retention_s)
        self.is_deleted = any(isinstance(event, DeleteTopic) for event in due)
        return self.is_deleted

    def _create(self, due: Sequence[TopicEvent]) -> None:
        for event in due:
            if isinstance(event, CreateTopic):
                self.topic_id = self._new_id()
                self.is_deleted = False
                partitions = event.partitions or self.topic.partitions
                self.logs = [PartitionLog() for _ in range(partitions)]
            elif isinstance(event, AddPartitions):
                more = event.partitions - len(self.logs)
                self.logs += [PartitionLog() for _ in range(more)]

    def _produce(self, t: int) -> None:
        events, rate = self.topic.events, self.topic.rate
        for event in events:
            if isinstance(event, Produce) and event.has(t):
                rate = event.rate
        self._carry += rate * TICK_S
        # Numbers such as 0.1 are not exact in binary.
        records = int(self._carry + 1e-6)
        self._carry -= records
        each, rest = divmod(records, len(self.logs))
        is_hung = any(isinstance(event, HangRecords) and event.has(t) for event in events)
        aborts = any(isinstance(event, AbortRecords) and event.has(t) for event in events)
        for number, log in enumerate(self.logs):
            if self.topic.transaction_s is not None and t % self.topic.transaction_s == 0:
                log.end_transaction(aborts=aborts)
            if is_hung and log.hung_at is None:
                log.hung_at = log.end
                log.end += 1
            elif not is_hung and log.hung_at is not None:
                log.hung_at = None
                log.end += 1
            log.append(each + ((number - self._next) % len(self.logs) < rest))
        self._next = (self._next + rest) % len(self.logs)

    def sample(self, *, is_known: bool) -> Iterator[LogOffsets]:
        """The answers of the brokers; nobody asks for a topic that no group has."""
        topic_id = uuid_text(self.topic_id)
        lost = any(isinstance(e, Unavailable) and e.has(self._t) for e in self.topic.events)
        for partition, log in enumerate(self.logs if is_known else ()):
            if self.is_deleted or lost:
                state = GONE if self.is_deleted else UNAVAILABLE
                known_id = None if self.is_deleted else topic_id
                yield LogOffsets(
                    topic=self.name, partition=partition, state=state, topic_id=known_id
                )
                continue
            yield LogOffsets(
                topic=self.name,
                partition=partition,
                state=PRESENT,
                topic_id=topic_id,
                log_start_offset=log.start,
                log_end_offset=log.end,
                last_stable_offset=log.last_stable_offset,
            )


def _change(log: PartitionLog, due: Sequence[TopicEvent]) -> None:
    """What is written to a log, and deleted from it, apart from the producers' records."""
    for event in due:
        if isinstance(event, Write):
            if event.kind == "records":
                log.append(event.records)
                continue
            log.end += event.records
            if event.kind == "aborted":
                log.records_end = log.end
        elif isinstance(event, DeleteRecords):
            before = log.end if event.before is None else event.before
            log.start = min(max(log.start, before), log.end)
