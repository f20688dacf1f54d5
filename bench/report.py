"""`python -m bench.report`: every bench with its target, one after the other; `make bench`.

Each runs as a process of its own. A folder keeps its output and its figures, and `report.md` and
`report.json` are written there after each bench. The report shows a missed target, and does not
fail. It fails if tables differ. `--quick` runs the short benches with small logs.
"""

from __future__ import annotations

import json
import operator
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

from bench.processes import run_environment
from streaming.run.stderr import write_note
from streaming.views.output import output_of

Findings = Mapping[str, Mapping[str, float]]
"""By bench and by name."""
Benches = Mapping[str, Sequence[str]]
"""The arguments of `python -m` by bench."""

BENCHES: Final[Benches] = {
    "backfill": ("bench",),
    "transactions": ("bench", "--in-transactions"),
    "group_records": ("bench.group_records",),
    "consumer_groups": ("bench.group_records", "--type", "consumer"),
    "large_group": ("bench.group_records", "--members", "10000"),
    "freshness": ("bench.freshness",),
    "freshness_500ms": ("bench.freshness", "--trigger", "500 milliseconds"),
    "freshness_1m": ("bench.freshness", "--keys", "1000000", "--seconds", "40"),
    "startup": ("bench.startup",),
    "commands": ("bench.commands",),
    "sustained": ("bench.sustained", "--rate", "255000"),
    "backfill_100m": ("bench", "--commits", "100000000", "--without-console"),
}
QUICK: Final[Benches] = {
    "backfill": ("bench", "--commits", "2000000"),
    "group_records": ("bench.group_records", "--groups", "1000"),
    "freshness": ("bench.freshness", "--seconds", "10", "--idle-seconds", "10"),
    "startup": ("bench.startup", "--runs", "1"),
    "commands": ("bench.commands", "--runs", "1"),
}
"""Benches for a first look. Fixed costs are a larger share of small logs than of the full ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A row of the report: a figure, how it is told, and what it should at least or at most be."""

    name: str
    figure: Callable[[Findings], float]
    text: str
    bound: float
    is_least: bool

    def row(self, findings: Findings) -> dict[str, Any]:
        """The figure beside its target; without one where a bench that it needs did not run."""
        word = "at least" if self.is_least else "at most"
        row = {"what": self.name, "target": f"{word} {self.text.format(self.bound)}"}
        try:
            measured = self.figure(findings)
        except KeyError:
            return row
        share = measured / self.bound if self.is_least else self.bound / measured
        return {
            **row,
            "measured": self.text.format(measured),
            "share_of_target": round(share, 2),
            "is_met": share >= 1,
        }


def _of(bench: str, name: str) -> Callable[[Findings], float]:
    return lambda findings: findings[bench][name]


def _growth(name: str, small: str, large: str) -> Callable[[Findings], float]:
    return lambda findings: findings[large][name] / findings[small][name]


def _least(
    name: str, figure: Callable[[Findings], float], bound: float, text: str = "{:.2f}"
) -> Target:
    return Target(name=name, figure=figure, text=text, bound=bound, is_least=True)


def _most(
    name: str, figure: Callable[[Findings], float], bound: float, text: str = "{:.2f}"
) -> Target:
    return Target(name=name, figure=figure, text=text, bound=bound, is_least=False)


_HEADS = ("measured ", "start ", "command ")
"""The first column of the tables of benches."""
_BROKER = "{:.2f} x broker's load"
_CONSOLE = "{:.1f} x console consumer"
TARGETS: Final = (
    _least("plain commits, warm", _of("backfill", "warm_times_broker"), 1.6, _BROKER),
    _least("plain commits, warm, and console", _of("backfill", "warm_times_console"), 12, _CONSOLE),
    _least("plain commits, cold, and console", _of("backfill", "cold_times_console"), 4, _CONSOLE),
    _least("transactions, warm", _of("transactions", "warm_times_broker"), 0.7, _BROKER),
    _least("group records, warm", _of("group_records", "warm_times_broker"), 1, _BROKER),
    _least("consumer groups, warm", _of("consumer_groups", "warm_times_broker"), 1, _BROKER),
    _most("a rebalance of 10,000 members", _of("large_group", "micro_batch_ms"), 2000, "{:.0f} ms"),
    _least(
        "steady rate, five minutes", _of("sustained", "commits_per_s"), 250_000, "{:,.0f} commits/s"
    ),
    _most("micro-batches behind at that rate", _of("sustained", "behind"), 2, "{:.0f}"),
    _most("acknowledged to readable, p50", _of("freshness", "p50_s"), 0.6, "{:.2f} s"),
    _most("acknowledged to readable, p99", _of("freshness", "p99_s"), 1.2, "{:.2f} s"),
    _most("the same, trigger of 500 ms, p50", _of("freshness_500ms", "p50_s"), 0.6, "{:.2f} s"),
    _most("the same, trigger of 500 ms, p99", _of("freshness_500ms", "p99_s"), 1.2, "{:.2f} s"),
    _most("the same of 1 M keys, p50", _of("freshness_1m", "p50_s"), 0.9, "{:.2f} s"),
    _most("the same of 1 M keys, p99", _of("freshness_1m", "p99_s"), 1.5, "{:.2f} s"),
    _most("idle, of one core", _of("freshness", "idle_percent"), 2, "{:.1f} %"),
    _most("memory at that rate", _of("freshness", "memory_mb"), 1024, "{:,.0f} MB"),
    _most("memory, plain commits, cold", _of("backfill", "peak_memory_mb"), 2048, "{:,.0f} MB"),
    _most("memory, 100 M commits", _of("backfill_100m", "peak_memory_mb"), 2684, "{:,.0f} MB"),
    _most(
        "a micro-batch, 1 M and 100 k keys",
        _growth("micro_batch_ms", "freshness", "freshness_1m"),
        2,
        "{:.1f} x the time",
    ),
    _most(
        "100 M and 20 M commits, warm",
        _growth("warm_s", "backfill", "backfill_100m"),
        5.5,
        "{:.1f} x the time",
    ),
    _most("start to its first micro-batch", _of("startup", "first_start_s"), 8, "{:.1f} s"),
    _most("restart, 20 keys", _of("startup", "restart_s"), 8, "{:.1f} s"),
    _most("restart, 100 k keys", _of("freshness", "restart_s"), 8, "{:.1f} s"),
    _most("the slowest command that reads", _of("commands", "slowest_s"), 1, "{:.2f} s"),
)
"""The targets are for the full logs."""


@click.command()
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("bench-report"),
    show_default=True,
    help="Folder of the report and of earlier figures; --quick has the folder `quick` in it.",
)
@click.option("--quick", is_flag=True, help="Small logs: about five minutes on two cores.")
@click.option(
    "--only",
    "names",
    type=click.Choice(list(BENCHES)),
    multiple=True,
    help="Run only this bench; repeatable. The figures of the others stay in the folder.",
)
@click.pass_context
def report(ctx: click.Context, *, folder: Path, quick: bool, names: tuple[str, ...]) -> None:
    """Run every bench (about 40 minutes) and write the report."""
    benches = QUICK if quick else BENCHES
    if unknown := [name for name in names if name not in benches]:
        raise click.UsageError(f"--only {unknown[0]}: --quick has only {', '.join(benches)}")
    folder = folder / "quick" if quick else folder
    folder.mkdir(parents=True, exist_ok=True)
    failed = [name for name in names or benches if not _run(name, benches, folder)]
    rows = [target.row(read_findings(folder)) for target in TARGETS]
    output_of("text").rows(rows, ["what", "target", "measured", "is_met"])
    for name in failed:
        write_note(f"{name} failed; {folder / name}.log says why")
    ctx.exit(1 if failed else 0)


def _run(name: str, benches: Benches, folder: Path) -> bool:
    module, *options = benches[name]
    write_note(f"{name}: python -m {' '.join(benches[name])}")
    findings = folder / f"{name}.json"
    findings.unlink(missing_ok=True)
    command = [sys.executable, "-m", module, *options, "--findings", str(findings)]
    with (folder / f"{name}.log").open("wb") as log:
        ended = subprocess.run(
            command, stdout=log, stderr=subprocess.STDOUT, env=run_environment(), check=False
        )
    if ended.returncode:
        findings.unlink(missing_ok=True)
    write_report(folder, benches)
    return ended.returncode == 0


def read_findings(folder: Path) -> Findings:
    """What the benches found, those that were run."""
    files = ((name, folder / f"{name}.json") for name in BENCHES)
    return {name: json.loads(file.read_text()) for name, file in files if file.exists()}


def write_report(folder: Path, benches: Benches = BENCHES) -> None:
    """Write `report.md`, with a chart, and `report.json` from the figures in the folder."""
    rows = [target.row(read_findings(folder)) for target in TARGETS]
    (folder / "report.json").write_text(json.dumps(rows, indent=2) + "\n")
    (folder / "report.md").write_text("\n".join(_markdown(rows, benches, folder)) + "\n")


def _markdown(rows: list[dict[str, Any]], benches: Benches, folder: Path) -> Iterable[str]:
    yield "# Figures and their targets\n"
    if benches is QUICK:
        yield "A first look with small logs; the targets are for those of `make bench`.\n"
    yield "| what | target | measured | met |"
    yield "|---|---|---|---|"
    for row in rows:
        measured = row.get("measured", "not measured")
        yield f"| {row['what']} | {row['target']} | {measured} | {_met(row)} |"
    known = [row for row in rows if "share_of_target" in row]
    if known:
        yield "\nHow much of each target is reached; from 1 on it is met.\n"
        yield "```mermaid\nxychart-beta horizontal"
        yield f"    x-axis [{', '.join(json.dumps(row['what'] + _mark(row)) for row in known)}]"
        yield f"    y-axis 0 --> {max(2, *map(_share, known))}"
        yield f"    bar [{', '.join(str(_share(row)) for row in known)}]"
        yield f"    line [{', '.join('1' for _ in known)}]\n```"
    for name, arguments in benches.items():
        log = folder / f"{name}.log"
        if log.exists():
            yield f"\n## `python -m {' '.join(arguments)}`\n\n```\n{_table(log)}\n```"


_share = operator.itemgetter("share_of_target")


def _mark(row: Mapping[str, Any]) -> str:
    return "" if row["is_met"] else " (missed)"


def _met(row: Mapping[str, Any]) -> str:
    return {True: "yes", False: "no", None: ""}[row.get("is_met")]


def _table(log: Path) -> str:
    """The end of the output of a bench, from the header of its table on."""
    lines = log.read_text(errors="replace").splitlines()
    heads = [number for number, line in enumerate(lines) if line.startswith(_HEADS)]
    return "\n".join(lines[heads[-1] if heads else -5 :])


if __name__ == "__main__":
    report(prog_name="python -m bench.report")
