"""`python -m bench.week`: the number of a folder's files over a simulated week of micro-batches.

The week is shorter than a real one: the trigger divides the number of micro-batches, and the speed
shortens the intervals of maintenance and the retentions. So each table gets as many rounds of
maintenance and as many days of history as in a real week. The program's own apply step and
maintenance run side by side. A table of keys has one file for each micro-batch since the oldest
snapshot; that number times the trigger in seconds is the number with one micro-batch per second.
"""

from __future__ import annotations

import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Final

import click

from bench.findings import findings_option, write_findings
from coordinator_state.model.workload import MINUTE_MS, Workload, WorkloadSettings
from coordinator_state.replay.offsets import Semantics
from streaming.local.simulation.tables import SimulatedTables, simulated_tables
from streaming.tables.maintenance import maintain_tables
from streaming.tables.schemas import ALL_TABLES
from streaming.tables.writer_epoch import WriterEpoch
from streaming.views.output import output_of

_HOUR_S: Final = 3_600
_DAY_S: Final = 24 * _HOUR_S
_UPKEEP_S: Final = 600
_SNAPSHOTS_S: Final = _HOUR_S
_HISTORY_DAYS: Final = 3
_GROUPS: Final = 20
_REBALANCES_PER_HOUR: Final = 3.0
_EXIT_TOO_MANY: Final = 1


@click.command()
@click.option("--days", default=7, show_default=True, help="Of the simulated time.")
@click.option(
    "--trigger-s", default=120, show_default=True, help="Between two micro-batches, then."
)
@click.option("--speed", default=360, show_default=True, help="Simulated seconds in a second.")
@findings_option
@click.pass_context
def bench(
    ctx: click.Context, *, days: int, trigger_s: int, speed: int, findings: Path | None
) -> None:
    """Write micro-batches and do the maintenance for a simulated week; count files."""
    if _SNAPSHOTS_S % speed:
        raise click.BadParameter(f"must divide {_SNAPSHOTS_S}", param_hint="--speed")
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="coordinator-state-bench-"))
        tables = stack.enter_context(
            simulated_tables(
                f"{folder}/tables",
                Semantics.COORDINATOR,
                log_partitions=50,
                history="all",
                snapshot_retention=timedelta(seconds=_SNAPSHOTS_S // speed),
            )
        )
        week = Week(tables, f"{folder}/tables", trigger_s, speed)
        counts = []
        ended = threading.Event()
        tidying = stack.enter_context(ThreadPoolExecutor(1)).submit(week.tidy_up, ended)
        stack.callback(ended.set)
        for day in range(1, days + 1):
            week.write(day * _DAY_S)
            counts.append(week.most_files)
            week.most_files = {}
            click.echo(f"day {day} is over", err=True)
        ended.set()
        rounds, failed = tidying.result()
    # Snapshots are kept for their retention, and go with the first maintenance after it.
    bound = (_SNAPSHOTS_S + 2 * _UPKEEP_S) // trigger_s
    rows = [
        {
            "table": table.name,
            **{f"day_{day}": counted[table.name] for day, counted in enumerate(counts, 1)},
        }
        for table in ALL_TABLES
    ]
    output_of("text").rows(rows, ["table", *(f"day_{day}" for day in range(1, days + 1))])
    click.echo(
        f"{week.number:,} micro-batches, {rounds:,} rounds of maintenance ({failed:,} of them "
        f"incomplete); at most {week.most_behind_s:.1f} s behind their time"
    )
    click.echo(
        f"maintenance came every {week.number * trigger_s // rounds:,} s of the simulated time"
    )
    most = max(max(counted[t.name] for t in ALL_TABLES if not t.partition_by) for counted in counts)
    click.echo(
        f"a table of keys had {most} files at most; at a micro-batch a second that is "
        f"{most * trigger_s:,}; {bound} is the most that retention and maintenance allow"
    )
    write_findings(findings, most_files=most, micro_batches=week.number, maintenance_failed=failed)
    ctx.exit(_EXIT_TOO_MANY if most > bound else 0)


@dataclass(slots=True)
class Week:
    """Micro-batches of groups at work, at simulated times."""

    tables: SimulatedTables
    folder: str
    trigger_s: int
    speed: int
    number: int = 0
    most_files: dict[str, int] = field(default_factory=dict)
    most_behind_s: float = 0.0
    _began: float = field(default_factory=time.monotonic)
    _workload: Workload = field(
        default_factory=lambda: Workload(
            WorkloadSettings(
                groups=_GROUPS,
                commit_interval_ms=MINUTE_MS,
                rebalances_per_hour=_REBALANCES_PER_HOUR,
                stops_per_hour=0,
                from_ms=time.time_ns() // 1_000_000,
            )
        )
    )

    def write(self, until_s: int) -> None:
        """Write micro-batches up to a simulated time."""
        while (at_s := self.number * self.trigger_s) < until_s:
            ahead_s = at_s / self.speed - (time.monotonic() - self._began)
            if ahead_s > 0:
                time.sleep(ahead_s)
            self.most_behind_s = max(self.most_behind_s, -ahead_s)
            self._workload.run(self.trigger_s * 1000)
            self.tables.take(self._workload.take())
            self.number += 1
            self._count_files()

    def tidy_up(self, ended: threading.Event) -> tuple[int, int]:
        """Maintain the tables at the interval; return the numbers of rounds and of failed rounds.

        The interval lasts from start to start. A simulated round takes minutes, which an interval
        from its end would add.
        """
        rounds = failed = 0
        pause_s = _UPKEEP_S / self.speed
        while not ended.wait(pause_s):
            began = time.monotonic()
            now = datetime.fromtimestamp(self._workload.now_ms / 1000, timezone.utc)
            done = list(
                maintain_tables(
                    WriterEpoch.current(self.folder), timedelta(days=_HISTORY_DAYS), now=now
                )
            )
            rounds += 1
            failed += any(maintenance.error for maintenance in done)
            pause_s = max(0.0, _UPKEEP_S / self.speed - (time.monotonic() - began))
        return rounds, failed

    def _count_files(self) -> None:
        for table in ALL_TABLES:
            files = _files(Path(table.path(self.folder)))
            self.most_files[table.name] = max(files, self.most_files.get(table.name, 0))


def _files(path: Path) -> int:
    return sum(1 for file in path.rglob("*.parquet") if "_delta_log" not in file.parts)


if __name__ == "__main__":
    bench(prog_name="python -m bench.week")
