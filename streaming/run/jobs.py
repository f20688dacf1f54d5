"""What a run does beside its query: samples of the logs, and upkeep."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing
from datetime import timedelta
from typing import Final, NamedTuple

from streaming.run.maintenance import tidy_up_beside
from streaming.run.monitoring.run_monitor import RunMonitor
from streaming.run.sampling import LogOffsetsSampling
from streaming.run.settings import RunSettings
from streaming.tables.durations import parse_interval
from streaming.tables.writer import Writer

# A start has enough to do.
_UPKEEP_AFTER: Final = timedelta(minutes=1)


class Job(NamedTuple):
    """What is done beside the query at intervals; once, behind a query that ends by itself."""

    name: str
    action: Callable[[], None]
    interval: timedelta
    first_after: timedelta


def jobs_beside(
    settings: RunSettings,
    writer: Writer,
    kafka_config: dict[str, object],
    opened: ExitStack,
    monitor: RunMonitor,
) -> list[Job]:
    """What the settings ask for; what is opened for it is closed with `opened`."""
    jobs: list[Job] = []
    if settings.lag_interval != "off":
        sampling = LogOffsetsSampling(
            writer, settings.bootstrap_servers, kafka_config, monitor.metrics
        )
        opened.enter_context(closing(sampling))
        interval = parse_interval(settings.lag_interval)
        jobs.append(Job("log-offsets", sampling.sample, interval, timedelta(0)))
    if settings.upkeep_interval != "off":
        retention = parse_interval(settings.history_retention)

        def tidy_up() -> None:
            monitor.metrics.tidied_up(tidy_up_beside(writer.epoch, retention))

        interval = parse_interval(settings.upkeep_interval)
        jobs.append(Job("upkeep", tidy_up, interval, min(interval, _UPKEEP_AFTER)))
    return jobs
