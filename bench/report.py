"""`python -m bench.report`: every bench with its target, one after the other; `make bench`.

Each runs as a process of its own, and what it printed and found is kept in a folder, in which
`report.md` and `report.json` are written anew after each. A figure that misses its target is told
and no error; tables that are not equal are one.
"""

from __future__ import annotations

import json
import operator
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

from bench.processes import run_environment
from streaming.run.stderr import write_note
from streaming.views.output import output_of

Findings = Mapping[str, Mapping[str, float]]
"""By bench and by name."""

BENCHES: Final = {
    "backfill": ("bench",),
    "transactions": ("bench", "--in-transactions"),
    "group_records": ("bench.group_records",),
    "freshness": ("bench.freshness",),
    "freshness_1m": ("bench.freshness", "--keys", "1000000", "--seconds", "40"),
    "startup": ("bench.startup",),
    "sustained": ("bench.sustained", "--rate", "255000"),
    "backfill_100m": ("bench", "--commits", "100000000", "--without-console"),
}
"""The arguments of `python -m`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A row of the report: a figure, how it is told, and what it should at least or at most be."""

    what: str
    found: Callable[[Findings], float]
    text: str
    bound: float
    is_least: bool

    def row(self, findings: Findings) -> dict[str, Any]:
        """The figure beside its target; without one where a bench that it needs did not run."""
        word = "at least" if self.is_least else "at most"
        row = {"what": self.what, "target": f"{word} {self.text.format(self.bound)}"}
        try:
            found = self.found(findings)
        except KeyError:
            return row
        share = found / self.bound if self.is_least else self.bound / found
        return {
            **row,
            "measured": self.text.format(found),
            "share_of_target": round(share, 2),
            "is_met": share >= 1,
        }


def _of(bench: str, name: str) -> Callable[[Findings], float]:
    return lambda findings: findings[bench][name]


def _growth(name: str, small: str, large: str) -> Callable[[Findings], float]:
    return lambda findings: findings[large][name] / findings[small][name]


def _least(
    what: str, found: Callable[[Findings], float], bound: float, text: str = "{:.2f}"
) -> Target:
    return Target(what=what, found=found, text=text, bound=bound, is_least=True)


def _most(
    what: str, found: Callable[[Findings], float], bound: float, text: str = "{:.2f}"
) -> Target:
    return Target(what=what, found=found, text=text, bound=bound, is_least=False)


_BROKER = "{:.2f} x broker's load"
_CONSOLE = "{:.1f} x console consumer"
TARGETS: Final = (
    _least("20 M commits, warm", _of("backfill", "warm_times_broker"), 1.5, _BROKER),
    _least("20 M commits, warm, and console", _of("backfill", "warm_times_console"), 12, _CONSOLE),
    _least("20 M commits, cold, and console", _of("backfill", "cold_times_console"), 4, _CONSOLE),
    _least("5 M in transactions, warm", _of("transactions", "warm_times_broker"), 0.7, _BROKER),
    _least("200 k group records, warm", _of("group_records", "warm_times_broker"), 0.3, _BROKER),
    _least(
        "steady rate, five minutes", _of("sustained", "commits_per_s"), 250_000, "{:,.0f} commits/s"
    ),
    _most("micro-batches behind at that rate", _of("sustained", "behind"), 2, "{:.0f}"),
    _most("acknowledged to readable, p50", _of("freshness", "p50_s"), 1.5, "{:.2f} s"),
    _most("acknowledged to readable, p99", _of("freshness", "p99_s"), 3, "{:.2f} s"),
    _most("idle, of one core", _of("freshness", "idle_percent"), 5, "{:.1f} %"),
    _most("memory, 20 M commits, cold", _of("backfill", "peak_memory_mb"), 2684, "{:,.0f} MB"),
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
    _most("restart to its first micro-batch", _of("freshness", "restart_s"), 15, "{:.1f} s"),
    _most("start to its first micro-batch", _of("startup", "first_start_s"), 8, "{:.1f} s"),
)


@click.command()
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("bench-report"),
    show_default=True,
    help="Where the report is, and what earlier runs found.",
)
@click.option(
    "--only",
    "names",
    type=click.Choice(list(BENCHES)),
    multiple=True,
    help="Run this one, repeatable; the others stay as they are in the folder.",
)
@click.pass_context
def report(ctx: click.Context, *, folder: Path, names: tuple[str, ...]) -> None:
    """Run every bench (about 35 minutes) and write the report."""
    folder.mkdir(parents=True, exist_ok=True)
    failed = [name for name in names or BENCHES if not _run(name, folder)]
    rows = [target.row(read_findings(folder)) for target in TARGETS]
    output_of("text").rows(rows, ["what", "target", "measured", "is_met"])
    for name in failed:
        write_note(f"{name} failed; {folder / name}.log says why")
    ctx.exit(1 if failed else 0)


def _run(name: str, folder: Path) -> bool:
    module, *options = BENCHES[name]
    write_note(f"{name}: python -m {' '.join(BENCHES[name])}")
    findings = folder / f"{name}.json"
    findings.unlink(missing_ok=True)
    command = [sys.executable, "-m", module, *options, "--findings", str(findings)]
    with (folder / f"{name}.log").open("wb") as log:
        ended = subprocess.run(
            command, stdout=log, stderr=subprocess.STDOUT, env=run_environment(), check=False
        )
    if ended.returncode:
        findings.unlink(missing_ok=True)
    write_report(folder)
    return ended.returncode == 0


def read_findings(folder: Path) -> Findings:
    """What the benches found, those that were run."""
    files = ((name, folder / f"{name}.json") for name in BENCHES)
    return {name: json.loads(file.read_text()) for name, file in files if file.exists()}


def write_report(folder: Path) -> None:
    """Write `report.md`, with a chart, and `report.json` from what was found so far."""
    rows = [target.row(read_findings(folder)) for target in TARGETS]
    (folder / "report.json").write_text(json.dumps(rows, indent=2) + "\n")
    (folder / "report.md").write_text("\n".join(_markdown(rows, folder)) + "\n")


def _markdown(rows: list[dict[str, Any]], folder: Path) -> Iterable[str]:
    yield "# Measured, and what it should be\n"
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
    for name, arguments in BENCHES.items():
        log = folder / f"{name}.log"
        if log.exists():
            yield f"\n## `python -m {' '.join(arguments)}`\n\n```\n{_table(log)}\n```"


_share = operator.itemgetter("share_of_target")


def _mark(row: Mapping[str, Any]) -> str:
    return "" if row["is_met"] else " (missed)"


def _met(row: Mapping[str, Any]) -> str:
    return {True: "yes", False: "no", None: ""}[row.get("is_met")]


def _table(log: Path) -> str:
    """What a bench printed last, from the heading of its table on."""
    lines = log.read_text(errors="replace").splitlines()
    heads = [number for number, line in enumerate(lines) if line.startswith("measured ")]
    return "\n".join(lines[heads[-1] if heads else -5 :])


if __name__ == "__main__":
    report(prog_name="python -m bench.report")
