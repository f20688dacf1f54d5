"""Which samples of a log to keep: of a run of equal ones the first and the last.

Between two samples that were kept nothing else was seen, so any moment can be told from the table
as it could from all the samples. A run that does not end is confirmed from time to time: how old
the newest sample is says how fresh the table is, and a crash forgets no more than that.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from streaming.kafka.log_offsets import LogOffsets, TopicPartition

CONFIRM_EVERY: Final = timedelta(seconds=60)


class Sample(NamedTuple):
    """What was seen when."""

    sampled_at: datetime
    offsets: LogOffsets


class _Run(NamedTuple):
    offsets: LogOffsets
    kept_at: datetime
    seen_at: datetime


@dataclass(slots=True)
class SampleRuns:
    """The run of each topic partition that goes on."""

    _runs: dict[TopicPartition, _Run] = field(default_factory=dict)

    def keep(self, sampled_at: datetime, offsets: Iterable[LogOffsets]) -> list[Sample]:
        """Take note of one round of samples; give those to keep, in order of time."""
        ended: list[Sample] = []
        begun: list[Sample] = []
        runs: dict[TopicPartition, _Run] = {}
        for found in offsets:
            at = TopicPartition(found.topic, found.partition)
            run = self._runs.get(at)
            if run is not None and run.offsets == found:
                if sampled_at - run.kept_at < CONFIRM_EVERY:
                    runs[at] = run._replace(seen_at=sampled_at)
                    continue
            elif run is not None and run.seen_at > run.kept_at:
                ended.append(Sample(run.seen_at, run.offsets))
            begun.append(Sample(sampled_at, found))
            runs[at] = _Run(found, kept_at=sampled_at, seen_at=sampled_at)
        self._runs = runs
        return ended + begun
