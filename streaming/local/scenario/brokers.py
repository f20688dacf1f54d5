"""The brokers of a scenario in virtual time: topics, and a coordinator with its log."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from coordinator_state.insight.lag import PRESENT
from coordinator_state.model.group_coordinator import GroupCoordinator, Place
from coordinator_state.model.log import CoordinatorLog, Written
from coordinator_state.model.topics import Topic as CoordinatorTopic
from coordinator_state.model.topics import Topics
from coordinator_state.records.internal_topics import OFFSETS_TOPIC, SHARE_STATE_TOPIC
from coordinator_state.wire.primitives import uuid_text
from streaming.kafka.partition_offsets import LogOffsets, TopicPartition
from streaming.local.scenario.scenario import Run
from streaming.local.scenario.topic_logs import PartitionLog, TopicLogs
from streaming.tables.clock import moment_ms

LOG_PARTITIONS = 1
_EXPIRES_EVERY_S = 600


class Brokers:
    """What clients and `run` talk to.

    Attributes:
        run: the settings of `run` and of its clock.
        begin: the first moment.
        seconds: the time since then.
        topics: the topics by name.
        coordinator: the coordinator of all groups.
        share_log: the log of `__share_group_state`.
    """

    def __init__(self, run: Run, begin: datetime) -> None:
        self.run = run
        self.begin = begin
        self.seconds = 0
        self.topics: dict[str, TopicLogs] = {}
        self.share_log = CoordinatorLog()
        self._known: dict[str, CoordinatorTopic] = {}
        self.coordinator = GroupCoordinator(topics=Topics(self._known))
        self._producers = 0

    @property
    def now(self) -> datetime:
        """The time by the clock of `run`."""
        return self.begin + timedelta(seconds=self.seconds)

    @property
    def now_ms(self) -> int:
        """The time by the brokers' clock."""
        ahead_s = self.run.brokers_ahead_s - self.run.brokers_behind_s
        gained_ms = 1000 * self.run.brokers_gain_s * self.seconds // 3600
        return moment_ms(self.now) + 1000 * ahead_s + gained_ms

    def tick(self, t: int) -> None:
        """What happens to topics and offsets at a moment, in seconds since the begin."""
        self.seconds = t
        deleted = [topic.name for topic in self.topics.values() if topic.tick(t)]
        self._known.clear()
        self._known |= {
            name: CoordinatorTopic(topic.topic_id, len(topic.logs))
            for name, topic in self.topics.items()
            if not topic.is_deleted
        }
        self.coordinator.now_ms = self.now_ms
        if deleted:
            # The coordinator deletes the offsets of deleted topics by the metadata log.
            offsets = self.coordinator.offsets
            self.coordinator.delete_offsets([key for key in offsets if key.topic in deleted])
        if t % _EXPIRES_EVERY_S == 0:
            self.coordinator.expire_offsets()

    def new_producer_id(self) -> int:
        """The id of a new producer."""
        self._producers += 1
        return self._producers

    def partitions_of(self, topic: str) -> int:
        """The number of partitions of a topic; 0 if there is none."""
        known = self._known.get(topic)
        return 0 if known is None else known.partitions

    def has(self, place: Place) -> bool:
        """Whether a partition exists."""
        return place[1] < self.partitions_of(place[0])

    def can_be_used(self, place: Place) -> bool:
        """Whether a partition exists and has a leader."""
        return self.has(place) and self.topics[place[0]].can_be_used

    def log(self, place: Place) -> PartitionLog:
        """The log of a partition."""
        return self.topics[place[0]].logs[place[1]]

    def topic_names(self, topic_ids: Collection[str]) -> Mapping[str, str]:
        """The names of topics by id."""
        names = {uuid_text(topic.topic_id): topic.name for topic in self.topics.values()}
        return {topic_id: names[topic_id] for topic_id in topic_ids if topic_id in names}

    def take(self) -> list[Written]:
        """The records of both internal topics that were written since the last call."""
        written = [self.coordinator.log.take()]
        if not self.share_log.is_taken:
            written.append(self.share_log.take(log_topic=SHARE_STATE_TOPIC))
        return written

    def past_ends(
        self, partitions: Collection[TopicPartition], timestamps_ms: Sequence[int]
    ) -> list[dict[TopicPartition, int | None]]:
        """The log ends at some times, as ListOffsets answers them; see `LogOffsetsClient`."""
        now_ms, known = self.now_ms, [at for at in partitions if self.can_be_used(at)]
        return [
            {at: self.log(at).end_before((now_ms - at_ms) / 1000) for at in known}
            for at_ms in timestamps_ms
        ]

    def end_markers(
        self, places: Mapping[TopicPartition, tuple[int, int]]
    ) -> dict[TopicPartition, int]:
        """The offsets without a record at the ends of logs; see `LogOffsetsClient`."""
        return {
            at: self.log(at).end_markers(*ends)
            for at, ends in places.items()
            if at.topic in self.topics and self.can_be_used(at)
        }

    def sample(self, read: Collection[str]) -> list[LogOffsets]:
        """The offsets of all logs, as `run` samples them; `read` has the topics of groups."""
        samples = [_internal(OFFSETS_TOPIC, self.coordinator.log.next_offset)]
        if self.share_log.next_offset:
            samples.append(_internal(SHARE_STATE_TOPIC, self.share_log.next_offset))
        for name, topic in self.topics.items():
            samples += topic.sample(is_known=name in read)
        return samples


def _internal(topic: str, end: int) -> LogOffsets:
    return LogOffsets(
        topic=topic,
        partition=0,
        state=PRESENT,
        topic_id=uuid_text(UUID(int=1)),
        log_start_offset=0,
        log_end_offset=end,
        last_stable_offset=end,
    )
