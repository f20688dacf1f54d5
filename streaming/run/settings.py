"""The settings of a run, checked in one place for the command line and the Python API."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from streaming.errors import ConfigurationError
from streaming.kafka.secrets import require_no_login, require_no_secret
from streaming.tables.durations import parse_interval
from streaming.tables.file_systems import local_path

SemanticsOption = Literal["auto", "coordinator", "scala"]
HistoryMode = Literal["off", "sampled", "all"]

_DATABASE = re.compile(r"\w+(\.\w+)?", re.ASCII)


def _checked_interval(interval: str) -> str:
    parse_interval(interval)
    return interval


def _checked_interval_or_off(interval: str) -> str:
    if interval != "off":
        try:
            parse_interval(interval)
        except ValueError as error:
            raise ValueError(f"{error}, or off") from error
    return interval


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


def _refuse_secrets(kafka: Any) -> None:
    """Refuse secrets before pydantic validates the settings: its errors quote values."""
    if not isinstance(kafka, Mapping):
        raise ConfigurationError("--kafka: not a mapping of Kafka properties")
    try:
        require_no_secret({str(k): v if isinstance(v, str) else str(v) for k, v in kafka.items()})
    except ConfigurationError as error:
        raise ConfigurationError(f"--kafka: {error}") from None


class RunSettings(BaseModel):
    """The settings of `coordinator-state run`; the fields are its options.

    - `checkpoint`: default `checkpoints/<name of the tables folder>`.
    - `log_partitions`: default all.
    - `kafka`: Kafka client properties by Kafka's names. A secret must come from a file or an
      environment variable (`sasl.plain.password.file`), since Spark shows options.
    - `lag_interval`: the time between two offset samples, or "off".
    - `upkeep_interval`: the time between two rounds of maintenance, or "off". Maintenance deletes
      snapshots and days of history older than their retention.
    - `retry_timeout`: how long a query retries unreachable brokers before it fails.
    - `max_restarts`: the restarts of a failed query without a finished micro-batch in between.
      Unless it is 0, failures of brokers and of the tables' disk or store are not counted.
    - `catalog`: a database of a Spark catalog in which the tables are registered.
    - `http_port`: the port for metrics, health and readiness (0: any free one).
    - `health_timeout`: how long a micro-batch may take.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    bootstrap_servers: Annotated[str, AfterValidator(_checked_servers)]
    tables: str = Field(min_length=1)
    checkpoint: str = ""
    trigger: Annotated[str, AfterValidator(_checked_interval)] = "1 second"
    available_now: bool = False
    semantics: SemanticsOption = "auto"
    history: HistoryMode = "sampled"
    max_records_per_trigger: int | None = Field(default=None, gt=0)
    max_bytes_per_trigger: int | None = Field(default=None, gt=0)
    log_partitions: tuple[Annotated[int, Field(ge=0)], ...] | None = None
    kafka: dict[str, str] = Field(default_factory=dict, repr=False)
    change_data_feed: bool = False
    lag_interval: Annotated[str, AfterValidator(_checked_interval_or_off)] = "5 seconds"
    snapshot_retention: Annotated[str, AfterValidator(_checked_interval)] = "1 hour"
    history_retention: Annotated[str, AfterValidator(_checked_interval)] = "7 days"
    upkeep_interval: Annotated[str, AfterValidator(_checked_interval_or_off)] = "10 minutes"
    retry_timeout: Annotated[str, AfterValidator(_checked_interval)] = "10 minutes"
    max_restarts: int = Field(default=10, ge=0)
    master: str = "local[2]"
    catalog: Annotated[str, AfterValidator(_checked_catalog)] | None = None
    http_port: int | None = Field(default=None, ge=0, lt=1 << 16)
    http_host: str = "127.0.0.1"
    health_timeout: Annotated[str, AfterValidator(_checked_interval)] = "10 minutes"

    @model_validator(mode="before")
    @classmethod
    def _without_secrets(cls, options: Any) -> Any:
        if isinstance(options, Mapping) and "kafka" in options:
            _refuse_secrets(options["kafka"])
        return options

    @field_validator("tables", "checkpoint")
    @classmethod
    def _absolute(cls, folder: str) -> str:
        """Make a path absolute, since Spark's processes have other working directories.

        The address of a store is unchanged.
        """
        path = local_path(folder) if folder else None
        return folder if path is None else str(path)

    def model_post_init(self, _context: Any) -> None:
        """Set the default of `checkpoint`, which depends on another field."""
        if not self.checkpoint:
            name = PurePosixPath(self.tables).name or "tables"
            object.__setattr__(self, "checkpoint", str(Path("checkpoints", name).absolute()))

    @classmethod
    def checked(cls, **options: Any) -> RunSettings:
        """Build settings from options; an option that is None has its default.

        Raises:
            ConfigurationError: one line that names each wrong option as on the command line.
        """
        try:
            return cls(**{name: value for name, value in options.items() if value is not None})
        except ValidationError as error:
            faults = "; ".join(_fault(**fault) for fault in error.errors(include_input=False))
            raise ConfigurationError(faults) from None


def _fault(*, loc: tuple[int | str, ...], msg: str, type: str, **_rest: Any) -> str:
    option = f"--{str(loc[0]).replace('_', '-')}"
    if type == "missing":
        return f"{option} is missing"
    if type == "extra_forbidden":
        return f"there is no option {option}"
    return f"{option}: {msg.removeprefix('Value error, ')}"
