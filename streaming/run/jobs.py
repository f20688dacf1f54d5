"""Background jobs of a run: offset samples, evaluations, maintenance and OpenLineage events."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from coordinator_state.records.internal_topics import OFFSETS_TOPIC
from streaming.lag.sample_runs import SampleRuns
from streaming.run.evaluation import EvaluationTasks, StatusEvaluation
from streaming.run.evaluation_rounds import EvaluationRounds
from streaming.run.external_sampling import ExternalSampling
from streaming.run.maintenance import maintain_beside_query
from streaming.run.monitoring.run_monitor import RunMonitor
from streaming.run.sampling import LogOffsetsSampling
from streaming.run.settings import RunSettings
from streaming.tables.durations import parse_duration
from streaming.tables.maintenance import tidy_up
from streaming.tables.writer import Writer

if TYPE_CHECKING:
    from streaming.lineage.reporter import LineageReporter

TIDY_UP_EVERY: Final = timedelta(seconds=30)
"""A micro-batch a second adds a file a second to each table of history, and replaces tables."""
# Not 0: with `available_now` the events are sent once, when the tables are complete.
_LINEAGE_AFTER: Final = timedelta(seconds=1)
# Keeps maintenance from slowing down the start.
_MAINTENANCE_AFTER: Final = timedelta(minutes=1)
_MOST_SHARE_OF_SAMPLES: Final = 0.2
"""Of the time. A round of samples of 50,000 partitions takes seconds, and slows down the query."""
LINEAGE_INTERVAL: Final = timedelta(seconds=10)
_BESIDE_QUERY_S: Final = 5.0
"""How long a round sends at most: the end of `run` waits for the round."""
_AFTER_QUERY_S: Final = 60.0
"""The same with `available_now`, where the only round has all groups."""


class Job(NamedTuple):
    """An action at intervals beside the query.

    With `available_now` it runs once after the query, and also before it if `first_after` is 0. The
    interval is longer if the action takes more than `most_share` of the time.
    """

    name: str
    action: Callable[[], None]
    interval: timedelta
    first_after: timedelta
    most_share: float = 1.0


def background_jobs(
    settings: RunSettings,
    writer: Writer,
    kafka_config: Mapping[str, Any],
    opened: ExitStack,
    monitor: RunMonitor,
    lineage: LineageReporter | None,
    tasks: EvaluationTasks | None = None,
) -> list[Job]:
    """Return the jobs that the settings enable; closing `opened` closes their resources.

    Without `tasks`, this process evaluates lag and status.
    """
    jobs: list[Job] = []
    if settings.lag_interval != "off":
        # The sample after a single load is the last one, so it has unchanged logs, too.
        runs = SampleRuns(timedelta(0)) if settings.available_now else SampleRuns()
        external = ExternalSampling(writer, settings.external_groups)
        sampling = LogOffsetsSampling(
            writer,
            settings.bootstrap_servers,
            kafka_config,
            monitor.metrics,
            runs,
            external,
            of_all_topics=settings.lag_topics == "all",
        )
        opened.enter_context(closing(sampling))
        interval = parse_duration(settings.lag_interval)
        if settings.external:
            # Before the logs, whose samples need the partitions.
            jobs.append(Job("external-offsets", external.sample, interval, timedelta(0)))
        jobs.append(
            Job("log-offsets", sampling.sample, interval, timedelta(0), _MOST_SHARE_OF_SAMPLES)
        )
    if settings.evaluation_interval != "off":
        interval = parse_duration(settings.evaluation_interval)
        kept = StatusEvaluation(writer, interval.total_seconds(), tasks)
        rounds = EvaluationRounds(kept, monitor.metrics)
        jobs.append(Job("evaluation", rounds.evaluate, interval, interval))
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
    if lineage is not None:
        opened.enter_context(lineage)
        jobs.append(Job("lineage", lineage.report, LINEAGE_INTERVAL, _LINEAGE_AFTER))
    return jobs


def lineage_reporter(settings: RunSettings) -> LineageReporter | None:
    """Return the reporter, None without `openlineage`.

    Raises:
        ConfigurationError: the API key cannot be read.
        ModuleNotFoundError: `openlineage-python` is not installed.
    """
    if settings.openlineage is None:
        return None
    # The package `openlineage-python` is an extra.
    from streaming.lineage.reporter import Catalogue, LineageReporter

    return LineageReporter(
        Catalogue(settings.openlineage, settings.openlineage_key_file),
        tables=settings.tables,
        bootstrap_servers=settings.bootstrap_servers,
        internal_topics=(OFFSETS_TOPIC, *settings.other_topics),
        interval_s=LINEAGE_INTERVAL.total_seconds(),
        round_s=_AFTER_QUERY_S if settings.available_now else _BESIDE_QUERY_S,
    )
