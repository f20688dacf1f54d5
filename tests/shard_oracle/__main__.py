"""`python -m tests.shard_oracle`: the loader beside Kafka's own shard, as often as you like."""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from pathlib import Path

import click

from streaming.errors import ConfigurationError
from streaming.jvm.jars import KAFKA_VERSION
from tests.shard_oracle.random_sequence import run_sequence
from tests.shard_oracle.shard_process import ShardProcess

STEPS = 60


@click.command()
@click.option("--version", default=KAFKA_VERSION, show_default=True, help="Of Kafka, from 4.0.")
@click.option("--runs", default=100, show_default=True, help="Sequences.")
@click.option("--seed", default=1, show_default=True, help="Of the first; the next is one more.")
@click.option("--steps", default=STEPS, show_default=True, help="Of a sequence, at most.")
@click.option("--verbose", is_flag=True, help="Print the steps of every sequence.")
def main(version: str, runs: int, seed: int, steps: int, verbose: bool) -> None:
    """Put random sequences of requests to Kafka's own coordinator shard.

    The reference loader and a second shard load its log; their groups and offsets must be equal.

    Of a sequence that makes a difference the steps up to it are printed, and its seed: --seed N
    --runs 1 does it again. Exits with 1 if there was any.
    """
    different, done, seen = 0, 0, Counter[str]()
    with (
        tempfile.TemporaryDirectory(prefix="shard-oracle-") as folder,
        ShardProcess(Path(folder), version) as process,
    ):
        for number in range(seed, seed + runs):
            outcome = run_sequence(process, number, steps)
            done += len(outcome.steps)
            seen += outcome.seen
            different += outcome.error is not None
            if verbose or outcome.error is not None:
                click.echo(str(outcome))
    click.echo(f"{runs} sequences, {done} steps, {different} different")
    click.echo(", ".join(f"{count} {name}" for name, count in sorted(seen.items())))
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    try:
        main()
    except ConfigurationError as error:
        sys.exit(f"Error: {error}")
