"""Samples for the times in which `run` took none: it was stopped, or had not begun to sample a log.

The samples of such a time come from requests by timestamp, see `streaming.lag.past_samples`.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, Protocol

from coordinator_state.insight.lag import PRESENT
from coordinator_state.records.internal_topics import INTERNAL_TOPICS
from streaming.errors import ConfigurationError, first_line
from streaming.kafka.partition_offsets import LogOffsets, TopicPartition
from streaming.lag.past_samples import PastEnds, missed_moments, past_samples
from streaming.lag.sample_runs import Sample
from streaming.tables.clock import moment_ms

logger = logging.getLogger(__name__)

_LEAST_GAP: Final = timedelta(seconds=15)
_USUAL: Final = 3
"""Samples are missing if the next ones are so many times later than usual."""
_FUTURE: Final = timedelta(minutes=1)
"""Timestamps of a log that has later ones say nothing about the past."""
_MOST_ATTEMPTS: Final = 10

Samples = Mapping[TopicPartition, LogOffsets]


class PastLogs(Protocol):
    """Brokers that know the log ends of the past; see `LogOffsetsClient.past_ends`."""

    def past_ends(
        self, partitions: Collection[TopicPartition], timestamps_ms: Sequence[int]
    ) -> list[dict[TopicPartition, int | None]]: ...


@dataclass(slots=True)
class _Span:
    """A time in which logs were not sampled; `begin` is None before their first sample."""

    begin: datetime | None
    end: datetime
    before: Samples
    after: Samples
    attempts: int = 0


@dataclass(slots=True)
class MissedSampling:
    """The samples that are missing before each round of samples.

    `were_sampled` returns the logs, out of new ones, of which an earlier run has taken samples.
    """

    client: PastLogs
    were_sampled: Callable[[AbstractSet[TopicPartition]], AbstractSet[TopicPartition]]
    _last: dict[TopicPartition, Sample] = field(default_factory=dict)
    _round_at: datetime | None = None
    _spacing: timedelta = timedelta()
    _spans: list[_Span] = field(default_factory=list)

    def continue_from(self, sampled_at: datetime, samples: Samples) -> None:
        """Take over the last round of samples of an earlier run."""
        self._last = {at: Sample(sampled_at, sample) for at, sample in samples.items()}

    def before(self, sampled_at: datetime, samples: Samples, skew: timedelta) -> list[Sample]:
        """Ask for the log ends since the last samples, or of earlier times for logs that are new.

        A request that fails is repeated in later rounds, some times.

        Args:
            sampled_at: the time of a round of samples.
            samples: the logs of the round.
            skew: how far the brokers' clock is ahead.
        """
        present = {
            at: sample
            for at, sample in samples.items()
            if sample.state == PRESENT and at.topic not in INTERNAL_TOPICS
        }
        self._spans += self._new_spans(sampled_at, present)
        self._spacing = sampled_at - (self._round_at or sampled_at)
        self._round_at = sampled_at
        self._last |= {at: Sample(sampled_at, sample) for at, sample in present.items()}
        spans, self._spans = self._spans, []
        return [missed for span in spans for missed in self._samples(span, skew)]

    def _new_spans(self, sampled_at: datetime, present: Samples) -> list[_Span]:
        logs_by_last: dict[datetime | None, dict[TopicPartition, LogOffsets]] = defaultdict(dict)
        least = max(_LEAST_GAP, _USUAL * self._spacing)
        for at, sample in present.items():
            last = self._last.get(at)
            if last is None or sampled_at - last.sampled_at > least:
                logs_by_last[last and last.sampled_at][at] = sample
        new = logs_by_last.pop(None, {})
        for at in self.were_sampled(new.keys()) if new else frozenset[TopicPartition]():
            del new[at]
        spans = [_Span(None, sampled_at, {}, new)] if new else []
        for begin, logs in logs_by_last.items():
            before = {at: self._last[at].offsets for at in logs}
            spans.append(_Span(begin, sampled_at, before, logs))
        return spans

    def _samples(self, span: _Span, skew: timedelta) -> list[Sample]:
        moments = missed_moments(span.begin, span.end, len(span.after))
        if not moments:
            return []
        past_ends = self._past_ends(span, moments, skew)
        if past_ends is None:
            span.attempts += 1
            if span.attempts < _MOST_ATTEMPTS:
                self._spans.append(span)
                return []
            past_ends = [PastEnds(moment, {}) for moment in moments]
        return past_samples(span.before, span.after.values(), span.end, past_ends)

    def _past_ends(
        self, span: _Span, moments: list[datetime], skew: timedelta
    ) -> list[PastEnds] | None:
        """Ask for the log ends at moments; None if nobody answers."""
        since = moments[0].isoformat(timespec="seconds")
        # Records have the time of the brokers' clock.
        asked_ms = [moment_ms(at + skew) for at in (span.end + _FUTURE, *reversed(moments))]
        try:
            rounds = self.client.past_ends(span.after.keys(), asked_ms)
        except (ConfigurationError, TimeoutError) as error:
            if not span.attempts:
                logger.info(
                    "cannot ask for the log ends since %(since)s: %(error)s; retrying",
                    {"since": since, "error": first_line(error)},
                )
            return None
        if not rounds:
            return None
        future, *past = rounds
        usable = {at for at in span.after if future.get(at, 0) is None}
        logger.info(
            "asked for the ends of %(logs)s logs since %(since)s, at %(moments)s moments without "
            "samples",
            {"logs": len(usable), "since": since, "moments": len(past)},
        )
        past += [{}] * (len(moments) - len(past))
        return [
            PastEnds(moment, {at: end for at, end in log_ends.items() if at in usable})
            for moment, log_ends in zip(moments, reversed(past), strict=True)
        ]
