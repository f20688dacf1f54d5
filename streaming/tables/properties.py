"""The properties of a tables folder: those of its table `load_progress`."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import Final

from coordinator_state.insight.group_status import StatusRules
from coordinator_state.log.commit_sampling import HistoryResolution
from coordinator_state.replay.releases import Release
from streaming.errors import ConfigurationError
from streaming.tables.durations import DEFAULT_HISTORY_RESOLUTION, parse_history_resolution
from streaming.tables.schemas import (
    HISTORY_ALL,
    PROPERTY_CLUSTER_ID,
    PROPERTY_EXTERNAL,
    PROPERTY_FORMAT_VERSION,
    PROPERTY_HISTORY,
    PROPERTY_HISTORY_RESOLUTION,
    PROPERTY_KAFKA_RELEASE,
    PROPERTY_LOG_PARTITIONS,
    PROPERTY_OFFSETS_RETENTION_MS,
    PROPERTY_SEMANTICS,
    PROPERTY_STATUS_RULES,
    PROPERTY_TOPIC_ID,
)
from streaming.tables.status_rules import status_rules_of

LOG_RETENTION: Final = "delta.logRetentionDuration"
_RELEASE_BEFORE_FORMAT_8: Final = "4.2"


def snapshot_retention(properties: Mapping[str, str]) -> timedelta | None:
    """The retention of old versions, from the properties of a table; None if they lack it."""
    match = re.fullmatch(r"interval (\d+) seconds", properties.get(LOG_RETENTION, ""))
    return None if match is None else timedelta(seconds=int(match[1]))


def release_of(properties: Mapping[str, str]) -> Release:
    """The Kafka release whose rules group records were replayed by."""
    return Release.parse(properties.get(PROPERTY_KAFKA_RELEASE, _RELEASE_BEFORE_FORMAT_8))


def history_interval_ms(properties: Mapping[str, str], age: timedelta) -> int | None:
    """The interval in which history has the offset of each key at least once.

    It is 0 for `--history all`, and None before the first run that keeps a resolution.

    Args:
        properties: those of `load_progress`.
        age: the age of the records when they were read, at most.
    """
    if properties.get(PROPERTY_HISTORY) == HISTORY_ALL:
        return 0
    text = properties.get(PROPERTY_HISTORY_RESOLUTION)
    if text is None:
        return None
    return parse_history_resolution(text).interval_ms(age // timedelta(milliseconds=1))


def limits_of(properties: Mapping[str, str]) -> StatusRules:
    """The limits of statuses in the properties of a table."""
    return status_rules_of(properties.get(PROPERTY_STATUS_RULES, "{}"))


class TableProperties:
    """The properties of a folder, with their types.

    Raises:
        ConfigurationError: a property is missing, so another program created the folder.
    """

    tables: str
    _properties: Mapping[str, str]

    @property
    def format_version(self) -> str:
        """The format version of the tables, see `streaming.tables.migration`."""
        return self._property(PROPERTY_FORMAT_VERSION)

    @property
    def cluster_id(self) -> str:
        """The id of the Kafka cluster that the tables were loaded from."""
        return self._property(PROPERTY_CLUSTER_ID)

    @property
    def topic_id(self) -> str:
        """The topic id of `__consumer_offsets`; it changes when the topic is recreated."""
        return self._property(PROPERTY_TOPIC_ID)

    @property
    def log_partitions(self) -> int:
        """The number of partitions of `__consumer_offsets`; `partition_for` needs it."""
        return int(self._property(PROPERTY_LOG_PARTITIONS))

    @property
    def semantics(self) -> str:
        """The semantics: `coordinator` or `scala`."""
        return self._property(PROPERTY_SEMANTICS)

    @property
    def release(self) -> Release:
        """The Kafka release whose rules group records were replayed by."""
        return release_of(self._properties)

    @property
    def offsets_retention_ms(self) -> int:
        """`offsets.retention.minutes` of the cluster in milliseconds, as the last run read it."""
        return int(self._property(PROPERTY_OFFSETS_RETENTION_MS))

    @property
    def properties(self) -> Mapping[str, str]:
        """The properties of `load_progress`."""
        return self._properties

    @property
    def history_mode(self) -> str | None:
        """The history mode of the last run; None before the first run of this release."""
        return self._properties.get(PROPERTY_HISTORY)

    @property
    def history_resolution(self) -> HistoryResolution:
        """The intervals of sampled history of the last run; the default before this release."""
        text = self._properties.get(PROPERTY_HISTORY_RESOLUTION, DEFAULT_HISTORY_RESOLUTION)
        return parse_history_resolution(text)

    @property
    def status_rules(self) -> StatusRules:
        """The limits of statuses of the last run."""
        return limits_of(self._properties)

    @property
    def has_external(self) -> bool:
        """Whether a run read external groups."""
        return self._properties.get(PROPERTY_EXTERNAL) == "true"

    def _take_over(self, earlier: Mapping[str, str], names: Collection[str]) -> None:
        """Use earlier values of these properties."""
        kept = {name: value for name, value in self._properties.items() if name not in names}
        self._properties = {**kept, **{name: earlier[name] for name in names if name in earlier}}

    def _property(self, name: str) -> str:
        value: str | None = self._properties.get(name)
        if value is None:
            raise ConfigurationError(
                f"load_progress in {self.tables} has no property {name}, so it was not created by "
                "coordinator-state: name another folder with --tables"
            )
        return value
