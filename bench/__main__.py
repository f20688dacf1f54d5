"""`python -m bench`: the comparison as a command. Exit status 1 where tables are not equal."""

from __future__ import annotations

import logging
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import get_args

import click

from bench.backfill import MEASURED, BackfillReport, compare_backfill
from bench.findings import findings_option, write_findings
from coordinator_state.model.plain_commits import PlainCommits
from streaming.run.session import EngineName
from streaming.run.stderr import StderrHandler, write_note
from streaming.views.output import OUTPUTS, Output, output_of

_COMMITS = 20_000_000
_COMMITS_IN_TRANSACTIONS = 5_000_000
_EXIT_DIFFERENT = 1
_DIFFERENCES_SHOWN = 10
_OWN_LOGGERS = ("bench", "streaming")


@click.command()
@click.option(
    "--commits",
    type=click.IntRange(min=1),
    help="Offset commits in the log.  [default: 20000000, in transactions 5000000]",
)
@click.option(
    "--keys",
    type=click.IntRange(min=1),
    default=100_000,
    show_default=True,
    help="(group, topic, partition)s that they are for, ten to a group.",
)
@click.option(
    "--in-transactions",
    is_flag=True,
    help="Each commit in a transaction, of ten commits; every tenth is aborted.",
)
@click.option(
    "--busy-share",
    type=click.FloatRange(0, 1),
    default=0.0,
    show_default=True,
    help="Share of the commits in one of the 50 log partitions.",
)
@click.option(
    "--engine",
    type=click.Choice(get_args(EngineName)),
    default="driver",
    show_default=True,
    help="The engine of `run`.",
)
@click.option(
    "--groups-sampled",
    type=click.IntRange(min=1),
    default=200,
    show_default=True,
    help="Groups about which the broker is asked.",
)
@click.option("--without-console", is_flag=True, help="Without Kafka's console consumer.")
@findings_option
@click.option("--keep", is_flag=True, help="Keep the broker's folder and the tables; tell where.")
@click.option("--output", type=click.Choice(list(OUTPUTS)), default="text", show_default=True)
@click.pass_context
def bench(
    ctx: click.Context,
    *,
    commits: int | None,
    keys: int,
    in_transactions: bool,
    busy_share: float,
    engine: EngineName,
    groups_sampled: int,
    without_console: bool,
    findings: Path | None,
    keep: bool,
    output: str,
) -> None:
    """Compare the backfill of this program with the broker's own load of the same log."""
    commits = commits or (_COMMITS_IN_TRANSACTIONS if in_transactions else _COMMITS)
    if keys > commits:
        raise click.UsageError("--keys: every key is committed at least once, so --commits too few")
    logging.getLogger().handlers[:] = [StderrHandler()]
    for name in _OWN_LOGGERS:
        logging.getLogger(name).setLevel(logging.INFO)
    with ExitStack() as stack:
        if keep:
            folder = Path(tempfile.mkdtemp(prefix="coordinator-state-bench-"))
            write_note(f"everything is kept in {folder}")
        else:
            folder = Path(
                stack.enter_context(tempfile.TemporaryDirectory(prefix="coordinator-state-bench-"))
            )
        now_ms = time.time_ns() // 1_000_000
        sequence = PlainCommits(
            count=commits,
            key_count=keys,
            from_ms=now_ms - commits,
            in_transactions=in_transactions,
            busy_share=busy_share,
        )
        report = compare_backfill(
            folder,
            sequence,
            engine=engine,
            groups_sampled=groups_sampled,
            with_console=not (in_transactions or without_console),
        )
    write_findings(findings, **report.findings)
    show(report, output_of(output))
    ctx.exit(0 if report.is_equal else _EXIT_DIFFERENT)


def show(report: BackfillReport, output: Output) -> None:
    """The measurements as a table, then a verdict for the tables of each run."""
    output.rows(report.rows, MEASURED)
    for name, equality in report.equalities.items():
        output.result(
            {
                "run": name,
                "is_equal": equality.is_equal,
                "offsets": equality.offsets,
                "offsets_wrong": len(equality.wrong_offsets),
                "groups_sampled": equality.groups_sampled,
                "answers_equal": equality.broker.counts,
                "answers_different": len(equality.broker.differing),
                "records_read": equality.records_read,
                "records_unaccounted": equality.records_unaccounted,
            },
            f"{name}: {equality.summary}",
        )
        for key, (expected, table_offset) in list(equality.wrong_offsets.items())[
            :_DIFFERENCES_SHOWN
        ]:
            write_note(f"{name}: {key}: committed {expected}, in the tables {table_offset}")
        for difference in equality.broker.differences[:_DIFFERENCES_SHOWN]:
            write_note(f"{name}: {difference}")


if __name__ == "__main__":
    bench(prog_name="python -m bench")
