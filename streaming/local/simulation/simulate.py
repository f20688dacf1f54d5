"""A simulated log with a seed, written to a file, to tables or to a cluster."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from coordinator_state.model.log import Written
from coordinator_state.model.plain_commits import PARTITIONS_PER_GROUP, PlainCommits
from coordinator_state.model.workload import MINUTE_MS, Workload, WorkloadSettings
from coordinator_state.records.internal_topics import OFFSETS_TOPIC
from coordinator_state.replay.offsets import Semantics
from coordinator_state.replay.partitioner import DEFAULT_LOG_PARTITIONS
from streaming.errors import ConfigurationError
from streaming.run.stderr import write_note

_CLEAN_EVERY_MS: Final = 10 * MINUTE_MS
_DELETE_RETENTION_MS: Final = 30 * MINUTE_MS
_TRANSACTIONAL_SHARE: Final = 0.2
_SEGMENT: Final = f"{0:020d}.log"
"""`kafka-dump-log.sh` needs a file name that consists of the base offset and `.log`."""
_STEPS: Final = 20
"""The number of micro-batches and of progress notes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """Settings of a simulation; `workload` is `groups` or `commits`.

    `transactional_share` defaults to 0.2, and to 0 for a cluster, because only its coordinators can
    end a transaction. `log_partitions` defaults to 1 for a file, to the count of the cluster for a
    cluster, and to 50 for tables.
    """

    seed: int = 0
    groups: int = 100
    records: int = 100_000
    workload: str = "groups"
    commit_interval_ms: int = 5_000
    transactional_share: float | None = None
    consumer_share: float = 0.2
    compact: bool = False
    log_partitions: int | None = None
    semantics: Semantics = Semantics.COORDINATOR


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """The result of a simulation: counts and target of the written log."""

    records: int
    groups: int
    log_partitions: int
    bytes: int
    seconds_simulated: int
    where: str

    def to_json(self) -> dict[str, Any]:
        """The fields by name."""
        return asdict(self)


def simulate(
    simulation: Simulation,
    *,
    file: str | None = None,
    tables: str | None = None,
    bootstrap_servers: str | None = None,
    kafka: Mapping[str, str] | None = None,
) -> Simulated:
    """Simulate, and write to a file, to new tables or to the topic of a cluster.

    Raises:
        ConfigurationError: settings exclude each other, or the target exists or cannot be written.
    """
    if simulation.compact and simulation.workload == "commits":
        raise ConfigurationError("--compact needs --workload groups")
    if simulation.compact and file is None:
        raise ConfigurationError(
            "--compact needs --file: tables and clusters take the log before a log cleaner runs"
        )
    if simulation.workload == "commits" and simulation.semantics is Semantics.SCALA:
        raise ConfigurationError(
            "--workload commits simulates Kafka 4: it needs --semantics coordinator"
        )
    is_transactional = simulation.workload == "groups" and bool(simulation.transactional_share)
    if bootstrap_servers is not None and is_transactional:
        raise ConfigurationError(
            "--bootstrap-servers needs --transactional 0: only coordinators write markers"
        )
    if file is not None:
        return _into_file(simulation, file)
    if tables is not None:
        return _into_tables(simulation, tables)
    return _into_cluster(simulation, bootstrap_servers or "", kafka)


def _into_file(simulation: Simulation, file: str) -> Simulated:
    source = _source(simulation, log_partitions=1)
    require_new(Path(file))
    source.run()
    size_bytes = write_log_files(Path(file), source.logs(), log_partitions=source.log_partitions)
    return _simulated(simulation, source, size_bytes, file)


def _into_tables(simulation: Simulation, tables: str) -> Simulated:
    from streaming.local.simulation.tables import simulated_tables

    source, size_bytes = _source(simulation, log_partitions=DEFAULT_LOG_PARTITIONS), 0
    with simulated_tables(
        tables, simulation.semantics, log_partitions=source.log_partitions
    ) as target:
        for part in source.parts():
            target.take(part)
            size_bytes += sum(len(written.batches) for written in part)
    return _simulated(simulation, source, size_bytes, tables)


def _into_cluster(
    simulation: Simulation, bootstrap_servers: str, kafka: Mapping[str, str] | None
) -> Simulated:
    from streaming.local.simulation.topic import OffsetsTopic

    with OffsetsTopic(bootstrap_servers, kafka) as topic:
        log_partitions = topic.log_partitions()
        if (simulation.log_partitions or 0) > log_partitions:
            raise ConfigurationError(
                f"the cluster's {OFFSETS_TOPIC} has {log_partitions} partitions: "
                "remove --log-partitions"
            )
        source = _source(
            replace(simulation, transactional_share=0.0), log_partitions=log_partitions
        )
        size_bytes = 0
        for part in source.parts():
            topic.append((written.log_partition, written.batches) for written in part)
            size_bytes += sum(len(written.batches) for written in part)
    return _simulated(simulation, source, size_bytes, bootstrap_servers)


def _source(simulation: Simulation, *, log_partitions: int) -> _Groups | _Commits:
    """The simulated log; `log_partitions` is the default of the simulation's setting."""
    kind = _Commits if simulation.workload == "commits" else _Groups
    return kind(simulation, simulation.log_partitions or log_partitions)


def _simulated(
    simulation: Simulation, source: _Groups | _Commits, size_bytes: int, where: str
) -> Simulated:
    return Simulated(
        records=source.records,
        groups=simulation.groups,
        log_partitions=source.log_partitions,
        bytes=size_bytes,
        seconds_simulated=source.seconds,
        where=where,
    )


class _Groups:
    """All activity of groups in simulated time."""

    def __init__(self, simulation: Simulation, log_partitions: int) -> None:
        self.log_partitions = log_partitions
        self._wanted = simulation.records
        share = simulation.transactional_share
        self._workload = Workload(
            WorkloadSettings(
                seed=simulation.seed,
                groups=simulation.groups,
                commit_interval_ms=simulation.commit_interval_ms,
                transactional_share=_TRANSACTIONAL_SHARE if share is None else share,
                consumer_share=simulation.consumer_share,
                clean_every_ms=_CLEAN_EVERY_MS if simulation.compact else None,
                delete_retention_ms=_DELETE_RETENTION_MS,
                log_partitions=log_partitions,
                semantics=simulation.semantics,
            )
        )

    @property
    def records(self) -> int:
        return self._workload.records

    @property
    def seconds(self) -> int:
        return (self._workload.now_ms - self._workload.settings.from_ms) // 1000

    def run(self) -> None:
        for _ in self._steps():
            pass

    def parts(self) -> Iterator[list[Written]]:
        for _ in self._steps():
            yield list(self._workload.take())

    def _steps(self) -> Iterator[None]:
        for step in range(1, _STEPS + 1):
            self._workload.run_until(self._wanted * step // _STEPS)
            yield
            write_note(f"{self.records:,} of {self._wanted:,} records")

    def logs(self) -> Iterator[tuple[int, bytes]]:
        return self._workload.logs()


class _Commits:
    """Offset commits only, for large logs, one per millisecond of simulated time."""

    def __init__(self, simulation: Simulation, log_partitions: int) -> None:
        self.log_partitions = log_partitions
        self._commits = PlainCommits(
            count=simulation.records,
            key_count=simulation.groups * PARTITIONS_PER_GROUP,
            from_ms=WorkloadSettings().from_ms,
            seed=simulation.seed,
            log_partitions=log_partitions,
        )
        self.records = simulation.records
        self.seconds = simulation.records // 1000

    def run(self) -> None:
        """Do nothing: the commits are generated while they are written."""

    def parts(self) -> Iterator[list[Written]]:
        for log_partition, log in self._commits.logs():
            if log:
                end = self._commits.next_offset(log_partition)
                yield [Written(log_partition, log, 0, end, high_watermark=end)]

    def logs(self) -> Iterator[tuple[int, bytes]]:
        return self._commits.logs()


def require_new(file: Path) -> None:
    """Check that the file does not exist, and create its folder.

    Raises:
        ConfigurationError: the file exists, or its folder cannot be created.
    """
    try:
        if file.exists():
            raise ConfigurationError(f"{file} already exists: remove it, or name another file")
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"cannot write {file}: {error.strerror or error}") from error


def write_log_files(file: Path, logs: Iterable[tuple[int, bytes]], *, log_partitions: int) -> int:
    """Write one log partition as a file, or several as a folder; return the size in bytes.

    In the folder each log partition has its own folder with one segment, as in a broker's
    `log.dirs`. The file or folder appears only when it is complete.

    Raises:
        ConfigurationError: the file or folder exists, or cannot be written.
    """
    require_new(file)
    size_bytes = 0
    try:
        with tempfile.TemporaryDirectory(dir=file.parent, prefix=f".{file.name}-") as folder:
            beside = Path(folder, file.name)
            for log_partition, log in logs:
                segment = beside
                if log_partitions > 1:
                    segment = beside / f"{OFFSETS_TOPIC}-{log_partition}" / _SEGMENT
                    segment.parent.mkdir(parents=True)
                segment.write_bytes(log)
                size_bytes += len(log)
            beside.rename(file)
    except OSError as error:
        raise ConfigurationError(f"cannot write {file}: {error.strerror or error}") from error
    return size_bytes
