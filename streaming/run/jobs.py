"""Background jobs of a run: offset samples and maintenance."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing
from datetime import timedelta
from functools import partial
from typing import Final, NamedTuple

from streaming.lag.sample_runs import SampleRuns
from streaming.run.maintenance import maintain_beside_query
from streaming.run.monitoring.run_monitor import RunMonitor
from streaming.run.sampling import LogOffsetsSampling
from streaming.run.settings import RunSettings
from streaming.tables.durations import parse_duration
from streaming.tables.maintenance import tidy_up
from streaming.tables.writer import Writer

TIDY_UP_EVERY: Final = timedelta(seconds=30)
"""A micro-batch a second adds a file a second to each table of history, and replaces tables."""
# Keeps maintenance from slowing down the start.
_MAINTENANCE_AFTER: Final = timedelta(minutes=1)


class Job(NamedTuple):
    """An action at intervals beside the query.

    With `available_now` it runs once after the query, and also before it if `first_after` is 0.
    """

    name: str
    action: Callable[[], None]
    interval: timedelta
    first_after: timedelta


def background_jobs(
    settings: RunSettings,
    writer: Writer,
    kafka_config: dict[str, object],
    opened: ExitStack,
    monitor: RunMonitor,
) -> list[Job]:
    """Return the jobs that the settings enable; closing `opened` closes their resources."""
    jobs: list[Job] = []
    if settings.lag_interval != "off":
        # The sample after a single load is the last one, so it has unchanged logs, too.
        runs = SampleRuns(timedelta(0)) if settings.available_now else SampleRuns()
        sampling = LogOffsetsSampling(
            writer, settings.bootstrap_servers, kafka_config, monitor.metrics, runs
        )
        opened.enter_context(closing(sampling))
        interval = parse_duration(settings.lag_interval)
        jobs.append(Job("log-offsets", sampling.sample, interval, timedelta(0)))
    if settings.upkeep_interval != "off":
        retention = parse_duration(settings.history_retention)

        def maintain() -> None:
            monitor.metrics.maintained(maintain_beside_query(writer.epoch, retention))

        interval = parse_duration(settings.upkeep_interval)
        jobs.append(Job("maintenance", maintain, interval, min(interval, _MAINTENANCE_AFTER)))
        if interval > TIDY_UP_EVERY:
            jobs.append(
                Job(
                    "compaction",
                    partial(tidy_up, writer.epoch),
                    TIDY_UP_EVERY,
                    TIDY_UP_EVERY,
                )
            )
    return jobs
