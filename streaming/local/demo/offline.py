"""The offline demo: simulated coordinators, their tables, and both answers, without Java.

The simulation runs in real time, so lag, status and the page look as in production.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime, timezone
from threading import Event
from typing import Final

from coordinator_state.insight.lag import PRESENT
from coordinator_state.model.workload import Workload, WorkloadSettings
from streaming.kafka.partition_offsets import LogOffsets
from streaming.lag.sample_runs import Sample
from streaming.lag.unwritten_samples import rows_of
from streaming.local.demo.demo import enter_work_folder, serve_page
from streaming.local.demo.report import DemoReport, Section, group_row
from streaming.local.simulation.tables import SimulatedTables, simulated_tables
from streaming.run.loop_compilation import await_loops, compiling_loops
from streaming.run.progress_display import ProgressDisplay
from streaming.run.stages import enter_stage
from streaming.run.stderr import is_live, write_note
from streaming.tables.reader import TableReader
from streaming.tables.schemas import LOG_OFFSETS
from streaming.verify.model_answers import model_answers, topic_names
from streaming.verify.table_answers import TableAnswers
from streaming.verify.verification import compare

_GROUPS: Final = 20
_STEP_S: Final = 1.0
_STEPS_PER_SAMPLE: Final = 5
_COLUMNS: Final = ("group", "type", "state", "members", "offsets", "pending", "equal")


@contextmanager
def run_offline_demo(
    *, stop: Event, seconds: float = math.inf, dashboard: bool = True
) -> Iterator[DemoReport]:
    """Run simulated groups until the report is read; the end of the block removes the tables.

    Args:
        stop: ends it sooner, after a step; the comparison still runs.
        seconds: the duration.
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
        write_note(f"{_GROUPS} simulated groups, no broker")
        tables = str(enter_work_folder(running) / "tables")
        target = running.enter_context(
            simulated_tables(
                tables, settings.semantics, log_partitions=settings.log_partitions, history="all"
            )
        )
        if dashboard:
            serve_page(running, tables)
        with ProgressDisplay(is_terminal=is_live()):
            with compiling_loops():
                await_loops(stop)
            enter_stage("writing the first records")
            _advance(workload, target)
        _let_run(workload, target, seconds, stop)
        write_note("comparing the tables with the simulated coordinators ...")
        yield _read_report(workload, tables)


def _read_report(workload: Workload, tables: str) -> DemoReport:
    expected = model_answers(workload.coordinators.values())
    replayed = TableAnswers(TableReader(tables))
    answers = replayed.answers(topic_names=topic_names(workload.topics))
    verification = compare(expected, answers, expected)
    groups = [
        group_row(key.group_id, expected, verification)
        for key in sorted(expected)
        if key.kind == "group"
    ]
    return DemoReport(
        sections=[Section("groups", "Groups of the simulated coordinators:", _COLUMNS, groups)],
        facts={"records": workload.records},
        lines=[f"{workload.records:,} records"],
        verification=verification,
    )


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
