"""Selection of the samples to keep: of a run of identical samples, only the first and last.

The dropped samples equal the kept samples around them, so no information is lost. A run that does
not end is confirmed every `CONFIRM_EVERY`. The age of the newest sample then shows how fresh the
table is, and a crash loses no more than that time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from streaming.kafka.partition_offsets import LogOffsets, TopicPartition

CONFIRM_EVERY: Final = timedelta(seconds=60)
MAX_SAMPLE_AGE: Final = 1.5 * CONFIRM_EVERY
"""The newest sample of a log is at most so much older than that of any log."""


class Sample(NamedTuple):
    """The offsets of a log at a time."""

    sampled_at: datetime
    offsets: LogOffsets


class _Run(NamedTuple):
    offsets: LogOffsets
    kept_at: datetime
    seen_at: datetime


@dataclass(slots=True)
class SampleRuns:
    """The current run of each partition; a run is confirmed every `confirm_every`."""

    confirm_every: timedelta = CONFIRM_EVERY
    _runs: dict[TopicPartition, _Run] = field(default_factory=dict)

    def keep(self, sampled_at: datetime, offsets: Iterable[LogOffsets]) -> list[Sample]:
        """Add one round of samples; return the samples to keep, in order of time."""
        ended: list[Sample] = []
        begun: list[Sample] = []
        runs: dict[TopicPartition, _Run] = {}
        for log_offsets in offsets:
            at = TopicPartition(log_offsets.topic, log_offsets.partition)
            run = self._runs.get(at)
            if run is not None and run.offsets == log_offsets:
                # After the clock was set back, the sample of the future confirms nothing.
                if run.kept_at <= sampled_at < run.kept_at + self.confirm_every:
                    runs[at] = run._replace(seen_at=sampled_at)
                    continue
            elif run is not None and run.seen_at > run.kept_at:
                ended.append(Sample(run.seen_at, run.offsets))
            begun.append(Sample(sampled_at, log_offsets))
            runs[at] = _Run(log_offsets, kept_at=sampled_at, seen_at=sampled_at)
        self._runs = runs
        return ended + begun
