"""The options of the source, from the settings of a run and the start of a query."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import astuple
from datetime import timedelta
from typing import Any

from streaming.reload.doubts import read_up_to
from streaming.run.session import EngineName
from streaming.run.settings import RunSettings
from streaming.run.start import Start
from streaming.tables.durations import parse_duration, parse_history_resolution
from streaming.tables.topic_progress import TopicProgress


def source_options(
    settings: RunSettings, start: Start, tasks: int, engine: EngineName
) -> dict[str, str]:
    """The options of a source that begins at the next offsets of the tables."""
    options = {f"kafka.{name}": value for name, value in settings.kafka.items()}
    options["kafka.bootstrap.servers"] = settings.bootstrap_servers
    options["history"] = settings.history
    resolution = parse_history_resolution(settings.history_resolution)
    options["history_resolution"] = json.dumps(astuple(resolution))
    options["tasks"] = str(tasks)
    options["planning_tasks"] = str(tasks if engine == "spark" else 1)
    options["start_offsets"] = json.dumps(_start_offsets(start.progress, start.log_partitions))
    options["log_partitions"] = ",".join(map(str, sorted(start.log_partitions)))
    options["other_topics"] = json.dumps(
        {
            other_topic.log.topic: {
                "log_partitions": sorted(other_topic.log_partitions),
                "start_offsets": _start_offsets(other_topic.progress, other_topic.log_partitions),
            }
            for other_topic in start.others.followed
        }
    )
    options["packed"] = "true"
    retry_timeout = parse_duration(settings.retry_timeout)
    options["retry_timeout_ms"] = str(max(1, retry_timeout // timedelta(milliseconds=1)))
    if settings.max_records_per_trigger is not None:
        options["max_records_per_trigger"] = str(settings.max_records_per_trigger)
    if settings.max_bytes_per_trigger is not None:
        options["max_bytes_per_trigger"] = str(settings.max_bytes_per_trigger)
    return options


def _start_offsets(
    progress: TopicProgress, log_partitions: Collection[int]
) -> dict[str, list[Any]]:
    """The next offset and epochs of each log partition that does not start at its start."""
    return {
        str(p): read_up_to(row).values
        for p, row in progress.rows.items()
        if p in log_partitions and row.is_begun and not row.is_reloading
    }
