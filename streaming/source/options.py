"""The options of the `coordinator_log` source, which Spark passes as strings."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from coordinator_state.log.commit_sampling import CommitSampling, HistoryResolution, Resolution
from coordinator_state.records.internal_topics import OFFSETS_TOPIC
from streaming.errors import ConfigurationError
from streaming.kafka.client_config import kafka_client_config
from streaming.kafka.secrets import require_no_secret
from streaming.kafka.seen_log import OffsetAndEpoch

_KAFKA: Final = "kafka."
_BOOTSTRAP_SERVERS: Final = "kafka.bootstrap.servers"
_HISTORIES: Final = ("off", "sampled", "all")
_DEFAULT_HISTORY: Final = "sampled"
_DEFAULT_TASKS: Final = 2
DEFAULT_LONG_POLL_MS: Final = 2_000
_OPTIONS: Final = (
    "history",
    "history_resolution",
    "log_partitions",
    "long_poll_ms",
    "max_bytes_per_trigger",
    "max_records_per_trigger",
    "other_topics",
    "packed",
    "planning_tasks",
    "retry_timeout_ms",
    "start_offsets",
    "tasks",
    "topic",
)


@dataclass(frozen=True, slots=True)
class FollowedTopic:
    """A topic that a query reads: its log partitions (all if empty), and where they start.

    `is_other` is false only for `__consumer_offsets`, whose load no other topic may stop.
    """

    name: str
    log_partitions: tuple[int, ...] = ()
    start_offsets: Mapping[int, OffsetAndEpoch] = field(default_factory=dict)
    is_other: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """The options set by `readStream.option`.

    Attributes:
        bootstrap_servers: option `kafka.bootstrap.servers`.
        kafka: options `kafka.<property>`, by their names without the prefix.
        topic: the topic to read.
        max_records_per_trigger: the most offsets of each topic that a micro-batch spans; by default
            as many as are estimated to fit in memory, see `streaming.source.log_sample`.
        max_bytes_per_trigger: the most bytes of a micro-batch, by an estimate of the bytes per
            offset.
        packed: whether rows have `PACKED_ROW_SCHEMA`.
        history: with `all` the source returns every commit, even superseded ones.
        history_resolution: the intervals of time in which it returns the last commit of each key.
        tasks: the most tasks of a micro-batch.
        planning_tasks: the tasks that share the rows of a micro-batch, and the memory for them;
            by default 1, because the driver has all rows.
        log_partitions: the log partitions to read of `topic`; all if empty.
        start_offsets: log partition of `topic` -> offset, or a list as in the offsets of the
            source; records below it are neither returned nor counted.
        other_topics: the other internal topics to read, as JSON: topic -> `log_partitions` (a list)
            and `start_offsets`.
        retry_timeout_ms: how long fetches from unreachable brokers are retried, including the first
            contact; by default 10 minutes, and 15 seconds for the first contact.
        long_poll_ms: how long planning waits for new records before it reports that there are none.
    """

    bootstrap_servers: str
    kafka: Mapping[str, str] = field(default_factory=dict, repr=False)
    topic: str = OFFSETS_TOPIC
    max_records_per_trigger: int | None = None
    max_bytes_per_trigger: int | None = None
    packed: bool = False
    history: str = _DEFAULT_HISTORY
    history_resolution: HistoryResolution = field(default_factory=HistoryResolution)
    tasks: int = _DEFAULT_TASKS
    planning_tasks: int = 1
    log_partitions: tuple[int, ...] = ()
    start_offsets: Mapping[int, OffsetAndEpoch] = field(default_factory=dict)
    other_topics: tuple[FollowedTopic, ...] = ()
    long_poll_ms: int = DEFAULT_LONG_POLL_MS
    retry_timeout_ms: int | None = None

    def sampling(self, read_at_ms: int) -> CommitSampling | None:
        """The commits of a read that are kept, besides those of `log_decoder`; None for all."""
        if self.history == "all":
            return None
        return CommitSampling.at(read_at_ms, self.history_resolution)

    @property
    def topics(self) -> tuple[FollowedTopic, ...]:
        """The topics to read; the first one is that of offsets."""
        offsets_topic = FollowedTopic(self.topic, self.log_partitions, self.start_offsets)
        return offsets_topic, *self.other_topics

    @classmethod
    def read(cls, options: Mapping[str, str]) -> SourceOptions:
        """Read Spark's options.

        Raises:
            ConfigurationError: an option is unknown or has a wrong value.
        """
        texts = {name.lower(): text for name, text in options.items()}
        bootstrap_servers = texts.pop(_BOOTSTRAP_SERVERS, "").strip()
        if not bootstrap_servers:
            raise ConfigurationError(f"option {_BOOTSTRAP_SERVERS} is missing: set it to HOST:PORT")
        kafka = {
            name.removeprefix(_KAFKA): text
            for name, text in texts.items()
            if name.startswith(_KAFKA)
        }
        require_no_secret(kafka)
        kafka_client_config(kafka)
        own = {name: text for name, text in texts.items() if not name.startswith(_KAFKA)}
        unknown = sorted(set(own) - set(_OPTIONS))
        if unknown:
            raise ConfigurationError(
                f"unknown option {unknown[0]!r} of the source; known: {', '.join(_OPTIONS)}"
            )
        history = own.get("history", _DEFAULT_HISTORY)
        if history not in _HISTORIES:
            raise ConfigurationError(f"option history must be one of {', '.join(_HISTORIES)}")
        return cls(
            bootstrap_servers=bootstrap_servers,
            kafka=kafka,
            topic=own.get("topic", OFFSETS_TOPIC),
            max_records_per_trigger=_whole_or_none(own, "max_records_per_trigger"),
            max_bytes_per_trigger=_whole_or_none(own, "max_bytes_per_trigger"),
            packed=_boolean(own, "packed"),
            history=history,
            history_resolution=_resolution(own.get("history_resolution")),
            tasks=_whole(own, "tasks", _DEFAULT_TASKS),
            planning_tasks=_whole(own, "planning_tasks", 1),
            log_partitions=_log_partitions(own.get("log_partitions", "")),
            start_offsets=_start_offsets(own.get("start_offsets", "{}")),
            other_topics=_other_topics(own.get("other_topics", "{}")),
            retry_timeout_ms=_whole_or_none(own, "retry_timeout_ms"),
            long_poll_ms=_whole(own, "long_poll_ms", DEFAULT_LONG_POLL_MS, at_least=0),
        )


def _resolution(text: str | None) -> HistoryResolution:
    if text is None:
        return HistoryResolution()
    try:
        steps, oldest_interval_ms = json.loads(text)
        return HistoryResolution(
            tuple(Resolution(*map(int, step)) for step in steps), int(oldest_interval_ms)
        )
    except (ValueError, TypeError, OverflowError) as error:
        raise ConfigurationError(
            "option history_resolution must be a list of intervals in milliseconds, each with the "
            f"age up to which it counts, and the interval of older records, not {text!r}"
        ) from error


def _whole(options: Mapping[str, str], name: str, default: int, *, at_least: int = 1) -> int:
    text = options.get(name, str(default))
    try:
        number = int(text)
    except ValueError:
        number = at_least - 1
    if number < at_least:
        raise ConfigurationError(
            f"option {name} must be a whole number of at least {at_least}, not {text!r}"
        )
    return number


def _whole_or_none(options: Mapping[str, str], name: str) -> int | None:
    return _whole(options, name, 1) if name in options else None


def _boolean(options: Mapping[str, str], name: str) -> bool:
    text = options.get(name, "false").lower()
    if text not in ("true", "false"):
        raise ConfigurationError(f"option {name} must be true or false, not {text!r}")
    return text == "true"


def _log_partitions(text: str) -> tuple[int, ...]:
    try:
        return tuple(sorted({int(part) for part in text.split(",") if part.strip()}))
    except ValueError as error:
        raise ConfigurationError(
            f"option log_partitions must be a list of numbers such as '0,7', not {text!r}"
        ) from error


def _other_topics(text: str) -> tuple[FollowedTopic, ...]:
    try:
        return tuple(
            FollowedTopic(
                name,
                tuple(sorted(map(int, of_topic["log_partitions"]))),
                _offsets(of_topic["start_offsets"]),
                is_other=True,
            )
            for name, of_topic in json.loads(text).items()
        )
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise ConfigurationError(
            'option other_topics must be JSON like {"__transaction_state": {"log_partitions": [0], '
            f'"start_offsets": {{"0": [42, 5]}}}}}}, not {text!r}'
        ) from error


def _offsets(starts: Mapping[str, Any]) -> dict[int, OffsetAndEpoch]:
    return {
        int(p): OffsetAndEpoch.of(at if isinstance(at, list) else [at]) for p, at in starts.items()
    }


def _start_offsets(text: str) -> dict[int, OffsetAndEpoch]:
    try:
        return _offsets(json.loads(text))
    except (AttributeError, IndexError, TypeError, ValueError) as error:
        raise ConfigurationError(
            f'option start_offsets must be JSON like {{"0": 42}} or {{"0": [42, 5]}}, not {text!r}'
        ) from error
