"""Faults of the store and of the clocks while groups work: `python -m tests.faults --rounds 100`.

The groups of the demo, and some odder ones, work on a real broker. `run` has its tables in an S3
that answers 500 and 503, cuts connections before and after it has done the request, answers late,
and is down for a while. The clock of its machine jumps by up to ten days, ahead and back, or is
wrong from the start. The machine is suspended for longer than `delete.retention.ms`. Another
program compacts tables, and deletes files while `run` is stopped. And `run` is killed. After each
round the tables must be fresh again.

With `--at-writes`, each fault happens at one write to the store (`tests.faults.at_writes`).

Every few rounds the groups rest, and all tables, history included, are compared row by row with
those of one load that nobody disturbed, and with the broker's own answers.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Final

import click
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError, TableNotFoundError

from coordinator_state.insight.group_status import StatusRules
from streaming.errors import ConfigurationError
from streaming.lag.freshness import Freshness
from streaming.run.stderr import write_note
from streaming.tables.clock import utc_now
from streaming.tables.reader import TableReader
from streaming.tables.schemas import TABLES
from streaming.views.output import output_of
from tests.faults.at_writes import AtWrites
from tests.faults.faulty_run import CLOCKS, Clocks
from tests.faults.faulty_store import DOWN, FAULTY, SOUND
from tests.faults.trial import FAILED_START, PATIENCE_S, Trial, endure
from tests.kills.__main__ import SHORT_LIVED
from tests.kills.fault_points import pids_of
from tests.kills.killed_tables import BUSY, CONTINUOUS, kill_all
from tests.support.eventually import wait_until

_FAULTS_OF_A_ROUND: Final = 3
_TABLES_COMPACTED: Final = 4
_HOUR_S: Final = 3600.0
_JUMPS_S: Final = (-6 * _HOUR_S, -5.0, 5.0, 6 * _HOUR_S, 240 * _HOUR_S)
_SUSPENDED_S: Final = 36 * _HOUR_S
"""Longer than `delete.retention.ms`, which is a day."""
_DIFFERENCES_SHOWN: Final = 20

KILL: Final = "a kill"
JUMP: Final = "a jump of the clock"
WRONG_START: Final = "a start with a wrong clock"
SUSPEND: Final = "a suspended machine"
COMPACTION: Final = "a foreign compaction"
VACUUM: Final = "a foreign compaction and VACUUM without a retention, while run is stopped"
_WITHOUT_STORE: Final = (
    *(KILL, JUMP, WRONG_START, SUSPEND),
    *(COMPACTION, VACUUM),
)
_OF_STORE: Final = (FAULTY, FAULTY, DOWN)


class MixedFaults(Trial):
    """Rounds of faults of the store, of clocks, of the machine and of other programs."""

    rounds_between_comparisons = 5

    @property
    def _clocks(self) -> Path:
        return self.tables.folder / "clocks"

    def disturb(self, count: int) -> None:
        """Some rounds of three faults; after each round the tables must be fresh again."""
        for _ in range(count):
            self._round()

    def _round(self) -> None:
        kinds = (*_WITHOUT_STORE, *_OF_STORE)
        faults = [self.choose.choice(kinds) for _ in range(_FAULTS_OF_A_ROUND)]
        self.endured.rounds += 1
        write_note(f"round {self.endured.rounds}: {', '.join(faults)}")
        with ExitStack() as run:
            process = run.enter_context(self._run())
            for fault in faults:
                self.endured.faults[fault] += 1
                if fault == JUMP:
                    Clocks(self.choose.choice(_JUMPS_S)).write(self._clocks)
                    self._wait()
                    Clocks().write(self._clocks)
                elif fault == COMPACTION:
                    self._compact(vacuums=False)
                elif fault in _OF_STORE:
                    self.store.obey(fault)
                    self._wait()
                    self.store.obey(SOUND)
                else:
                    if fault == SUSPEND:
                        self._suspend(process)
                    elif fault == VACUUM:
                        # A micro-batch without an end could not be rolled back then. Nor could one
                        # of the run before, which the start of this one rolls back.
                        self.endured.differences += filter(None, [self._await_fresh(process)])
                        process.terminate()
                        process.wait(PATIENCE_S)
                    run.close()
                    self._disturb_at_rest(fault)
                    # The other machines have not gone on as the clocks of some kinds have.
                    process = run.enter_context(self._run())
                self._wait()
                if process.poll() is not None:
                    # A start needs the store, and retries for some seconds only.
                    self.endured.faults[FAILED_START] += 1
                    if fault not in _OF_STORE:
                        status = process.returncode
                        self.endured.differences.append(f"run ended with {status} after {fault}")
                    process = run.enter_context(self._run())
            difference = self._await_fresh(process)
            if difference and _has_ended_in(process, faults):
                self.endured.faults[FAILED_START] += 1
                difference = self._await_fresh(run.enter_context(self._run()))
            self.endured.differences += filter(None, [difference])

    def _disturb_at_rest(self, fault: str) -> None:
        """Disturb the tables while `run` is stopped."""
        if fault == WRONG_START:
            with self._run(Clocks(self.choose.choice(_JUMPS_S))):
                self._wait()
        elif fault == VACUUM:
            self._compact(vacuums=True)

    def _compact(self, *, vacuums: bool) -> None:
        """Compact some tables as another program does, and delete the files that it replaces."""
        for table in self.choose.sample(TABLES, _TABLES_COMPACTED):
            path = table.path(self.tables.path)
            # A commit of the run may come first.
            with suppress(CommitFailedError, TableNotFoundError):
                opened = DeltaTable(path)
                opened.optimize.compact()
                if vacuums:
                    opened.vacuum(
                        retention_hours=0, enforce_retention_duration=False, dry_run=False
                    )

    def _wait(self) -> None:
        """Let a fault last. No state of `run` ends it earlier."""
        time.sleep(self.choose.uniform(1, 8))

    @contextmanager
    def _run(self, clocks: Clocks | None = None) -> Iterator[subprocess.Popen[bytes]]:
        """A run that is killed at the end of the block, if it has not ended before."""
        (clocks or Clocks()).write(self._clocks)
        module = [sys.executable, "-m", "tests.faults.faulty_run"]
        environment = {**self.store.environment, CLOCKS: str(self._clocks)}
        command = [*module, *self.tables.arguments(*BUSY, *CONTINUOUS)]
        with self.tables.started(command, environment) as process:
            try:
                yield process
            finally:
                wait_until(lambda: kill_all(process.pid))

    def _suspend(self, process: subprocess.Popen[bytes]) -> None:
        """Its clocks show afterwards that the machine was suspended."""
        pids = pids_of(process.pid)
        _signal(pids, signal.SIGSTOP)
        self._wait()
        Clocks(_SUSPENDED_S, _SUSPENDED_S).write(self._clocks)
        _signal(pids, signal.SIGCONT)
        # It notices the suspend, and reloads the log.
        for _ in range(_FAULTS_OF_A_ROUND):
            self._wait()

    def _await_fresh(self, process: subprocess.Popen[bytes]) -> str:
        """Wait until the tables are those of now, and no group is unknown for their age.

        Returns the difference if they do not become so, else nothing.
        """
        until_s = time.monotonic() + PATIENCE_S
        began, fresh = utc_now(), None
        while time.monotonic() < until_s and process.poll() is None:
            # The first start has not created the tables yet.
            with suppress(ConfigurationError):
                fresh = Freshness.of(TableReader(self.tables.path))
                is_new = fresh.sampled_at is not None and fresh.sampled_at > began
                if is_new and fresh.verdict(StatusRules()) is None:
                    return ""
            time.sleep(1)
        ended = f"run ended with status {process.poll()}: {self.tables.last_line}"
        return f"not fresh, {ended}; {fresh}"


def _has_ended_in(process: subprocess.Popen[bytes], faults: Collection[str]) -> bool:
    """Whether a run ended in a round in which the store failed: maybe while it started."""
    return process.poll() is not None and not {FAULTY, DOWN}.isdisjoint(faults)


def _signal(pids: set[int], number: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


@click.command()
@click.option("--rounds", default=100, show_default=True, help="Rounds of three faults each.")
@click.option("--seed", default=time.time_ns, help="The faults depend on it.  [default: new]")
@click.option("--engine", type=click.Choice(["driver", "spark"]), default="driver")
@click.option("--at-writes", is_flag=True, help="Rounds of one fault, at a write to the store.")
def main(rounds: int, seed: int, engine: str, *, at_writes: bool) -> None:
    """Disturb a run by faults of its store and its clocks, and compare its tables."""
    os.environ.update(SHORT_LIVED)
    folder = Path(tempfile.mkdtemp(prefix="coordinator-state-faults-"))
    write_note(f"seed {seed}, in {folder}")
    endured = endure(folder, rounds, seed, engine, AtWrites if at_writes else MixedFaults)
    if not endured.differences:
        shutil.rmtree(folder)
    for difference in endured.differences[:_DIFFERENCES_SHOWN]:
        write_note(difference)
    counts = "\n".join(
        f"{count:6} {fault}"
        for fault, count in sorted((endured.faults + Counter(endured.store)).items())
    )
    output_of("text").result(
        {"seed": seed, **asdict(endured)},
        f"{counts}\nseed {seed}: {endured.rounds} rounds; {endured.comparisons} "
        f"comparisons; rows {endured.rows}; {len(endured.differences)} differences",
    )
    sys.exit(1 if endured.differences else 0)


if __name__ == "__main__":
    main()
