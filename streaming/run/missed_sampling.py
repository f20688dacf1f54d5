"""Samples for the times in which `run` took none: it was stopped, or had not begun to sample a log.

The samples of such a time come from requests by timestamp, see `streaming.lag.past_samples`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from coordinator_state.insight.lag import PRESENT
from coordinator_state.records.internal_topics import OTHER_TOPICS
from coordinator_state.replay.partitioner import OFFSETS_TOPIC
from streaming.clock import moment_ms
from streaming.errors import ConfigurationError, first_line
from streaming.kafka.log_offsets import LogOffsetsClient
from streaming.kafka.partition_offsets import LogOffsets, TopicPartition
from streaming.lag.past_samples import PastEnds, missed_moments, past_samples
from streaming.lag.sample_runs import Sample

logger = logging.getLogger(__name__)

_LEAST_GAP: Final = timedelta(seconds=15)
_USUAL: Final = 3
"""Samples are missing if the next ones are so many times later than usual."""
_INTERNAL_TOPICS: Final = frozenset({OFFSETS_TOPIC, *OTHER_TOPICS})

Samples = Mapping[TopicPartition, LogOffsets]


@dataclass(slots=True)
class MissedSampling:
    """The samples that are missing before each round of samples."""

    client: LogOffsetsClient
    _sampled_at: datetime | None = None
    _samples: Samples = field(default_factory=dict)
    _spacing: timedelta = timedelta()
    _seen: set[TopicPartition] = field(default_factory=set)

    def continue_from(self, sampled_at: datetime, samples: Samples) -> None:
        """Take over the last samples of an earlier run."""
        self._sampled_at, self._samples, self._seen = sampled_at, samples, set(samples)

    def before(self, sampled_at: datetime, samples: Samples, skew: timedelta) -> list[Sample]:
        """Ask for the log ends since the last round, or of earlier times for logs that are new.

        A failure leaves the time without samples.

        Args:
            sampled_at: the time of a round of samples.
            samples: the logs of the round.
            skew: how far the brokers' clock is ahead.
        """
        last_at, last = self._sampled_at, self._samples
        present = {
            at: sample
            for at, sample in samples.items()
            if sample.state == PRESENT and at.topic not in _INTERNAL_TOPICS
        }
        spans: list[tuple[datetime | None, Samples]] = [
            (None, {at: sample for at, sample in present.items() if at not in self._seen})
        ]
        if last_at is not None and sampled_at - last_at > max(_LEAST_GAP, _USUAL * self._spacing):
            spans.append((last_at, {at: present[at] for at in present.keys() & last.keys()}))
        elif last_at is not None:
            self._spacing = sampled_at - last_at
        self._sampled_at, self._samples = sampled_at, samples
        self._seen |= samples.keys()
        return [
            sample
            for begin, logs in spans
            if logs
            for sample in past_samples(
                last if begin else {},
                logs.values(),
                sampled_at,
                self._past_ends(begin, sampled_at, logs, skew),
            )
        ]

    def _past_ends(
        self, begin: datetime | None, end: datetime, logs: Samples, skew: timedelta
    ) -> list[PastEnds]:
        moments = missed_moments(begin, end, len(logs))
        if not moments:
            return []
        since = moments[0].isoformat(timespec="seconds")
        try:
            # Records have the time of the brokers' clock.
            rounds = self.client.past_ends(logs, [moment_ms(at + skew) for at in moments])
        except (ConfigurationError, TimeoutError) as error:
            logger.info(
                "cannot ask for the log ends since %(since)s: %(error)s",
                {"since": since, "error": first_line(error)},
            )
            return []
        logger.info(
            "asked for the ends of %(logs)s logs since %(since)s, at %(moments)s moments without "
            "samples",
            {"logs": len(logs), "since": since, "moments": len(moments)},
        )
        return [PastEnds(*each) for each in zip(moments, rounds, strict=True)]
