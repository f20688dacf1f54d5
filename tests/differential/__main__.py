"""`python -m tests.differential`: random logs in front of a real broker, as often as you like."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import get_args

import click

from streaming.errors import ConfigurationError
from streaming.jvm.jars import KAFKA_VERSION
from streaming.run.session import EngineName, build_session
from tests.differential.broker_round import BrokerRounds, RoundResult
from tests.differential.log_file import read_kafka_version, read_logs, write_logs
from tests.differential.random_round import RoundLog, draw_round
from tests.differential.tables_of_round import TablesOfRound
from tests.support.logs.logs import segment

SHOWN_LINES = 10


class _Differential:
    """Rounds of one broker; a log with a difference is written to `folder`.

    The broker is compared with `tables`, or else with the reference loader.
    """

    def __init__(
        self, rounds: BrokerRounds, folder: Path, *, compacts: bool, tables: TablesOfRound | None
    ) -> None:
        self._rounds = rounds
        self._folder = folder
        self._compacts = compacts
        self._tables = tables

    def judge(self, logs: Mapping[int, RoundLog]) -> RoundResult:
        """One round of drawn logs."""
        return self.judge_raw({p: self._segment(p, log) for p, log in logs.items()})

    def judge_raw(self, logs: Mapping[int, bytes]) -> RoundResult:
        """One round of logs as record batches."""
        logs = self._rounds.compacted(logs) if self._compacts else logs
        return self._rounds.run(logs, self._tables)

    def keep(self, name: str, log_partition: int, log: RoundLog) -> Path:
        """Write a log to a file."""
        path = self._folder / f"{name}.json"
        events = log.events(log_partition, self._rounds.topics, self._rounds.rules)
        logs = {log_partition: events}
        write_logs(path, self._rounds.broker.version, self._rounds.topics, logs)
        return path

    def _segment(self, log_partition: int, log: RoundLog) -> bytes:
        events = log.events(log_partition, self._rounds.topics, self._rounds.rules)
        return segment(events)[0]


@click.command()
@click.option("--version", default=KAFKA_VERSION, show_default=True, help="Of Kafka.")
@click.option("--rounds", default=10, show_default=True, help="Broker starts, 50 logs each.")
@click.option("--seed", default=1, show_default=True, help="Of the first round.")
@click.option("--compact", is_flag=True, help="Let the broker's cleaner go over the logs before.")
@click.option(
    "--engine",
    type=click.Choice(get_args(EngineName)),
    help="Compare the tables of this engine.  [default: the reference loader, without tables]",
)
@click.option("--replay", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--found",
    "kept",
    type=click.Path(file_okay=False, path_type=Path),
    default="differential-found",
    show_default=True,
    help="Where logs that make a difference are written.",
)
def main(
    version: str,
    rounds: int,
    seed: int,
    compact: bool,
    engine: EngineName | None,
    replay: Path | None,
    kept: Path,
) -> None:
    """Put random logs of __consumer_offsets in front of a real broker and compare.

    A log with a difference is written to a file that --replay tries again. Exits with 1 if there
    was any.
    """
    with ExitStack() as opened:
        folder = opened.enter_context(tempfile.TemporaryDirectory(prefix="differential-"))
        if replay is not None:
            version = read_kafka_version(replay)
        broker = opened.enter_context(BrokerRounds(version, Path(folder) / "broker"))
        tables = None
        if engine is not None:
            tables = TablesOfRound(build_session(engine=engine), engine)
            opened.callback(tables.session.stop)
        differential = _Differential(broker, kept, compacts=compact, tables=tables)
        if replay is not None:
            logs = read_logs(replay, broker.topics)
            _exit_with(differential.judge_raw({p: segment(log)[0] for p, log in logs.items()}))
        different = 0
        for number in range(seed, seed + rounds):
            logs_of_round = draw_round(number)
            result = differential.judge(logs_of_round)
            click.echo(f"Kafka {version}, seed {number}: {result.summary}")
            different += len(result.differences)
            for log_partition, lines in result.differences.items():
                click.echo("\n".join(f"  {line}" for line in lines[:SHOWN_LINES]))
                name = f"kafka-{version}-seed-{number}-log-{log_partition}"
                path = differential.keep(name, log_partition, logs_of_round[log_partition])
                click.echo(f"  make differential REPLAY={path}")
        click.echo(f"{rounds} rounds, {rounds * len(logs_of_round)} logs, {different} different")
        sys.exit(1 if different else 0)


def _exit_with(result: RoundResult) -> None:
    click.echo(result.summary)
    for lines in result.differences.values():
        click.echo("\n".join(f"  {line}" for line in lines))
    sys.exit(1 if result.differences else 0)


if __name__ == "__main__":
    try:
        main()
    except ConfigurationError as error:
        sys.exit(f"Error: {error}")
