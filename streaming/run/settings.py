"""The settings of a run, declared once for the command line and the Python API.

The command `run` makes its options from the fields of `RunSettings`, so this module imports only
packages that the wheel itself requires: `run --help` works without the `streaming` extra.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from coordinator_state.insight.group_status import StatusRules
from coordinator_state.records.internal_topics import INTERNAL_TOPICS, OFFSETS_TOPIC, OTHER_TOPICS
from streaming.errors import ConfigurationError
from streaming.external.external_group import FORM, ExternalGroup
from streaming.kafka.secrets import require_no_login, require_no_secret
from streaming.source import MOST_RECORDS_PER_TRIGGER
from streaming.tables.durations import (
    DEFAULT_HISTORY_RESOLUTION,
    DEFAULT_HISTORY_RETENTION,
    parse_duration,
    parse_history_resolution,
    parse_history_retention,
)
from streaming.tables.locations import is_schema_name, local_path
from streaming.tables.status_rules import parse_status_rules

SemanticsOption = Literal["auto", "coordinator", "scala"]
HistoryMode = Literal["off", "sampled", "all"]
EngineOption = Literal["auto", "driver", "spark"]
LagTopics = Literal["read", "all"]

ALL_TOPICS = "all"

_DATABASE = re.compile(r"\w+(\.\w+)?", re.ASCII)


def _checked_interval(interval: str) -> str:
    parse_duration(interval)
    return interval


def _checked_interval_or_off(interval: str) -> str:
    if interval != "off":
        try:
            parse_duration(interval)
        except ValueError as error:
            raise ValueError(f"{error}, or off") from error
    return interval


def _checked_history_retention(interval: str) -> str:
    parse_history_retention(interval)
    return interval


def _checked_resolution(resolution: str) -> str:
    parse_history_resolution(resolution)
    return resolution


def _checked_topics(topics: str) -> str:
    if topics == ALL_TOPICS:
        return topics
    names = [name.strip() for name in topics.split(",")]
    for name in names:
        if name not in INTERNAL_TOPICS:
            raise ValueError(
                f"{name!r} is not one of {', '.join(INTERNAL_TOPICS)}; use all without other names"
            )
    if OFFSETS_TOPIC not in names:
        raise ValueError(f"{OFFSETS_TOPIC} is missing: `run` always follows it, so add it")
    return ",".join(name for name in INTERNAL_TOPICS if name in names)


def _checked_status_rules(limits: Any) -> Any:
    return parse_status_rules(limits) if isinstance(limits, Mapping) else limits


def _checked_external(group: str) -> str:
    ExternalGroup.parse(group)
    return group


def _checked_catalog(database: str) -> str:
    if not _DATABASE.fullmatch(database):
        raise ValueError(f"{database!r} is not DATABASE or CATALOG.DATABASE")
    return database


def _checked_servers(servers: str) -> str:
    require_no_login(servers)
    for server in servers.split(","):
        _, colon, port = server.strip().rpartition(":")
        if not colon or not port.isdigit() or not 0 < int(port) < 1 << 16:
            raise ValueError(f"{server.strip()!r} is not HOST:PORT")
    return servers


def _checked_endpoint(url: str) -> str:
    try:
        parts = urlsplit(url)
        is_good = parts.scheme in {"http", "https"} and bool(parts.hostname)
    except ValueError:
        # The error quotes the address, which may have a password.
        is_good = False
    if not is_good:
        raise ValueError("it must begin with http:// or https:// and a host")
    if "@" in parts.netloc:
        raise ValueError(
            "it must not contain a user or password: set OPENLINEAGE_API_KEY, or use "
            "--openlineage-key-file"
        )
    return url


def _refuse_secrets(kafka: Any) -> None:
    """Refuse secrets before pydantic validates the settings: its errors quote values."""
    if not isinstance(kafka, Mapping):
        raise ConfigurationError("--kafka: not a mapping of Kafka properties")
    try:
        require_no_secret({str(k): v if isinstance(v, str) else str(v) for k, v in kafka.items()})
    except ConfigurationError as error:
        raise ConfigurationError(f"--kafka: {error}") from None


def _default_checkpoint(tables: str) -> Path:
    """The folder `checkpoints/NAME` beside the tables folder NAME, or in the working directory."""
    name = PurePosixPath(tables).name or "tables"
    folder = local_path(tables)
    return (Path.cwd() if folder is None else folder.parent) / "checkpoints" / name


def _metavar(text: str) -> Any:
    """The placeholder of a setting's value in `--help`."""
    return Field(json_schema_extra={"metavar": text})


HistoryRetention = Annotated[str, AfterValidator(_checked_history_retention), _metavar("INTERVAL")]
Resolution = Annotated[str, AfterValidator(_checked_resolution), _metavar("INTERVALS")]
Interval = Annotated[str, AfterValidator(_checked_interval), _metavar("INTERVAL")]
IntervalOrOff = Annotated[str, AfterValidator(_checked_interval_or_off), _metavar("INTERVAL")]
BootstrapServers = Annotated[str, AfterValidator(_checked_servers)]
Endpoint = Annotated[str, AfterValidator(_checked_endpoint)]
Catalog = Annotated[str, AfterValidator(_checked_catalog)]
LogPartition = Annotated[int, Field(ge=0)]
External = Annotated[str, AfterValidator(_checked_external), _metavar(FORM)]
Topics = Annotated[str, AfterValidator(_checked_topics), _metavar("TOPICS")]


class RunSettings(BaseModel):
    """The settings of `coordinator-state run`; the fields are its options.

    A secret in `kafka` must come from a file or an environment variable
    (`sasl.plain.password.file`), since Spark shows options.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    # Other commands share the options without a description: streaming/cli/options.py.
    bootstrap_servers: BootstrapServers
    tables: str = Field(min_length=1)
    checkpoint: Annotated[str, _metavar("DIR")] = Field(
        default="",
        description="Folder of the query's checkpoint. [default: checkpoints/NAME beside the "
        "tables folder NAME; for tables in an object store, in the working directory]",
    )
    trigger: Interval = Field(
        default="1 second", description="Time between the starts of two micro-batches."
    )
    lag_interval: IntervalOrOff = Field(
        default="5 seconds",
        description="Shortest time between two offset samples of the topics that groups read, in "
        "log_offsets; or off. A round of up to 12 s takes at most a fifth of the time.",
    )
    evaluation_interval: IntervalOrOff = Field(
        default="5 seconds",
        description="Shortest time between two evaluations of lag and status, in group_lag, "
        "group_status and status_changes; or off. An evaluation takes at most a tenth of a core. "
        "This program's readers do not use rows that are older than two minutes.",
    )
    status_rules: Annotated[StatusRules, BeforeValidator(_checked_status_rules)] = Field(
        default=StatusRules(),
        description="Limit of the statuses, such as stop_after=2m or rebalances=10; repeatable. "
        "docs/status.md lists them.",
    )
    lag_topics: LagTopics = Field(
        default="read",
        description="Topics to sample: read (those that groups read), or all (also topics "
        "that no group reads).",
    )
    snapshot_retention: Interval = Field(
        default="6 minutes",
        description="How long every snapshot is kept as files. Older moments are rebuilt from the "
        "history.",
    )
    history_retention: HistoryRetention = DEFAULT_HISTORY_RETENTION
    upkeep_interval: IntervalOrOff = Field(
        default="10 minutes",
        description="Time between two rounds of maintenance, which deletes old files and compacts "
        "small ones; or off, to use `maintain`.",
    )
    available_now: bool = Field(
        default=False, description="Read up to the current high watermarks, then stop."
    )
    semantics: SemanticsOption = Field(
        default="auto",
        description="Rules for loading the log: coordinator (Kafka 4), scala (Kafka 2 and 3), or "
        "auto, which asks the cluster.",
    )
    history: HistoryMode = Field(
        default="sampled",
        description="Commits that offset_commits keeps: none, at least the last one of each key "
        "in each interval of the resolution, or all.",
    )
    history_resolution: Resolution = Field(
        default=DEFAULT_HISTORY_RESOLUTION,
        description="Intervals of sampled history: INTERVAL/AGE for records younger than the age, "
        "and one interval for all older records.",
    )
    max_records_per_trigger: int | None = Field(
        default=None,
        ge=1,
        description="Maximum records of a micro-batch. [default: an estimate of how many fit in "
        f"memory, at most {MOST_RECORDS_PER_TRIGGER}]",
    )
    max_bytes_per_trigger: int | None = Field(
        default=None,
        ge=1,
        description="Maximum estimated bytes of a micro-batch. [default: no limit]",
    )
    log_partitions: tuple[LogPartition, ...] | None = None
    topics: Topics = Field(
        default=ALL_TOPICS,
        description="Internal topics to follow: a list such as "
        "__consumer_offsets,__transaction_state, or all. The value all means __consumer_offsets, "
        "and also __transaction_state and __share_group_state if the ACLs allow them.",
    )
    external: tuple[External, ...] = Field(
        default=(),
        description="Group to read from the checkpoint of a Spark query that reads Kafka; "
        "repeatable. The path may be an address of an object store.",
    )
    change_data_feed: bool = Field(
        default=False, description="Turn on Delta's change data feed for new tables."
    )
    catalog: Annotated[Catalog | None, _metavar("[CATALOG.]DATABASE")] = Field(
        default=None,
        description="Also register the tables in a database of a Spark catalog: the Hive metastore "
        "of hive-site.xml in SPARK_CONF_DIR, or another catalog that is configured there.",
    )
    retry_timeout: Interval = Field(
        default="10 minutes",
        description="How long the query retries unreachable brokers before it fails and is "
        "restarted.",
    )
    max_restarts: int = Field(
        default=10,
        ge=0,
        description="Maximum restarts of a failed query without a finished micro-batch in between. "
        "Failures caused by unreachable brokers or tables do not count, unless this is 0 or "
        "--available-now is set.",
    )
    http_port: int | None = Field(
        default=None,
        ge=0,
        le=65_535,
        description="Serve /metrics, /health and /ready on this port; 0 takes any free port. "
        "[default: off]",
    )
    http_host: str = Field(
        default="127.0.0.1",
        description="Address on which --http-port listens; 0.0.0.0 for all interfaces.",
    )
    openlineage: Annotated[Endpoint | None, _metavar("URL")] = Field(
        default=None,
        description="Send OpenLineage events to this catalogue: which groups read which topics, "
        "and this run. A URL without a path gets /api/v1/lineage. The API key is in the "
        "environment variable OPENLINEAGE_API_KEY, or see --openlineage-key-file. [default: off]",
    )
    openlineage_key_file: Annotated[str | None, _metavar("PATH")] = Field(
        default=None, description="File with the API key of the catalogue."
    )
    health_timeout: Interval = Field(
        default="10 minutes",
        description="How long a micro-batch may take before /health reports that the query hangs.",
    )
    master: str = Field(default="local[2]", description="The Spark master.")
    engine: EngineOption = Field(
        default="auto",
        description="Where micro-batches are planned and written: driver (this process, with "
        "delta-rs) or spark (the executors, with Delta Lake on Spark). The value auto chooses by "
        "master and tables.",
    )
    deletion_vectors: bool = Field(
        default=False,
        description="Let the engine spark mark rows as deleted instead of rewriting their files. "
        "It writes fewer bytes, but fewer programs can read the tables.",
    )
    kafka: dict[str, str] = Field(default_factory=dict, repr=False)

    @model_validator(mode="before")
    @classmethod
    def _without_secrets(cls, options: Any) -> Any:
        if isinstance(options, Mapping) and "kafka" in options:
            _refuse_secrets(options["kafka"])
        return options

    @field_validator("tables", "checkpoint")
    @classmethod
    def _absolute(cls, folder: str, info: ValidationInfo) -> str:
        """Make a path absolute, since Spark's processes have other working directories.

        The address of a store and the name of a schema are unchanged.
        """
        is_name = info.field_name == "tables" and is_schema_name(folder)
        path = local_path(folder) if folder and not is_name else None
        return folder if path is None else str(path)

    @field_validator("catalog")
    @classmethod
    def _names_once(cls, database: str | None, info: ValidationInfo) -> str | None:
        if database is not None and is_schema_name(info.data.get("tables", "")):
            raise ValueError(
                f"--tables {info.data['tables']} already names a schema for the tables"
            )
        return database

    def model_post_init(self, _context: Any) -> None:
        """Set the default of `checkpoint`, which depends on another field.

        It is unknown until the tables have a folder.
        """
        if not self.checkpoint and not is_schema_name(self.tables):
            object.__setattr__(self, "checkpoint", str(_default_checkpoint(self.tables)))

    @field_validator("external")
    @classmethod
    def _is_sampled(cls, groups: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        if groups and info.data.get("lag_interval") == "off":
            raise ValueError(
                "its offsets are read with the offset samples: remove --lag-interval off"
            )
        ids = [ExternalGroup.parse(group).group_id for group in groups]
        for group_id in ids:
            if ids.count(group_id) > 1:
                raise ValueError(f"two external groups have the name {group_id}")
        return groups

    @property
    def external_groups(self) -> tuple[ExternalGroup, ...]:
        """The groups of `external`."""
        return tuple(map(ExternalGroup.parse, self.external))

    @property
    def other_topics(self) -> tuple[str, ...]:
        """The internal topics to follow besides `__consumer_offsets`."""
        if self.topics == ALL_TOPICS:
            return OTHER_TOPICS
        return tuple(name for name in OTHER_TOPICS if name in self.topics.split(","))

    def in_folder(self, tables: str) -> RunSettings:
        """These settings once the tables folder of the schema that `tables` names is known."""
        known = {"tables": tables, "catalog": self.tables}
        return RunSettings(**dict(self) | known)

    @classmethod
    def checked(
        cls, /, *, named: Callable[[str], str] | None = None, **options: Any
    ) -> RunSettings:
        """Build settings from options; an option that is None has its default.

        Raises:
            ConfigurationError: one line that names each wrong option, by default as on the command
                line; `named` gives another name for a field.
        """
        try:
            return cls(**{name: value for name, value in options.items() if value is not None})
        except ValidationError as error:
            faults = "; ".join(
                _fault(named or _option_of, **fault) for fault in error.errors(include_input=False)
            )
            raise ConfigurationError(faults) from None


def _option_of(field: str) -> str:
    return f"--{field.replace('_', '-')}"


def _fault(
    named: Callable[[str], str],
    *,
    loc: tuple[int | str, ...],
    msg: str,
    type: str,
    **_rest: Any,
) -> str:
    field = str(loc[0])
    if type == "missing":
        return f"{_option_of(field)} is missing"
    if type == "extra_forbidden":
        return f"there is no option {_option_of(field)}"
    return f"{named(field)}: {msg.removeprefix('Value error, ')}"
