"""Log starts and log ends of user topics, from ListOffsets requests to the partitions' leaders.

A sample first fetches the metadata of the topics, for leaders and topic ids. Then it asks each
leader for the last stable offset (the end for `read_committed` consumers), the log end (the high
watermark, the end for other consumers) and the log start. The last stable offset is asked for
first, so it is never greater than the log end.

Consumers commit the offset after the last record that they received. So if a log ends with
transaction markers or aborted records, no group commits past them until a new record arrives. Only
the records themselves show this, so the client fetches the records between a group and the log end,
if it is authorised to.

A topic that cannot be sampled has a state, not an error: the topic is deleted, this client may not
see it, or its partition is leaderless. An unreadable log end affects the answer for its log only.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, NamedTuple
from uuid import UUID

from kafka import errors as kafka_errors

from coordinator_state.errors import DecodeError
from coordinator_state.insight.lag import GONE, PRESENT
from coordinator_state.records.internal_topics import INTERNAL_TOPICS
from coordinator_state.records.record_types import NO_LEADER_EPOCH
from coordinator_state.wire.primitives import ZERO_UUID, uuid_text
from streaming.kafka.client import KafkaClient, chunks
from streaming.kafka.connections import TransientFailure
from streaming.kafka.log_requests import (
    EARLIEST,
    LATEST,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    FetchFrom,
    fetch_request,
    list_offsets_request,
    metadata_request,
)
from streaming.kafka.log_tail import LogTail
from streaming.kafka.partition_offsets import UNAVAILABLE, LogOffsets, TopicPartition

UNAUTHORISED: Final = "unauthorised"

_TOPICS_PER_REQUEST: Final = 1_000
_NO_OFFSET: Final = -1
_FETCHES: Final = 32
"""Of the end of a log; one that takes more is unknown."""
_LOGS_PER_FETCH: Final = 50
_PAST_WITHIN_S: Final = 15.0
"""Samples of the present wait for questions about the past."""
_ENDS_WITHIN_S: Final = 5.0
"""The ends of logs are read before a sample is written."""
_UNAUTHORISED_CODE: Final = kafka_errors.TopicAuthorizationFailedError.errno
_ROUNDS: Final = 2
"""Attempts for a partition before it is unavailable until the next sample."""


class _Question(NamedTuple):
    field: str
    timestamp: int
    isolation_level: int


_QUESTIONS: Final = (
    _Question("last_stable_offset", LATEST, READ_COMMITTED),
    _Question("log_end_offset", LATEST, READ_UNCOMMITTED),
    _Question("log_start_offset", EARLIEST, READ_UNCOMMITTED),
)


class LogOffsetsClient(KafkaClient):
    """Samples the logs of topic partitions; see `KafkaClient` for the errors."""

    def sample(
        self, partitions: Collection[TopicPartition], *, whole_topics: bool = False
    ) -> list[LogOffsets]:
        """Sample these partitions: one answer for each, also for unavailable ones.

        With `whole_topics`, also the other partitions of their topics, without internal topics.
        """
        if not partitions:
            return []
        return self.with_retries("sample the logs", lambda: self._sample(partitions, whole_topics))

    def past_ends(
        self, partitions: Collection[TopicPartition], timestamps_ms: Iterable[int]
    ) -> list[dict[TopicPartition, int | None]]:
        """Ask for the first offset whose record has each timestamp or a later one.

        It is None if no record has. A log with an error is left out, and so are the logs of a
        leader that does not answer, from then on. After some seconds no more questions are asked:
        the result is shorter.
        """
        return self.with_retries(
            "list the log ends of the past", lambda: self._past_ends(partitions, timestamps_ms)
        )

    def end_markers(
        self, places: Mapping[TopicPartition, tuple[int, int]]
    ) -> dict[TopicPartition, int | DecodeError | None]:
        """Count the offsets before the log end that have no record for a consumer, from one on.

        They are markers, aborted records and gaps (`LogTail`). The count is an error if the batches
        are damaged, and None if this client may not read the log, or if its end takes too many
        fetches. Logs without an answer are left out, and so are those that were not asked for after
        some seconds.
        """
        if not places:
            return {}
        return self.with_retries("read the log ends", lambda: self._end_markers(places))

    def partitions(self) -> frozenset[TopicPartition]:
        """List the partitions of all topics that this client may see, without internal topics."""
        return self.with_retries("list the topics", self._partitions)

    async def _partitions(self) -> frozenset[TopicPartition]:
        answer = await self.send(self.nodes[0], metadata_request(None))
        return frozenset(
            TopicPartition(topic.name, partition.partition_index)
            for topic in answer.topics
            if not topic.error_code and not topic.is_internal
            for partition in topic.partitions
        )

    async def _past_ends(
        self, partitions: Collection[TopicPartition], timestamps_ms: Iterable[int]
    ) -> list[dict[TopicPartition, int | None]]:
        metadata = await self._metadata({at.topic for at in partitions})
        leaders = _by_leader(partitions, metadata)
        rounds: list[dict[TopicPartition, int | None]] = []
        deadline_s = time.monotonic() + _PAST_WITHIN_S
        for timestamp_ms in timestamps_ms:
            if time.monotonic() > deadline_s:
                break
            question = _Question("log_end_offset", timestamp_ms, READ_UNCOMMITTED)
            # A leader looks each partition up in the index of its segments.
            timeout_ms = self.connections.request_timeout_ms
            answers = await self._list_offsets(leaders, [question], timeout_ms)
            rounds.append(
                {
                    at: None if offset == _NO_OFFSET else offset
                    for at, answer in answers.items()
                    for error_code, offset in answer.values()
                    if not error_code
                }
            )
            leaders = {
                leader: places
                for leader, places in leaders.items()
                if any(at in answers for at in places)
            }
        return rounds

    async def _end_markers(
        self, places: Mapping[TopicPartition, tuple[int, int]]
    ) -> dict[TopicPartition, int | DecodeError | None]:
        metadata = await self._metadata({at.topic for at in places})
        results: dict[TopicPartition, int | DecodeError | None] = {}
        deadline_s = time.monotonic() + _ENDS_WITHIN_S
        for leader, all_of_leader in _by_leader(places, metadata).items():
            # The logs of other leaders are read although this one does not answer.
            with suppress(TransientFailure):
                for chunk in chunks(sorted(all_of_leader), _LOGS_PER_FETCH):
                    tails = {at: LogTail(*places[at]) for at in chunk}
                    for _ in range(_FETCHES):
                        if not tails:
                            break
                        if time.monotonic() > deadline_s:
                            return results
                        await self._read_on(leader, tails, metadata, results)
                    results |= dict.fromkeys(tails)
        return results

    async def _read_on(
        self,
        leader: int,
        tails: dict[TopicPartition, LogTail],
        metadata: Mapping[str, _TopicMetadata],
        results: dict[TopicPartition, int | DecodeError | None],
    ) -> None:
        """Fetch the next bytes of some logs; those that are done move to the results."""
        names = {known.uuid: name for name, known in metadata.items()}
        request = fetch_request(
            {at: FetchFrom(tail.next_offset, tail.fetch_bytes) for at, tail in tails.items()},
            {name: known.uuid for name, known in metadata.items()},
            max_bytes=sum(tail.fetch_bytes for tail in tails.values()),
            isolation_level=READ_COMMITTED,
        )
        answer = await self.send(leader, request)
        answers = {
            # Fetch names topics by id from version 13 on.
            TopicPartition(topic.topic or names.get(topic.topic_id, ""), data.partition_index): data
            for topic in answer.responses
            for data in topic.partitions
        }
        # The limit of an answer leaves logs out, so an empty part says something in an empty one.
        is_empty = not any(data.records for data in answers.values())
        for at in list(tails):
            tail, data = tails[at], answers.get(at)
            if data is None or data.error_code:
                if data is not None and data.error_code == _UNAUTHORISED_CODE:
                    results[at] = None
                del tails[at]
                continue
            try:
                if data.records:
                    aborted = data.aborted_transactions or ()
                    tail.take(
                        bytes(data.records), [(t.producer_id, t.first_offset) for t in aborted]
                    )
                elif is_empty and data.last_stable_offset >= tail.end:
                    tail.take_nothing()
            except DecodeError as error:
                results[at] = error
                del tails[at]
                continue
            if tail.offsets is not None:
                results[at] = tail.offsets
                del tails[at]

    async def _sample(
        self, partitions: Collection[TopicPartition], whole_topics: bool
    ) -> list[LogOffsets]:
        sample_by_place: dict[TopicPartition, LogOffsets] = {}
        missing = set(partitions)
        for number in range(_ROUNDS):
            metadata = await self._metadata({at.topic for at in missing})
            metadata |= await self._second_opinion(metadata)
            if whole_topics and not number:
                missing |= _others(metadata)
            for at in missing:
                known = metadata[at.topic]
                sample_by_place[at] = LogOffsets(
                    topic=at.topic,
                    partition=at.partition,
                    state=known.state(at.partition),
                    topic_id=known.topic_id,
                )
            present = [at for at in sorted(missing) if sample_by_place[at].state == PRESENT]
            answers = await self._list_offsets(_by_leader(present, metadata))
            for at in present:
                sample_by_place[at] = _answered(sample_by_place[at], answers[at])
            missing = {at for at in missing if sample_by_place[at].state == UNAVAILABLE}
            if not missing:
                break
        return [sample_by_place[at] for at in sorted(sample_by_place)]

    async def _second_opinion(
        self, metadata: Mapping[str, _TopicMetadata]
    ) -> dict[str, _TopicMetadata]:
        """The topics that the first broker does not know, but the second one does.

        A broker that has just started may not know all topics yet.
        """
        unknown = [topic for topic, known in metadata.items() if known.is_unknown]
        if not unknown or len(self.nodes) < 2:
            return {}
        second = await self._metadata(unknown, number=1)
        return {topic: known for topic, known in second.items() if not known.is_unknown}

    async def _metadata(
        self, topics: Iterable[str], *, number: int = 0
    ) -> dict[str, _TopicMetadata]:
        metadata_by_topic: dict[str, _TopicMetadata] = {}
        for chunk in chunks(sorted(topics), _TOPICS_PER_REQUEST):
            answer = await self.send(self.nodes[number], metadata_request(chunk))
            for topic in answer.topics:
                topic_id = getattr(topic, "topic_id", None) or ZERO_UUID
                metadata_by_topic[topic.name] = _TopicMetadata(
                    error_code=topic.error_code,
                    uuid=topic_id,
                    topic_id=None if topic_id == ZERO_UUID else uuid_text(topic_id),
                    leaders={p.partition_index: p.leader_id for p in topic.partitions},
                )
        return metadata_by_topic

    async def _list_offsets(
        self,
        leaders: Mapping[int, list[TopicPartition]],
        questions: Sequence[_Question] = _QUESTIONS,
        timeout_ms: int | None = None,
    ) -> dict[TopicPartition, dict[str, tuple[int, int]]]:
        """Return error code and offset by question; empty if a leader did not answer."""
        sent = [(leader, question) for leader in leaders for question in questions]
        requests = (
            (
                leader,
                list_offsets_request(
                    dict.fromkeys(leaders[leader], NO_LEADER_EPOCH),
                    question.timestamp,
                    question.isolation_level,
                ),
            )
            for leader, question in sent
        )
        answers, _ = await self.send_all(requests, timeout_ms)
        answers_by_place: dict[TopicPartition, dict[str, tuple[int, int]]] = defaultdict(dict)
        for (_, question), answer in zip(sent, answers, strict=True):
            for topic in () if answer is None else answer.topics:
                for data in topic.partitions:
                    at = TopicPartition(topic.name, data.partition_index)
                    answers_by_place[at][question.field] = (data.error_code, data.offset)
        return answers_by_place


@dataclass(frozen=True, slots=True, kw_only=True)
class _TopicMetadata:
    error_code: int
    uuid: UUID
    topic_id: str | None
    leaders: Mapping[int, int]

    @property
    def is_unknown(self) -> bool:
        """Whether the broker knows no such topic."""
        return kafka_errors.for_code(self.error_code) in (
            kafka_errors.UnknownTopicOrPartitionError,
            kafka_errors.InvalidTopicError,
        )

    def state(self, partition: int) -> str:
        kind = kafka_errors.for_code(self.error_code)
        if issubclass(kind, kafka_errors.AuthorizationError):
            return UNAUTHORISED
        if self.is_unknown:
            return GONE
        if self.error_code:
            return UNAVAILABLE
        return PRESENT if partition in self.leaders else GONE


def _by_leader(
    partitions: Iterable[TopicPartition], metadata: Mapping[str, _TopicMetadata]
) -> dict[int, list[TopicPartition]]:
    """The partitions that have a leader, by its node id."""
    by_leader: dict[int, list[TopicPartition]] = defaultdict(list)
    for at in partitions:
        leader = metadata[at.topic].leaders.get(at.partition, -1)
        if leader >= 0:
            by_leader[leader].append(at)
    return by_leader


def _others(metadata: Mapping[str, _TopicMetadata]) -> set[TopicPartition]:
    """All partitions of topics, without internal ones."""
    return {
        TopicPartition(topic, partition)
        for topic, known in metadata.items()
        if topic not in INTERNAL_TOPICS
        for partition in known.leaders
    }


def _answered(sample: LogOffsets, answers: Mapping[str, tuple[int, int]]) -> LogOffsets:
    errors = [kafka_errors.for_code(code) for code, _ in answers.values() if code]
    if any(issubclass(kind, kafka_errors.AuthorizationError) for kind in errors):
        return replace(sample, state=UNAUTHORISED)
    if errors or len(answers) < len(_QUESTIONS):
        # A former leader does not know the partition either. Only metadata shows a deleted topic.
        return replace(sample, state=UNAVAILABLE)
    offsets = {field: offset for field, (_, offset) in answers.items()}
    return replace(
        sample,
        log_start_offset=offsets["log_start_offset"],
        log_end_offset=offsets["log_end_offset"],
        last_stable_offset=offsets["last_stable_offset"],
    )
