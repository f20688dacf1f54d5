"""A whole `__consumer_offsets` from its beginning: this program beside the broker's own load.

Commits are produced into a broker, the broker restarts and loads them, and `run --available-now`
makes tables of them: in a process of its own (cold), and twice in one session, the second time
warm. Each time the tables are fresh, and each time they are held against what was produced, commit
by commit, and against what the broker answers about some groups.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from bench.commits import Commits, produce
from bench.equality import Equality, check_equality
from bench.peak_memory import PeakMemory
from coordinator_state.partitioner import DEFAULT_LOG_PARTITIONS
from streaming.broker.embedded import EmbeddedBroker
from streaming.broker.load_summary import LoadSummary
from streaming.config import RunSettings
from streaming.query import run_query
from streaming.session import build_session

logger = logging.getLogger(__name__)

_REPOSITORY = Path(__file__).resolve().parents[1]
_RUN = (sys.executable, "-c", "from streaming.cli import main; main()", "run")
_LOAD_TIMEOUT_S = 600.0
_LAST_LINES = 25


class BackfillError(Exception):
    """The command `run` failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """How long one way of going through all records took."""

    name: str
    records: int
    duration_s: float
    peak_memory_bytes: int | None = None

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

    @property
    def is_equal(self) -> bool:
        """Whether the tables of every run are."""
        return all(equality.is_equal for equality in self.equalities.values())

    def times_broker(self, measurement: Measurement) -> float | None:
        """The rate of a measurement as a multiple of the broker's own."""
        if self.broker_load is None or not self.broker_load.records_per_s:
            return None
        return measurement.records_per_s / self.broker_load.records_per_s

    def measure(self, name: str, records: int, action: Callable[[], int | None]) -> None:
        """Time an action, which returns the most memory it took where that is known."""
        started_at = time.monotonic()
        peak_memory_bytes = action()
        duration_s = time.monotonic() - started_at
        logger.info("%s: %s records in %.2f s", name, records, duration_s)
        self.measurements.append(
            Measurement(
                name=name,
                records=records,
                duration_s=duration_s,
                peak_memory_bytes=peak_memory_bytes,
            )
        )


def compare_backfill(
    folder: Path, *, commits: int, keys: int, groups_sampled: int
) -> BackfillReport:
    """Do it all; everything that is written is below `folder`.

    Raises:
        BackfillError: the command `run` failed.
    """
    now_ms = time.time_ns() // 1_000_000
    sequence = Commits(count=commits, key_count=keys, from_ms=now_ms - commits)
    report = BackfillReport()
    with EmbeddedBroker(folder=folder / "broker") as broker:
        broker.create_offsets_topic()
        servers = broker.bootstrap_servers
        report.measure(
            "produced by one client",
            commits,
            partial(produce, sequence, servers, log_partitions=DEFAULT_LOG_PARTITIONS),
        )
        broker.restart()
        report.broker_load, load_with_gaps = broker_load(broker.wait_until_loaded(_LOAD_TIMEOUT_S))
        report.measurements += [report.broker_load, load_with_gaps]
        report.measure("run, cold process", commits, partial(run_cold, servers, folder / "cold"))
        session = build_session()
        try:
            for name in ("first", "second"):
                settings = run_settings(servers, folder / name)
                run = partial(run_query, settings, session=session)
                report.measure(f"run, {name} of a session", commits, run)
        finally:
            session.stop()
        expected = dict(sequence)
        for name in ("cold", "first", "second"):
            report.equalities[name] = check_equality(
                str(folder / name / "tables"),
                expected,
                bootstrap_servers=servers,
                groups_sampled=groups_sampled,
            )
    return report


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


def run_settings(bootstrap_servers: str, folder: Path) -> RunSettings:
    """The settings of `run` by default, with tables and checkpoint below `folder`."""
    return RunSettings.checked(
        bootstrap_servers=bootstrap_servers,
        tables=str(folder / "tables"),
        checkpoint=str(folder / "checkpoint"),
        available_now=True,
    )


def run_cold(bootstrap_servers: str, folder: Path) -> int | None:
    """Run the command in a process of its own; return the most memory it took, in bytes.

    Raises:
        BackfillError: its exit status was not 0; the text ends with what it wrote last.
    """
    folder.mkdir(parents=True, exist_ok=True)
    settings = run_settings(bootstrap_servers, folder)
    addresses = ("--bootstrap-servers", bootstrap_servers, "--tables", settings.tables)
    log_file = folder / "run.log"
    with (
        log_file.open("wb") as log,
        subprocess.Popen(
            [*_RUN, *addresses, "--checkpoint", settings.checkpoint, "--available-now"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONPATH": _python_path()},
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


def _python_path() -> str:
    """The modules of this repository also where they are not installed."""
    return os.pathsep.join(filter(None, (str(_REPOSITORY), os.environ.get("PYTHONPATH"))))
