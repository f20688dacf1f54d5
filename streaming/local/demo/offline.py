"""The offline demo: simulated coordinators, their tables, and both answers, without Java.

The simulation runs in real time, so lag, status and the page look as in production.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime, timezone
from pathlib import Path
from threading import Event
from typing import Any, Final

from coordinator_state.insight.lag import PRESENT
from coordinator_state.model.workload import Workload, WorkloadSettings
from streaming.dashboard.app import serving_page
from streaming.http.server import open_browser
from streaming.kafka.partition_offsets import LogOffsets
from streaming.lag.sample_runs import Sample
from streaming.lag.unwritten_samples import rows_of
from streaming.local.demo.demo import EXIT_DIFFERENT
from streaming.local.simulation.tables import SimulatedTables, simulated_tables
from streaming.run.loop_compilation import await_loops, compiling_loops
from streaming.run.progress_display import ProgressDisplay
from streaming.run.stages import enter_stage
from streaming.run.stderr import is_live, write_note
from streaming.tables.reader import TableReader
from streaming.tables.schemas import LOG_OFFSETS
from streaming.verify.model_answers import model_answers, topic_names
from streaming.verify.table_answers import TableAnswers
from streaming.verify.verification import Verification, compare
from streaming.views.output import output_of

_GROUPS: Final = 20
_STEP_S: Final = 1.0
_STEPS_PER_SAMPLE: Final = 5
_MAX_ROWS: Final = 12
_COLUMNS: Final = ("group", "type", "state", "members", "offsets", "pending", "equal")


def run_offline_demo(
    *,
    stop: Event,
    seconds: float = math.inf,
    output: str = "text",
    dashboard: bool = True,
) -> int:
    """Run simulated groups and compare both sides; return the exit status, 0 if they are equal.

    Args:
        stop: ends it sooner, after a step; the comparison still runs.
        seconds: the duration.
        output: `text` or `json`.
        dashboard: whether to serve the page while the groups run.
    """
    settings = WorkloadSettings(
        seed=int(time.time()),
        groups=_GROUPS,
        commit_interval_ms=1_000,
        consumer_share=0.5,
        # Frequent, to show events within a minute.
        rebalances_per_hour=60,
        stops_per_hour=10,
        from_ms=time.time_ns() // 1_000_000,
    )
    workload = Workload(settings)
    with ExitStack() as running:
        work = Path(
            running.enter_context(tempfile.TemporaryDirectory(prefix="coordinator-state-demo-"))
        )
        tables = str(work / "tables")
        target = running.enter_context(
            simulated_tables(
                tables, settings.semantics, log_partitions=settings.log_partitions, history="all"
            )
        )
        write_note(
            f"{_GROUPS} simulated groups, no broker; the tables are in {tables} (`demo` "
            "deletes them at its end)"
        )
        if dashboard:
            address = running.enter_context(serving_page({"demo": tables}))
            write_note(f"the page is at {address}")
            open_browser(address)
        with ProgressDisplay(is_terminal=is_live()):
            with compiling_loops():
                await_loops(stop)
            enter_stage("writing the first records")
            _advance(workload, target)
        _let_run(workload, target, seconds, stop)
        write_note("comparing the tables with the simulated coordinators ...")
        expected = model_answers(workload.coordinators.values())
        names = topic_names(workload.topics)
        answers = TableAnswers(TableReader(tables)).answers(topic_names=names)
        verification = compare(expected, answers, expected)
        rows = _rows(expected, verification)
        shown = output_of(output)
        if output == "json":
            shown.result(
                {"groups": rows, "records": workload.records, "verify": verification.summary}, ""
            )
        else:
            shown.rows(rows[:_MAX_ROWS], _COLUMNS)
            shown.result({}, f"\n{workload.records:,} records; verify: {verification.summary}")
    return 0 if verification.is_equal else EXIT_DIFFERENT


def _let_run(workload: Workload, target: SimulatedTables, seconds: float, stop: Event) -> None:
    began = time.monotonic()
    number = 0
    while not stop.is_set() and (ran_s := time.monotonic() - began) < seconds:
        _advance(workload, target)
        if number % _STEPS_PER_SAMPLE == 0:
            target.writer.append(LOG_OFFSETS, rows_of(list(_samples(workload))))
        number += 1
        stop.wait(max(0.0, min(_STEP_S, seconds - ran_s)))
    # Advance to the end of the time span, also if the last step was slow.
    _advance(workload, target)


def _advance(workload: Workload, target: SimulatedTables) -> None:
    now_ms = time.time_ns() // 1_000_000
    workload.run(max(0, now_ms - workload.now_ms))
    target.take(workload.take())


def _samples(workload: Workload) -> Iterator[Sample]:
    """Offset samples of the topics that the groups consume."""
    sampled_at = datetime.fromtimestamp(workload.now_ms / 1000, timezone.utc)
    for (topic, partition), end in workload.log_end_offsets().items():
        yield Sample(
            sampled_at,
            LogOffsets(
                topic=topic,
                partition=partition,
                state=PRESENT,
                topic_id=None,
                log_start_offset=0,
                log_end_offset=end,
                last_stable_offset=end,
                end_markers=0,
            ),
        )


def _rows(expected: Any, verification: Verification) -> list[dict[str, Any]]:
    rows = []
    for key, fields in sorted(expected.items()):
        if key.kind != "group":
            continue
        mine = [other for other in expected if other.group_id == key.group_id]
        rows.append(
            {
                "group": key.group_id,
                "type": fields["group_type"],
                "state": fields["state"],
                **{
                    f"{kind}s" if kind != "pending" else kind: sum(k.kind == kind for k in mine)
                    for kind in ("member", "offset", "pending")
                },
                "equal": not any(k.group_id == key.group_id for k in verification.differing),
            }
        )
    return rows
