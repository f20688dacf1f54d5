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
from tests.cluster_faults.stage import CLUSTER_PROPERTIES, PATIENCE_S, POLL_S, Stage
from tests.support.brokers.embedded_cluster import EmbeddedCluster
from tests.support.tables.undisturbed import differences, load, run_command, table_rows

_TRAFFIC_S = 5.0
"""Of the groups, before a fault and once `run` is there again: it is to have something to do."""
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
            RuntimeError: it ended, or it took too long.
        """
        deadline = time.monotonic() + PATIENCE_S
        while any(self._next_offsets().get(p, -1) < end for p, end in ends.items()):
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"run is not at {ends}: " + "\n".join(self.lines()[-20:]))
            time.sleep(POLL_S)

    def await_truncation(self) -> None:
        """Wait until it loads the log partition again."""
        deadline = time.monotonic() + PATIENCE_S
        while not any(_TRUNCATED in line for line in self.lines()):
            if time.monotonic() > deadline:
                raise RuntimeError("the truncation was not noticed: " + "\n".join(self.lines()))
            time.sleep(POLL_S)

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


def _endure(folder: Path, stage: Stage, run: Run, name: str) -> Endured:
    cluster = stage.cluster
    said, records = len(run.lines()), sum(_log_ends(cluster).values())
    with closing(PersistentTraffic(cluster.bootstrap_servers)) as traffic:
        traffic.start()
        time.sleep(_TRAFFIC_S)
        began_at = time.monotonic()
        FAULTS[name](stage)
        ended_at = time.monotonic()
        if FAULTS[name] is unclean_election:
            run.await_truncation()
            stage.whole()
        run.await_offsets(_log_ends(cluster))
        current_at = time.monotonic()
        time.sleep(_TRAFFIC_S)
    run.await_offsets(_log_ends(cluster))
    found = _differences(cluster.bootstrap_servers, run.tables, folder / f"undisturbed-{name}")
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
