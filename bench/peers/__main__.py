"""`python -m bench.peers`: the comparison as a command.

Every tool reads the same `__consumer_offsets` of one broker, one tool after the other. The broker
is the oracle.
"""

from __future__ import annotations

import json
import logging
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any, Final

import click

from bench.peers.burrow import Burrow
from bench.peers.console import CommittedConsoleConsumer, ConsoleConsumer, GroupCommand
from bench.peers.kminion import Kminion, KminionAdmin
from bench.peers.log import BROKER_PROPERTIES, CLASSES, Commits, written_log
from bench.peers.own import Metrics, Tables
from bench.peers.tool import Tool
from bench.peers.trial import Judge, Start, Steps, Trial, measure, measure_start
from bench.peers.truth import broker_offsets
from streaming.kafka.group_admin import GroupAdmin
from streaming.local.broker.embedded import EmbeddedBroker
from streaming.run.stderr import StderrHandler, write_note
from streaming.views.output import output_of

logger = logging.getLogger(__name__)

COLUMNS: Final = (
    *("tool", "first_right_s", "settled_s", "settled_cpu_s", "wrong", "peak_memory_mb"),
    *("idle_cpu_s", "busy_cpu_s", "fresh_p50_s", "fresh_p99_s", "not_fresh"),
)
_NEVER: Final = "never"
_binary = click.Path(exists=True, dir_okay=False, resolve_path=True, path_type=Path)

Maker = Callable[[str, Path, Sequence[str]], Tool]


@click.command()
@click.option("--kminion", type=_binary, help="The binary of kminion.")
@click.option("--burrow", type=_binary, help="The binary of Burrow.")
@click.option("--rounds", default=20, show_default=True, help="Commits of each offset in the log.")
@click.option("--starts", default=3, show_default=True, help="Starts of each tool.")
@click.option("--deadline", default=60.0, show_default=True, help="Seconds for the first answer.")
@click.option("--window", default=45.0, show_default=True, help="Seconds of each CPU window.")
@click.option("--rate", default=20.0, show_default=True, help="Commits of ten offsets a second.")
@click.option("--commits", default=100, show_default=True, help="Commits timed for freshness.")
@click.option("--only", multiple=True, help="Only tools with this word in their name; repeatable.")
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write every figure into this file, as JSON.",
)
def peers(
    *,
    kminion: Path | None,
    burrow: Path | None,
    rounds: int,
    starts: int,
    deadline: float,
    window: float,
    rate: float,
    commits: int,
    only: tuple[str, ...],
    output: Path | None,
) -> None:
    """Run this program and other tools beside one broker, and hold their answers against its own.

    A tool without a binary is left out. Takes about four minutes for each tool.
    """
    logging.getLogger().handlers[:] = [StderrHandler()]
    for name in ("bench", "__main__"):
        logging.getLogger(name).setLevel(logging.INFO)
    steps = Steps(deadline_s=deadline, window_s=window, commits_per_s=rate, fresh_commits=commits)
    makers = [
        maker
        for name, maker in _makers(kminion, burrow)
        if not only or any(word in name for word in only)
    ]
    with (
        tempfile.TemporaryDirectory(prefix="coordinator-state-peers-") as folder,
        EmbeddedBroker(properties=BROKER_PROPERTIES) as broker,
    ):
        broker.create_offsets_topic()
        servers = broker.bootstrap_servers
        with written_log(servers, rounds) as log, GroupAdmin(servers) as admin:
            judge = Judge(log, partial(broker_offsets, admin, log.groups))
            kinds = list(log.classes.values())
            classes = {kind: kinds.count(kind) for kind in CLASSES}
            trials = []
            for trial in _trials(makers, servers, Path(folder), judge, steps, starts):
                trials.append(trial)
                _write(output, trials, classes)
    _show(trials, classes)


def _write(output: Path | None, trials: list[Trial], classes: dict[str, int]) -> None:
    if output is not None:
        report = {"offsets": classes, "tools": [trial.as_json for trial in trials]}
        output.write_text(json.dumps(report, indent=2) + "\n")


def _makers(kminion: Path | None, burrow: Path | None) -> Iterator[tuple[str, Maker]]:
    """Names of tools and how to make them, in the order of their trials.

    kminion is first: it is the one that cares how log partitions end, and later they all end with
    a plain commit.
    """
    if kminion is None:
        write_note("kminion is left out: no --kminion")
    else:
        yield Kminion.name, partial(Kminion, binary=kminion)
        yield KminionAdmin.name, partial(KminionAdmin, binary=kminion)
    if burrow is None:
        write_note("Burrow is left out: no --burrow")
    else:
        yield Burrow.name, partial(Burrow, binary=burrow)
    for own in (ConsoleConsumer, CommittedConsoleConsumer, GroupCommand, Tables, Metrics):
        yield own.name, own


def _trials(
    makers: list[Maker], servers: str, folder: Path, judge: Judge, steps: Steps, starts: int
) -> Iterator[Trial]:
    commits = Commits(servers, judge.log)
    numbers = count()
    for maker in makers:

        def make(maker: Maker = maker) -> Tool:
            return maker(servers, folder / str(next(numbers)), judge.log.groups)

        load = os.getloadavg()[0]
        trial = measure(make, judge, commits, steps)
        trial.load_average = load
        for _ in range(starts - 1):
            trial.starts.append(measure_start(make, judge, steps.deadline_s))
        logger.info("load average %.1f; %s", load, row(trial))
        yield trial
    commits.close()


def row(trial: Trial) -> dict[str, Any]:
    """The printed figures of a trial; of several starts, the median."""

    def middle(of: Callable[[Start], float | None], missing: Any = None) -> Any:
        values = [value for start in trial.starts if (value := of(start)) is not None]
        return round(median(values), 1) if values else missing

    return {
        "tool": trial.tool,
        "first_right_s": middle(lambda start: start.right_s, _NEVER),
        "settled_s": middle(lambda start: start.settled_s, _NEVER),
        "settled_cpu_s": middle(lambda start: start.settled_cpu_s),
        "wrong": trial.wrong,
        "peak_memory_mb": trial.peak_memory_bytes // 10**6,
        "idle_cpu_s": _rounded(trial.idle_cpu_s, 1),
        "busy_cpu_s": _rounded(trial.busy_cpu_s, 1),
        "fresh_p50_s": _rounded(trial.fresh(50), 2),
        "fresh_p99_s": _rounded(trial.fresh(99), 2),
        "not_fresh": trial.not_fresh,
        **trial.wrong_by_class,
    }


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)


def _show(trials: list[Trial], classes: dict[str, int]) -> None:
    """The figures, then the wrong offsets of each class."""
    output = output_of("text")
    rows = [row(trial) for trial in trials]
    output.rows(rows, COLUMNS)
    click.echo()
    total = sum(classes.values())
    output.rows(
        [
            {
                "class": "all",
                "offsets": total,
                **{figures["tool"]: figures["wrong"] for figures in rows},
            }
        ]
        + [
            {
                "class": kind,
                "offsets": size,
                **{figures["tool"]: figures.get(kind, 0) for figures in rows},
            }
            for kind, size in classes.items()
        ],
        ("class", "offsets", *(figures["tool"] for figures in rows)),
    )


if __name__ == "__main__":
    peers(prog_name="python -m bench.peers")
