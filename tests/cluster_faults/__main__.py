"""Faults of a cluster of three brokers while `run` reads it: `python -m tests.cluster_faults`.

The groups of the demo commit, rebalance, set back, delete and use transactions; their clients begin
anew where a fault is too much for them. `run` is a process of its own that nobody helps. After each
fault the tables are held against the brokers' answers, and, history included, row by row against
those of one load that nobody disturbed. The last fault takes records away: an unclean election,
which the query must notice.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path

import click

from streaming.errors import ConfigurationError
from streaming.kafka.fetch import LogClient
from streaming.local.demo.groups import (
    Clients,
    Steps,
    create_topics,
)
from streaming.local.demo.traffic import Traffic, TrafficThread
from streaming.run.stderr import write_note
from streaming.tables.reader import TableReader
from streaming.tables.schemas import LOAD_PROGRESS
from streaming.verify.broker_answers import BrokerAnswers
from streaming.verify.table_answers import TableAnswers
from streaming.verify.verify import verify
from streaming.views.output import output_of
from tests.cluster_faults.faults import FAULTS, unclean_election
from tests.cluster_faults.stage import CLUSTER_PROPERTIES, PATIENCE_S, Stage, poll
from tests.support.brokers.embedded_cluster import EmbeddedCluster
from tests.support.tables.undisturbed import differences, load, run_command, table_rows

_TRAFFIC_RECORDS = 200
"""The groups write them before a fault, and again after `run` has recovered from it."""
_ATTEMPTS = 10
_DIFFERENCES_SHOWN = 20
_IS_USUAL = " INFO "
_RESTARTED = "restarting it in"
_TRUNCATED = "the log was truncated to"


class PersistentTraffic(Traffic):
    """The demo's traffic; a client that fails is closed and begins anew."""

    def _thread(
        self, name: str, steps: Callable[[], Steps], stop: threading.Event
    ) -> TrafficThread:
        return super()._thread(name, lambda: _again_and_again(steps), stop)


def _again_and_again(steps: Callable[[], Steps]) -> Steps:
    while True:
        try:
            yield from steps()
        except Exception:  # noqa: BLE001 - what clients raise in the face of these faults is theirs
            yield False


@dataclass(frozen=True, slots=True, kw_only=True)
class Endured:
    """One fault and what became of it; `current_after_s` counts from the fault's end."""

    fault: str
    lasted_s: float
    current_after_s: float
    restarts: int
    lines: int
    records: int
    differences: list[str] = field(default_factory=list)


class Run:
    """A `run` in a process of its own; its standard error is a file."""

    def __init__(self, servers: str, tables: Path) -> None:
        self.tables = tables
        self.log = tables.with_suffix(".log")
        with self.log.open("wb") as stderr:
            self._process = subprocess.Popen(
                run_command(servers, tables), stdin=subprocess.DEVNULL, stderr=stderr
            )

    def lines(self) -> list[str]:
        """What it said so far."""
        return self.log.read_text().splitlines()

    def await_offsets(self, ends: Mapping[int, int]) -> None:
        """Wait until the tables are there.

        Raises:
            RuntimeError: it ended.
            TimeoutError: it took too long.
        """

        def failure() -> str:
            return f"run is not at {ends}: " + "\n".join(self.lines()[-20:])

        def is_there() -> bool:
            found = self._next_offsets()
            if all(found.get(p, -1) >= end for p, end in ends.items()):
                return True
            if self._process.poll() is not None:
                raise RuntimeError(failure())
            return False

        poll(is_there, failure)

    def await_truncation(self) -> None:
        """Wait until it reloads the log partition."""
        poll(
            lambda: any(_TRUNCATED in line for line in self.lines()),
            lambda: "the truncation was not noticed: " + "\n".join(self.lines()),
        )

    def close(self) -> None:
        """Stop it as Ctrl-C does."""
        self._process.send_signal(signal.SIGINT)
        self._process.wait(PATIENCE_S)

    def _next_offsets(self) -> dict[int, int]:
        try:
            rows = TableReader(str(self.tables)).read(LOAD_PROGRESS.name)
        except ConfigurationError:  # they are not there yet
            return {}
        return dict(
            zip(rows["log_partition"].to_pylist(), rows["next_offset"].to_pylist(), strict=True)
        )


def endure(folder: Path, faults: list[str], seed: int) -> Iterator[Endured]:
    """Do one fault after another; everything that is written is below `folder`."""
    with EmbeddedCluster(folder=folder / "cluster", properties=CLUSTER_PROPERTIES) as cluster:
        cluster.create_offsets_topic()
        create_topics(Clients(cluster.bootstrap_servers))
        stage = Stage(cluster, seed)
        with closing(Run(cluster.bootstrap_servers, folder / "tables")) as run:
            run.await_offsets(_log_ends(cluster))
            for name in faults:
                yield _endure(folder, stage, run, name)
        for line in run.lines():
            if _IS_USUAL not in line:
                write_note(line)


def _await_traffic(cluster: EmbeddedCluster) -> None:
    wanted = sum(_log_ends(cluster).values()) + _TRAFFIC_RECORDS
    poll(
        lambda: sum(_log_ends(cluster).values()) >= wanted,
        lambda: f"the groups did not write {_TRAFFIC_RECORDS} records",
    )


def _endure(folder: Path, stage: Stage, run: Run, name: str) -> Endured:
    cluster = stage.cluster
    said, records = len(run.lines()), sum(_log_ends(cluster).values())
    with closing(PersistentTraffic(cluster.bootstrap_servers)) as traffic:
        traffic.start()
        _await_traffic(cluster)
        began_at = time.monotonic()
        FAULTS[name](stage)
        ended_at = time.monotonic()
        if FAULTS[name] is unclean_election:
            run.await_truncation()
            stage.whole()
        run.await_offsets(_log_ends(cluster))
        current_at = time.monotonic()
        _await_traffic(cluster)
    found = _differences_at_rest(cluster, run, folder / f"undisturbed-{name}")
    lines = [line for line in run.lines()[said:] if _IS_USUAL not in line]
    return Endured(
        fault=name,
        lasted_s=round(ended_at - began_at, 1),
        current_after_s=round(current_at - ended_at, 1),
        restarts=sum(_RESTARTED in line for line in lines),
        lines=len(lines),
        records=sum(_log_ends(cluster).values()) - records,
        differences=found,
    )


def _log_ends(cluster: EmbeddedCluster) -> dict[int, int]:
    with closing(LogClient(cluster.bootstrap_servers)) as log:
        return log.high_watermarks()


def _differences_at_rest(cluster: EmbeddedCluster, run: Run, undisturbed: Path) -> list[str]:
    """The differences at log ends that did not move while they were looked for.

    Members of clients that a fault ended expire later, and their coordinators write records then.
    """
    for attempt in range(_ATTEMPTS):
        ends = _log_ends(cluster)
        run.await_offsets(ends)
        found = _differences(
            cluster.bootstrap_servers, run.tables, undisturbed.with_suffix(f".{attempt}")
        )
        if _log_ends(cluster) == ends:
            return found
    raise TimeoutError("the coordinators do not stop to write records")


def _differences(servers: str, tables: Path, undisturbed: Path) -> list[str]:
    """Against the brokers and against a fresh load; `run` goes on meanwhile."""
    with BrokerAnswers(servers) as answers:
        verification = verify(
            answers, lambda: TableAnswers(TableReader(str(tables))), timeout_s=PATIENCE_S
        )
    load(servers, undisturbed)
    found, expected = table_rows(tables), table_rows(undisturbed)
    return [*map(str, verification.differences), *differences(found, expected)]


@click.command()
@click.option("--fault", "faults", multiple=True, type=click.Choice(list(FAULTS)), help="Which.")
@click.option("--seed", default=time.time_ns, help="What is chosen by.  [default: new]")
def main(faults: tuple[str, ...], seed: int) -> None:
    """Do faults to a cluster, all of them without --fault, and compare."""
    rows = []
    with tempfile.TemporaryDirectory(prefix="coordinator-state-faults-") as folder:
        for endured in endure(Path(folder), list(faults or FAULTS), seed):
            write_note(f"{endured.fault}: {len(endured.differences)} differences")
            for difference in endured.differences[:_DIFFERENCES_SHOWN]:
                write_note(difference)
            rows.append({**asdict(endured), "differences": len(endured.differences)})
    output_of("text").rows(rows, list(rows[0]))
    sys.exit(1 if any(row["differences"] for row in rows) else 0)


if __name__ == "__main__":
    main()
