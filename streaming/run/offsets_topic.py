"""Finds the topic `__consumer_offsets` of a cluster, or waits until the cluster creates it."""

from __future__ import annotations

import logging
import threading
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Final

from streaming.errors import ConfigurationError, TopicMissing
from streaming.kafka.fetch import LogClient
from streaming.kafka.leaders import LogDescription
from streaming.run.settings import RunSettings

if TYPE_CHECKING:
    from streaming.run.monitoring.run_monitor import RunMonitor

logger = logging.getLogger(__name__)

_TOPIC_POLL_S: Final = 2.0


def find_log(
    settings: RunSettings, kafka_config: dict[str, object]
) -> tuple[LogDescription | None, str]:
    """Return the log and the cluster id; the log is None if the topic does not exist yet."""
    try:
        log = _describe(settings, kafka_config)
    except TopicMissing as missing:
        then = "the tables stay empty" if settings.available_now else "waiting for it"
        logger.warning("%(missing)s; %(then)s", {"missing": missing, "then": then})
        return None, missing.cluster_id
    return log, log.cluster_id


def await_log(
    settings: RunSettings,
    kafka_config: dict[str, object],
    monitor: RunMonitor,
    stop: threading.Event,
) -> LogDescription | None:
    """Return the log once the topic exists, None if `stop` is set first.

    Raises:
        ConfigurationError: see `LogClient`.
    """
    while not stop.wait(_TOPIC_POLL_S):
        monitor.triggered()
        # The cluster has already answered, so the full retry timeout applies.
        with suppress(TopicMissing, TimeoutError):
            return _describe(settings, kafka_config, has_worked=True, stop=stop)
    return None


def _describe(
    settings: RunSettings,
    kafka_config: dict[str, object],
    *,
    has_worked: bool = False,
    stop: threading.Event | None = None,
) -> LogDescription:
    client = LogClient(
        settings.bootstrap_servers,
        kafka_config,
        has_worked=has_worked,
        stop=stop,
    )
    with closing(client):
        log = client.describe()
    unknown = set(settings.log_partitions or ()) - set(log.leaders)
    if unknown:
        raise ConfigurationError(
            f"--log-partitions: __consumer_offsets has {len(log.leaders)} partitions, but no "
            f"{', '.join(str(number) for number in sorted(unknown))}"
        )
    return log
