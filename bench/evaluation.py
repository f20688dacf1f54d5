"""`python -m bench.evaluation`: the evaluations that `run` makes beside the query."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final, get_args

import click

from bench.hour import Shape, clock_at, read_hour
from streaming.lag.evaluation import Evaluation
from streaming.lag.judged_changes import AGEING
from streaming.lag.paces import KnownPaces
from streaming.run.evaluation import StatusEvaluation
from streaming.run.session import EngineName, build_session
from streaming.run.spark_evaluation import SparkEvaluation
from streaming.tables.opening import open_for_writing
from streaming.tables.reader import TableReader
from streaming.tables.schemas import GROUP_LAG
from streaming.views.output import output_of

_MINUTES: Final = 7
"""Rates are over five minutes."""
_APART_S: Final = 5


@dataclass(slots=True)
class _Rounds:
    """The seconds of each round, and the processor's in this process and elsewhere."""

    wall_s: list[float] = field(default_factory=list)
    processor_s: list[float] = field(default_factory=list)
    elsewhere_s: float = 0.0

    @contextmanager
    def round(self) -> Iterator[None]:
        wall_s, processor_s, self.elsewhere_s = time.perf_counter(), time.process_time(), 0.0
        yield
        self.wall_s.append(time.perf_counter() - wall_s)
        self.processor_s.append(time.process_time() - processor_s + self.elsewhere_s)

    def row(self, measured: str, rows: int) -> dict[str, object]:
        return {
            **{"measured": measured, "rows": rows, "rounds": len(self.wall_s)},
            "median_s": round(sorted(self.wall_s)[len(self.wall_s) // 2], 3),
            "processor_s": round(sorted(self.processor_s)[len(self.processor_s) // 2], 3),
        }


@click.command()
@click.option("--groups", default=10_000, show_default=True)
@click.option("--topic-partitions", default=10_000, show_default=True)
@click.option("--rounds", default=8, show_default=True)
@click.option("--engine", type=click.Choice(get_args(EngineName)), default="driver")
def bench(groups: int, topic_partitions: int, rounds: int, engine: EngineName) -> None:
    """Measure evaluations five seconds apart, and their writes.

    Of the topic partitions one in ten is written to, and its groups commit every ten seconds. With
    the engine `spark`, the processor time of a write is the time that it takes.
    """
    shape = Shape(groups=groups, topic_partitions=topic_partitions, micro_batches=60 * _MINUTES)
    evaluating, writing, both = _Rounds(), _Rounds(), _Rounds()
    with read_hour(None, shape, is_evaluated=False) as tables:
        writer = open_for_writing(tables, "bench")
        tasks = None
        if engine == "spark":
            tasks = SparkEvaluation(writer, build_session(engine=engine))
        kept = StatusEvaluation(writer, tasks=tasks)
        last, known = TableReader(tables).moment, KnownPaces()
        for number in reversed(range(rounds + 1)):
            at = last - timedelta(seconds=number * _APART_S)
            with clock_at(at):
                reader = TableReader(tables, as_of=at)
                first = _Rounds() if number == rounds else None
                if tasks is not None:
                    together = first or both
                    with together.round():
                        together.elsewhere_s = kept.evaluate(reader, known).processor_s
                    continue
                with (first or evaluating).round():
                    evaluation = Evaluation.of(reader, known=known)
                with (first or writing).round():
                    kept.keep(evaluation)
        if tasks is not None:
            evaluation = Evaluation.of(reader)
        rows = _require_kept(tables, evaluation)
    measured = {"evaluation": evaluating, "write": writing}
    if tasks is not None:
        measured = {"both": both}
    output_of("text").rows(
        [measurement.row(name, rows) for name, measurement in measured.items()],
        ("measured", "rows", "rounds", "median_s", "processor_s"),
    )


def _require_kept(tables: str, evaluation: Evaluation) -> int:
    """Compare the tables with the last evaluation, and return the number of their rows."""
    reader = TableReader(tables)
    names = [name for name in GROUP_LAG.schema.names if name not in AGEING]
    kept, expected = (
        rows.select(names).sort_by([(name, "ascending") for name in GROUP_LAG.key])
        for rows in (reader.read(GROUP_LAG.name), evaluation.group_lag())
    )
    if not expected.num_rows or not kept.cast(expected.schema).equals(expected):
        raise click.ClickException("the tables differ from the last evaluation")
    return int(kept.num_rows)


if __name__ == "__main__":
    bench(prog_name="python -m bench.evaluation")
