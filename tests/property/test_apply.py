"""The tables against the reference loader: random logs, cuts, crashes between writes, redelivery.

One micro-batch carries many log partitions, each with a random log of its own. A run has a seed,
which is a parameter of its test. `COORDINATOR_STATE_LOGS` sets how many logs there are for each
semantics.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from coordinator_state.apply.rows import EVENT_SCHEMA
from coordinator_state.log.record_batch import read_record_batches
from coordinator_state.model.log import Written
from coordinator_state.model.micro_batches import micro_batch
from coordinator_state.model.workload import MINUTE_MS, Workload, WorkloadSettings
from coordinator_state.replay.loader import ReferenceLoader
from coordinator_state.replay.offsets import Semantics
from streaming.engine.micro_batch import MicroBatchApply
from streaming.engine.written_tables import WRITTEN_TABLES
from streaming.errors import WriterFenced
from streaming.kafka.leaders import LogDescription
from streaming.reload.beginning import begin_reload
from streaming.reload.doubts import Doubt
from streaming.tables import folder as tables_folder
from streaming.tables.load_progress import LoadProgress
from streaming.tables.reader import TableReader
from streaming.tables.schemas import (
    GROUP_EVENTS,
    LOAD_PROGRESS,
    LOST,
    LOST_REASON_PREFIX,
    OFFSET_COMMITS,
    QUARANTINE,
)
from streaming.verify.model_answers import model_answers, topic_names
from streaming.verify.table_answers import TableAnswers
from streaming.verify.verification import compare
from tests.support.logs.log_rows import SAMPLED
from tests.support.logs.logs import Event, segment
from tests.support.logs.random_logs import random_log
from tests.support.tables.loader_tables import Row, differences, differing, in_ms, rows_of
from tests.support.tables.plan_tables import RETENTION_MS, PlanTables
from tests.support.tables.tables_folder import Crash, start_apply

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOGS_PER_RUN = 40
RUNS = max(1, int(os.environ.get("COORDINATOR_STATE_LOGS", "280")) // LOGS_PER_RUN)
SHORT_RUNS = 1
"""The runs for each semantics in `make test`."""
CI_RUNS = 2
"""The runs for each semantics in CI."""
MICRO_BATCHES = 3


def seeds(short: int) -> list[Any]:
    """A seed for each run: without a mark, then with the mark `long`, then also with `release`."""
    long, release = pytest.mark.long, pytest.mark.release
    return [
        *range(min(short, RUNS)),
        *(pytest.param(seed, marks=long) for seed in range(short, min(CI_RUNS, RUNS))),
        *(pytest.param(seed, marks=(long, release)) for seed in range(CI_RUNS, RUNS)),
    ]


@dataclass(slots=True)
class _Folder:
    """A folder of tables, and the engines of its runs: each start has one of `sessions`.

    A start without a session has the engine `driver`.
    """

    tables: str
    history: str
    choose: random.Random
    sessions: Sequence[SparkSession | None] = (None,)

    def start(self, fault: str = "", **options: Any) -> MicroBatchApply[pa.Table]:
        """A new process: everything it knows, it reads from the tables."""
        return start_apply(
            self.tables,
            history=self.history,
            fault=fault,
            offsets_retention_ms=RETENTION_MS,
            spark=self.choose.choice(self.sessions),
            **options,
        )


def _micro_batch(
    segments: dict[int, tuple[bytes, int]], ranges: dict[int, tuple[int, int]], history: str
) -> pa.Table:
    written = [
        Written(p, segments[p][0], start, end, high_watermark=segments[p][1])
        for p, (start, end) in ranges.items()
    ]
    return micro_batch(written, sampling=None if history == "all" else SAMPLED)


@pytest.fixture
def sessions(request: pytest.FixtureRequest) -> Sequence[SparkSession | None]:
    """What the parameter names: the engine `spark`, or now one engine and now the other."""
    spark = request.getfixturevalue("spark")
    return (spark,) if request.param == "spark" else (None, spark)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", seeds(SHORT_RUNS))
@pytest.mark.parametrize("semantics", list(Semantics))
def test_tables_equal_the_loader(tmp_path: Path, semantics: Semantics, seed: int) -> None:
    _check(tmp_path, semantics, seed, (None,))


@pytest.mark.release
@pytest.mark.spark
@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("sessions", ["either", "spark"], indirect=True)
@pytest.mark.parametrize("semantics", list(Semantics))
def test_tables_of_spark_equal_the_loader(
    tmp_path: Path, sessions: Sequence[SparkSession | None], semantics: Semantics
) -> None:
    _check(tmp_path, semantics, 0, sessions)


@pytest.mark.parametrize(
    "clean_every_ms", [None, pytest.param(5 * MINUTE_MS, marks=pytest.mark.long)]
)
@pytest.mark.parametrize(
    "semantics",
    [Semantics.COORDINATOR, pytest.param(Semantics.SCALA, marks=pytest.mark.long)],
)
@pytest.mark.parametrize("seed", seeds(1))
def test_tables_equal_simulated_coordinators(
    tmp_path: Path, semantics: Semantics, clean_every_ms: int | None, seed: int
) -> None:
    """What the coordinators of a simulated workload hold, out of their logs, whole or cleaned."""
    workload = Workload(
        WorkloadSettings(
            seed=seed,
            groups=8,
            commit_interval_ms=MINUTE_MS,
            rebalances_per_hour=20,
            stops_per_hour=1,
            offsets_retention_ms=10 * MINUTE_MS,
            clean_every_ms=clean_every_ms,
            delete_retention_ms=MINUTE_MS,
            log_partitions=3,
            semantics=semantics,
        )
    )
    workload.run(40 * MINUTE_MS)
    segments = {p: (log, workload.coordinators[p].log.next_offset) for p, log in workload.logs()}
    choose = random.Random(seed)
    folder = _Folder(str(tmp_path / "tables"), choose.choice(["sampled", "all"]), choose)
    _load(folder, semantics, segments)
    expected = model_answers(workload.coordinators.values())
    names = topic_names(workload.topics)
    answers = TableAnswers(TableReader(folder.tables)).answers(topic_names=names)
    verification = compare(expected, answers, expected)
    assert verification.differences == []
    assert {verification.counts[kind] > 0 for kind in ("group", "offset", "member")} == {True}


def _check(
    tmp_path: Path, semantics: Semantics, seed: int, sessions: Sequence[SparkSession | None]
) -> None:
    choose = random.Random(f"{semantics} {seed}")
    drawn = {p: random_log(choose, f"{p}-", max_size=40) for p in range(LOGS_PER_RUN)}
    history = choose.choice(["sampled", "all"])
    folder = _Folder(str(tmp_path / "tables"), history, choose, sessions)
    segments = {p: segment(events) for p, events in drawn.items()}
    _load(folder, semantics, segments)
    _assert_loaded(folder, semantics, segments)
    _reload(folder, drawn, segments)
    _assert_loaded(folder, semantics, segments)


def _load(folder: _Folder, semantics: Semantics, segments: dict[int, tuple[bytes, int]]) -> None:
    """Cut logs into micro-batches, with crashes, redelivery and lost checkpoints."""
    tables, history, choose = folder.tables, folder.history, folder.choose
    # With the feed, rows are merged in another way.
    tables_folder.create(
        tables,
        LoadProgress(cluster_id="c", topic_id="t", semantics=semantics),
        log_partitions=len(segments),
        change_data_feed=choose.random() < 0.2,
    )
    apply = folder.start()
    cuts = {p: _cuts(end, choose) for p, (_, end) in segments.items()}
    query = "query"
    for number in range(MICRO_BATCHES):
        ranges = {p: (cut[number], cut[number + 1]) for p, cut in cuts.items()}
        batch = _micro_batch(segments, ranges, history)
        if choose.random() < 0.5:
            _interrupt(folder, batch, number, query)
            if choose.random() < 0.3:
                for table in (OFFSET_COMMITS, GROUP_EVENTS, QUARANTINE):
                    DeltaTable(table.path(tables)).optimize.compact()
            apply = folder.start()
            if choose.random() < 0.3:
                query = f"without the checkpoint {number}"
        apply.apply(batch, number, query)
        if number == MICRO_BATCHES - 1 or choose.random() < 0.2:
            apply = folder.start()
            apply.apply(batch, number, query)


def _cuts(end: int, choose: random.Random) -> list[int]:
    """The bounds of the micro-batches of a log."""
    return [0, *sorted(choose.randint(0, end) for _ in range(MICRO_BATCHES - 1)), end]


_FAULTS = [table.name for table in (*WRITTEN_TABLES, LOAD_PROGRESS)]
"""The tables that a micro-batch of `__consumer_offsets` writes; `test_topics` has the others."""


def _interrupt(folder: _Folder, batch: pa.Table, number: int, query: str) -> None:
    """Let a run crash in a micro-batch, or let another run take over and finish it or crash."""
    choose = folder.choose
    fault = choose.choice(_FAULTS)
    if choose.random() < 0.5:
        with pytest.raises(Crash):
            folder.start(fault).apply(batch, number, query)
        return
    is_finished = choose.random() < 0.5
    rival_fault = "" if is_finished else choose.choice(_FAULTS)

    def take_over() -> None:
        with nullcontext() if is_finished else pytest.raises(Crash):
            folder.start(rival_fault).apply(batch, 0, "of the newer run")

    fenced = folder.start(fault, happens=take_over)
    # The last table is written already when the newer run takes over.
    with nullcontext() if fault == LOAD_PROGRESS.name else pytest.raises(WriterFenced):
        fenced.apply(batch, number, query)


def _reload(
    folder: _Folder, drawn: dict[int, list[Event]], segments: dict[int, tuple[bytes, int]]
) -> None:
    """Load some log partitions again, which were truncated and went on with another's records."""
    tables, history, choose = folder.tables, folder.history, folder.choose
    topic = LogDescription(
        topic="t", cluster_id="c", topic_id="t", leaders=dict.fromkeys(drawn, (0, 0))
    )
    doubts = {}
    for p in choose.sample(sorted(drawn), len(drawn) // 2):
        kept = drawn[p][: choose.randint(0, len(drawn[p]))]
        is_truncated = choose.random() < 0.7
        other = drawn[choose.choice(sorted(drawn))] if is_truncated else drawn[p][len(kept) :]
        kept_below = segment(kept)[1] if is_truncated else segments[p][1]
        doubts[p] = Doubt(
            reason="a test", kept_below=kept_below, lost=f"{LOST_REASON_PREFIX}{kept_below}"
        )
        segments[p] = segment([*kept, *other])
    apply = folder.start()
    begin_reload(apply.writer, apply.progress, apply.progress, doubts, topic)
    for query in ("reload", "reload without the checkpoint"):
        is_last = query != "reload"
        apply = folder.start() if is_last else folder.start(choose.choice(_FAULTS))
        cuts = {
            p: _cuts(end, choose) if p in doubts else [end] * (MICRO_BATCHES + 1)
            for p, (_, end) in segments.items()
        }
        for number in range(MICRO_BATCHES):
            ranges = {p: (cut[number], cut[number + 1]) for p, cut in cuts.items()}
            batch = _micro_batch(segments, ranges, history)
            try:
                apply.apply(batch, number, query)
            except Crash:
                break
        apply = folder.start()
        progress = apply.progress
        states = {p: row.state for p, row in progress.rows.items()}
        assert not is_last or set(states.values()) == {"current"}
        again = {
            p: Doubt(reason=doubt.reason, kept_below=progress.rows[p].next_offset, lost=doubt.lost)
            for p, doubt in doubts.items()
            if progress.rows[p].is_reloading
        }
        assert all(states[p] == "loading" for p in again)
        if again:
            begin_reload(apply.writer, progress, progress, again, topic)
        if not again:
            break
    reasons = TableReader(tables).read("quarantine")["reason"].to_pylist()
    losses = [reason for reason in reasons if reason.startswith(LOST_REASON_PREFIX)]
    assert len(losses) == len(doubts), "what is gone is said once"


def _assert_loaded(
    folder: _Folder, semantics: Semantics, segments: dict[int, tuple[bytes, int]]
) -> None:
    loaders = {}
    for p, (buffer, _) in segments.items():
        loaders[p] = ReferenceLoader(semantics)
        loaders[p].load(read_record_batches(buffer))
    reader = TableReader(folder.tables)
    rows = rows_of(reader)
    assert differences(rows, loaders) == []
    whole = PlanTables(semantics)
    whole.load(segments)
    pending = whole.pending.to_pylist()
    assert set(map(_client, rows["pending_offsets"])) == set(map(_client, pending))
    if folder.history == "all":
        events = [
            in_ms(event, tuple(EVENT_SCHEMA.names))
            for event in rows["group_events"]
            if event["outcome"] != LOST
        ]
        assert differing("group_events", events, whole.events) == []


def _client(row: Row) -> tuple[int, int, str | None, str | None]:
    """The client of a pending offset."""
    return row["log_partition"], row["record_offset"], row["client_id"], row["client_host"]
