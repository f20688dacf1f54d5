"""A whole `__consumer_offsets` from its beginning: this program beside the broker's own load.

Commits are put in front of a broker, which restarts and loads them, and `run --available-now`
makes tables of them: in a process of its own (cold), and twice in one session, the second time
warm. Each time the tables are fresh, and each time they are held against what was produced, commit
by commit, and against what the broker answers about some groups. Last, Kafka's console consumer
prints the same log.
"""

from __future__ import annotations

import logging
import subprocess
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench.console_consumer import print_offsets
from bench.peak_memory import PeakMemory
from bench.processes import run_command, run_environment
from coordinator_state.model.plain_commits import PlainCommits
from streaming.local.broker.embedded import EmbeddedBroker
from streaming.local.broker.load_summary import LoadSummary
from streaming.run.query import run_query
from streaming.run.session import EngineName, build_session
from streaming.run.settings import RunSettings
from tests.support.tables.equality import Equality, check_equality

logger = logging.getLogger(__name__)

_LOAD_TIMEOUT_S = 600.0
_LAST_LINES = 25


class _Targets(NamedTuple):
    cold: str
    warm: str


_PLAIN = _Targets("4 x console, 2,048 MB", "1.6 x broker, 12 x console")
_TRANSACTIONS = _Targets("", "0.7 x broker")


COLD: Final = "run, cold process"
FIRST: Final = "run, first of a session"
WARM: Final = "run, second of a session"
MEASURED: Final = (
    *("measured", "records", "seconds", "records_per_s", "times_broker", "times_console"),
    *("peak_memory_mb", "target"),
)
"""What a report tells of each measurement."""


class BackfillError(Exception):
    """The command `run` failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """How long one way of going through all records took."""

    name: str
    records: int
    duration_s: float
    peak_memory_bytes: int | None = None
    target: str = ""

    @property
    def records_per_s(self) -> float:
        """The rate; 0 where the duration was too short to be measured."""
        return self.records / self.duration_s if self.duration_s else 0.0


@dataclass(slots=True, kw_only=True)
class BackfillReport:
    """What was measured, in the order it happened, and whether the tables of each run are right."""

    measurements: list[Measurement] = field(default_factory=list)
    equalities: dict[str, Equality] = field(default_factory=dict)
    broker_load: Measurement | None = None
    console: Measurement | None = None

    @property
    def is_equal(self) -> bool:
        """Whether the tables of every run are."""
        return all(equality.is_equal for equality in self.equalities.values())

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The measurements with the columns `MEASURED`, beside the broker and the console."""
        return [
            {
                "measured": measurement.name,
                "records": measurement.records,
                "seconds": round(measurement.duration_s, 2),
                "records_per_s": round(measurement.records_per_s),
                "times_broker": _times(measurement, self.broker_load, digits=3),
                "times_console": _times(measurement, self.console, digits=2),
                "peak_memory_mb": (
                    None
                    if measurement.peak_memory_bytes is None
                    else measurement.peak_memory_bytes // 10**6
                ),
                "target": measurement.target,
            }
            for measurement in self.measurements
        ]

    @property
    def findings(self) -> dict[str, float | None]:
        """Of the cold run and the warm one, as far as they were measured."""
        by_name = {measurement.name: measurement for measurement in self.measurements}
        cold, warm = by_name.get(COLD), by_name[WARM]
        figures = {
            "warm_s": warm.duration_s,
            "warm_times_broker": _times(warm, self.broker_load, digits=3),
            "warm_times_console": _times(warm, self.console, digits=2),
        }
        if cold is not None and cold.peak_memory_bytes is not None:
            figures["cold_times_console"] = _times(cold, self.console, digits=2)
            figures["peak_memory_mb"] = cold.peak_memory_bytes / 10**6
        return {name: value for name, value in figures.items() if value is not None}

    def measure(
        self, name: str, records: int, action: Callable[[], int | None], target: str = ""
    ) -> Measurement:
        """Time an action, which returns the most memory it took where that is known."""
        started_at = time.monotonic()
        peak_memory_bytes = action()
        duration_s = time.monotonic() - started_at
        logger.info("%s: %s records in %.2f s", name, records, duration_s)
        measurement = Measurement(
            name=name,
            records=records,
            duration_s=duration_s,
            peak_memory_bytes=peak_memory_bytes,
            target=target,
        )
        self.measurements.append(measurement)
        return measurement


def compare_backfill(
    folder: Path,
    commits: PlainCommits,
    *,
    groups_sampled: int,
    with_console: bool,
    engine: EngineName = "driver",
) -> BackfillReport:
    """Do it all; everything that is written is below `folder`.

    Raises:
        BackfillError: the command `run` failed.
    """
    targets = _TRANSACTIONS if commits.in_transactions else _PLAIN
    report = BackfillReport()
    with EmbeddedBroker(folder=folder / "broker") as broker:
        broker.create_offsets_topic()
        logger.info("writing a log of %s records", commits.records)
        broker.load_logs(commits.logs())
        servers = broker.bootstrap_servers
        report.broker_load, load_with_gaps = broker_load(broker.wait_until_loaded(_LOAD_TIMEOUT_S))
        report.measurements += [report.broker_load, load_with_gaps]
        cold = partial(run_cold, servers, folder / "cold", engine)
        report.measure(COLD, commits.records, cold, targets.cold)
        session = build_session(engine=engine)
        try:
            for name, title, target in (("first", FIRST, ""), ("second", WARM, targets.warm)):
                settings = run_settings(servers, folder / name, engine)
                run = partial(run_query, settings, session=session)
                report.measure(title, commits.records, run, target)
        finally:
            session.stop()
        expected = commits.last
        for name in ("cold", "first", "second"):
            report.equalities[name] = check_equality(
                str(folder / name / "tables"),
                expected,
                bootstrap_servers=servers,
                groups_sampled=groups_sampled,
            )
        if with_console:
            # Last, since it commits offsets itself.
            printing = partial(print_offsets, servers, commits.count)
            report.console = report.measure("console consumer, formatter", commits.count, printing)
    return report


def _times(measurement: Measurement, other: Measurement | None, *, digits: int) -> float | None:
    if other is None or not other.records_per_s:
        return None
    return round(measurement.records_per_s / other.records_per_s, digits)


def broker_load(summaries: Collection[LoadSummary]) -> tuple[Measurement, Measurement]:
    """What the broker says of its load: its one loader thread at work, and from start to end.

    All log partitions are scheduled when the broker is elected, so the longest of their durations,
    waiting included, is that of them all.
    """
    records = sum(summary.records or 0 for summary in summaries)
    at_work_ms = sum(summary.duration_ms - summary.queued_ms for summary in summaries)
    from_election_ms = max(summary.duration_ms for summary in summaries)
    return (
        Measurement(name="broker's own load", records=records, duration_s=at_work_ms / 1_000),
        Measurement(
            name="the same from election to end",
            records=records,
            duration_s=from_election_ms / 1_000,
        ),
    )


def run_settings(
    bootstrap_servers: str, folder: Path, engine: EngineName = "driver"
) -> RunSettings:
    """The settings of `run` by default, with tables and checkpoint below `folder`."""
    return RunSettings.checked(
        bootstrap_servers=bootstrap_servers,
        tables=str(folder / "tables"),
        checkpoint=str(folder / "checkpoint"),
        available_now=True,
        engine=engine,
    )


def run_cold(bootstrap_servers: str, folder: Path, engine: EngineName = "driver") -> int | None:
    """Run the command in a process of its own; return the most memory it took, in bytes.

    Raises:
        BackfillError: its exit status was not 0; the text ends with what it wrote last.
    """
    folder.mkdir(parents=True, exist_ok=True)
    log_file = folder / "run.log"
    with (
        log_file.open("wb") as log,
        subprocess.Popen(
            run_command(bootstrap_servers, folder, "--available-now", "--engine", engine),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=run_environment(),
        ) as process,
        PeakMemory(process.pid) as memory,
    ):
        try:
            process.wait()
        finally:
            process.kill()
    if process.returncode != 0:
        last_lines = log_file.read_text(errors="replace").splitlines()[-_LAST_LINES:]
        raise BackfillError(
            "\n".join([f"run ended with exit status {process.returncode}:", *last_lines])
        )
    return memory.peak_bytes
