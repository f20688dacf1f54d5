"""Faults of a cluster of three brokers while `run` reads it: `python -m tests.cluster_faults`.

The groups of the demo commit, rebalance, set back, delete and use transactions; their clients begin
anew where a fault is too much for them. `run` is a process of its own that nobody helps. After each
fault the tables are held against the brokers' answers, and, history included, row by row against
those of one load that nobody disturbed. The last faults take records away: unclean elections,
which the query must notice.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path

import click

from streaming.errors import ConfigurationError
from streaming.kafka.fetch import LogClient
from streaming.local.demo.groups import Clients, Steps, create_topics
from streaming.local.demo.traffic import Traffic, TrafficThread
from streaming.run.stderr import write_note
from streaming.tables.reader import TableReader
from streaming.tables.schemas import LOAD_PROGRESS
from streaming.verify.broker_answers import BrokerAnswers
from streaming.verify.table_answers import TableAnswers
from streaming.verify.verify import verify
from streaming.views.output import OUTPUTS, output_of
from tests.cluster_faults.faults import FAULTS
from tests.cluster_faults.stage import CLUSTER_PROPERTIES, PATIENCE_S, Stage
from tests.support.brokers.embedded_cluster import EmbeddedCluster
from tests.support.brokers.live_run import LiveRun, live_run
from tests.support.eventually import wait_until
from tests.support.tables.undisturbed import differences, load, table_rows

_TRAFFIC_RECORDS = 200
"""The groups write them before a fault, and again after `run` has recovered from it."""
_ATTEMPTS = 10
_DIFFERENCES_SHOWN = 20
_LOG_SHOWN = 4_000
_IS_USUAL = " INFO "
_RESTARTED = "restarting it in"


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


def endure(folder: Path, faults: Iterable[str], seed: int, pause: float) -> Iterator[Endured]:
    """Do one fault after another; everything that is written is below `folder`."""
    with EmbeddedCluster(folder=folder / "cluster", properties=CLUSTER_PROPERTIES) as cluster:
        cluster.create_offsets_topic()
        create_topics(Clients(cluster.bootstrap_servers))
        options = ("--bootstrap-servers", cluster.bootstrap_servers, "--history", "all")
        with live_run(folder, *options, "--silent") as run:

            def await_read() -> None:
                _await_offsets(run, _log_ends(cluster))

            def reloaded_at() -> datetime | None:
                rows = TableReader(str(_tables(run))).read(LOAD_PROGRESS.name).to_pylist()
                (row,) = (row for row in rows if row["log_partition"] == Stage.log_partition)
                return row["reloaded_at"]

            stage = Stage(cluster, seed, pause, await_read, reloaded_at)
            await_read()
            for name in faults:
                yield _endure(stage, run, name)
            run.stop()
        for line in _lines(run):
            write_note(line)


def _lines(run: LiveRun) -> list[str]:
    """The unusual lines of its log so far."""
    return [line for line in run.log.splitlines() if _IS_USUAL not in line]


def _tables(run: LiveRun) -> Path:
    return run.log_file.with_name("tables")


def _await_offsets(run: LiveRun, ends: Mapping[int, int]) -> None:
    """Wait until the tables are there.

    Raises:
        RuntimeError: `run` ended.
    """

    def is_there() -> bool:
        next_offsets = _next_offsets(_tables(run))
        if all(next_offsets.get(p, -1) >= end for p, end in ends.items()):
            return True
        if not run.is_alive:
            raise RuntimeError(run.log[-_LOG_SHOWN:])
        return False

    wait_until(is_there, PATIENCE_S)


def _next_offsets(tables: Path) -> dict[int, int]:
    try:
        states = TableReader(str(tables)).load_states
    except ConfigurationError:  # they are not there yet
        return {}
    return {log_partition: state.next_offset for log_partition, state in states.items()}


def _await_traffic(cluster: EmbeddedCluster) -> None:
    wanted = sum(_log_ends(cluster).values()) + _TRAFFIC_RECORDS
    wait_until(lambda: sum(_log_ends(cluster).values()) >= wanted, PATIENCE_S)


def _endure(stage: Stage, run: LiveRun, name: str) -> Endured:
    cluster = stage.cluster
    said, records = len(_lines(run)), sum(_log_ends(cluster).values())
    with closing(PersistentTraffic(cluster.bootstrap_servers)) as traffic:
        traffic.start()
        _await_traffic(cluster)
        began_at = time.monotonic()
        stage.begin()
        FAULTS[name](stage)
        ended_at = time.monotonic()
        if stage.lost_records:
            stage.await_reloaded()
            stage.whole()
        _await_offsets(run, _log_ends(cluster))
        current_at = time.monotonic()
        _await_traffic(cluster)
    differing = _differences_at_rest(cluster, run, f"undisturbed-{name}")
    lines = _lines(run)[said:]
    return Endured(
        fault=name,
        lasted_s=round(ended_at - began_at, 1),
        current_after_s=round(current_at - ended_at, 1),
        restarts=sum(_RESTARTED in line for line in lines),
        lines=len(lines),
        records=sum(_log_ends(cluster).values()) - records,
        differences=differing,
    )


def _log_ends(cluster: EmbeddedCluster) -> dict[int, int]:
    with closing(LogClient(cluster.bootstrap_servers)) as log:
        return log.high_watermarks()


def _differences_at_rest(cluster: EmbeddedCluster, run: LiveRun, undisturbed: str) -> list[str]:
    """The differences at log ends that did not move while they were compared.

    Members of clients that a fault ended expire later, and their coordinators write records then.
    """
    for attempt in range(_ATTEMPTS):
        ends = _log_ends(cluster)
        _await_offsets(run, ends)
        folder = run.log_file.with_name(f"{undisturbed}.{attempt}")
        differing = _differences(cluster.bootstrap_servers, _tables(run), folder)
        if _log_ends(cluster) == ends:
            return differing
    raise TimeoutError("the coordinators do not stop to write records")


def _differences(servers: str, tables: Path, undisturbed: Path) -> list[str]:
    """Against the brokers and against a fresh load; `run` goes on meanwhile."""
    with BrokerAnswers(servers) as answers:
        verification = verify(
            answers, lambda: TableAnswers(TableReader(str(tables))), timeout_s=PATIENCE_S
        )
    load(servers, undisturbed)
    rows, expected = table_rows(tables), table_rows(undisturbed)
    return [*map(str, verification.differences), *differences(rows, expected)]


@click.command()
@click.option("--fault", "faults", multiple=True, type=click.Choice(list(FAULTS)), help="Which.")
@click.option("--seed", default=time.time_ns, help="What is chosen by.  [default: new]")
@click.option("--pause", default=1.0, help="A share of the usual length of faults.  [default: 1]")
@click.option("--output", default="text", type=click.Choice(list(OUTPUTS)), help="Of the rows.")
def main(faults: tuple[str, ...], seed: int, pause: float, output: str) -> None:
    """Do faults to a cluster, all of them without --fault, and compare."""
    rows = []
    with tempfile.TemporaryDirectory(prefix="coordinator-state-faults-") as folder:
        for endured in endure(Path(folder), faults or FAULTS, seed, pause):
            write_note(f"{endured.fault}: {len(endured.differences)} differences")
            for difference in endured.differences[:_DIFFERENCES_SHOWN]:
                write_note(difference)
            rows.append({**asdict(endured), "differences": len(endured.differences)})
    output_of(output).rows(rows, list(rows[0]))
    sys.exit(1 if any(row["differences"] for row in rows) else 0)


if __name__ == "__main__":
    main()
