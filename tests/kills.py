"""A `run` that is killed again and again while groups work: `python -m tests.kills --kills 200`.

The groups of the demo commit, rebalance, set back, delete and use transactions on a real broker.
`run` is started, killed with SIGKILL (it, Spark's JVM and its workers) at a random moment, be it
while it starts or in the middle of a micro-batch, and started again on the same folders. In the end
the tables are held against the broker's answers, and, history included, row by row against those of
one load that nobody disturbed.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from streaming.answers.broker_answers import BrokerAnswers
from streaming.answers.table_answers import TableAnswers
from streaming.answers.verify import verify
from streaming.broker.embedded import EmbeddedBroker
from streaming.demo.groups import BROKER_PROPERTIES, Clients, create_topics
from streaming.demo.traffic import Traffic
from streaming.errors import ConfigurationError
from streaming.output import output_of, write_note
from streaming.tables.reader import TableReader
from tests.undisturbed import differences, load, run_command, table_rows

_PATIENCE_S = 120.0
# Of a start to its first micro-batch and some more of them, on two cores.
_LONGEST_LIFE_S = 24.0
_DIFFERENCES_SHOWN = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Survived:
    """What was tried, and what differs in the end."""

    kills: int
    kills_in_start: int
    versions: int
    rows: dict[str, int]
    differences: list[str]


def kill_again_and_again(folder: Path, kills: int, seed: int) -> Survived:
    """Do it; everything that is written is below `folder`."""
    choose = random.Random(seed)
    tables, undisturbed = folder / "tables", folder / "undisturbed"
    started = 0
    with EmbeddedBroker(folder=folder / "broker", properties=BROKER_PROPERTIES) as broker:
        servers = broker.bootstrap_servers
        broker.create_offsets_topic()
        create_topics(Clients(servers))
        with closing(Traffic(servers)) as traffic:
            traffic.start()
            for number in range(kills):
                before = _version(tables)
                _live_and_die(servers, tables, choose.uniform(1, _LONGEST_LIFE_S))
                started += _version(tables) == before
                write_note(f"kill {number + 1}: load_progress is at version {_version(tables)}")
            traffic.stop(_PATIENCE_S)
        for name in (tables, undisturbed):
            load(servers, name)
        with BrokerAnswers(servers) as answers:
            verification = verify(
                answers, lambda: TableAnswers(TableReader(str(tables))), timeout_s=_PATIENCE_S
            )
    found, expected = table_rows(tables), table_rows(undisturbed)
    return Survived(
        kills=kills,
        kills_in_start=started,
        versions=_version(tables),
        rows={name: sum(rows.values()) for name, rows in found.items()},
        differences=[
            *map(str, verification.differences),
            *differences(found, expected),
        ],
    )


def _live_and_die(servers: str, tables: Path, life_s: float) -> None:
    with subprocess.Popen(
        run_command(servers, tables, "--lag-interval", "off"),
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        try:
            process.wait(life_s)
            raise RuntimeError(f"run ended with exit status {process.returncode}")
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)


def _version(tables: Path) -> int:
    try:
        return TableReader(str(tables)).version
    except ConfigurationError:  # they are not there yet
        return -1


@click.command()
@click.option("--kills", default=200, show_default=True)
@click.option("--seed", default=time.time_ns, help="What the moments depend on.  [default: new]")
def main(kills: int, seed: int) -> None:
    """Kill a run again and again, and compare."""
    with tempfile.TemporaryDirectory(prefix="coordinator-state-kills-") as folder:
        survived = kill_again_and_again(Path(folder), kills, seed)
    for difference in survived.differences[:_DIFFERENCES_SHOWN]:
        write_note(difference)
    output_of("text").result(
        {"seed": seed, **asdict(survived)},
        f"seed {seed}: {survived.kills} kills, {survived.kills_in_start} of them before a "
        f"micro-batch was finished; {survived.versions} versions; rows {survived.rows}; "
        f"{len(survived.differences)} differences",
    )
    sys.exit(1 if survived.differences else 0)


if __name__ == "__main__":
    main()
