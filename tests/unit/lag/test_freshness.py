"""Tables that nobody writes any more: what is said of them, after how long."""

from __future__ import annotations

import json
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from coordinator_state.insight.group_status import Status, StatusRules
from coordinator_state.records.internal_topics import OFFSETS_TOPIC
from streaming.lag.evaluation import Evaluation
from streaming.lag.freshness import Freshness, freshness_notice
from streaming.lag.group_lag import tables_known_until
from streaming.tables import load_progress
from streaming.tables.base_maintenance import maintain_bases
from streaming.tables.clock import utc_now
from streaming.tables.reader import TableReader
from streaming.tables.schemas import LOAD_PROGRESS, LOG_OFFSETS
from tests.support.logs.log_rows import LOG_PARTITION
from tests.support.tables.every_table import apply_next, create
from tests.support.tables.sample_rows import sample
from tests.support.tables.status_tables import NOW, at, create_status_tables
from tests.support.tables.tables_folder import Row, apply_micro_batch, start_apply, write_rows

SINCE = "nothing written since 12:00:00 UTC; is `run` running?"
LATE = NOW + timedelta(seconds=121)


@pytest.fixture
def tables(tmp_path: Path) -> str:
    return create_status_tables(tmp_path)


def sample_of(sampled_at: datetime, log_end_offset: int = 0, partition: int = 0) -> Row:
    return sample(sampled_at, log_end_offset, OFFSETS_TOPIC, partition)


def test_every_group_of_stale_tables_is_unknown(tables: str) -> None:
    """A loop of rebalances, a group without offsets and lost data are claimed no more, either."""
    evaluation = Evaluation.of(TableReader(tables), at=LATE)
    statuses = evaluation.statuses.to_pylist()
    groups = {row["group_id"] for row in statuses}
    assert groups == {"back", "idle", "loop", "new", "nothing", "old"}
    verdicts = {(row["status"], row["reason"], row["topic"]) for row in statuses}
    assert verdicts == {("UNKNOWN", SINCE, None)}
    rows = evaluation.group_lag().to_pylist()
    assert {(row["status"], row["reason"]) for row in rows} == {("UNKNOWN", SINCE)}


def test_tables_are_stale_after_the_limit(tables: str) -> None:
    fresh = Freshness.of(TableReader(tables), LATE - timedelta(seconds=1))
    assert fresh.verdict(StatusRules()) is None
    assert fresh.verdict(StatusRules(stale_after_ms=119_999)) is not None


def test_a_past_moment_is_judged_at_that_moment(tables: str) -> None:
    reader = TableReader(tables)
    write_rows(
        tables, "log_offsets", [sample_of(at(3_600)), sample_of(at(1)), sample_of(at(-3_600))]
    )
    assert Freshness.of(reader, at(0)).sampled_at == at(1)
    # Newer samples do not count: at that moment nobody knew of them.
    assert Freshness.of(reader, at(-3_599)).sampled_at == at(1)
    assert Freshness.of(reader, at(-3_600)).sampled_at == at(-3_600)
    assert Freshness.of(reader, at(3_601)).sampled_at is None


NOT_SAMPLED = (
    "Nothing written since 12:00:00 UTC (2 min ago). `run` does not sample the logs "
    "(`--lag-interval off`), so either no group commits or `run` has stopped."
)
IS_RUNNING = "Is `run` running?"
A_DAY_LATER = NOW + timedelta(days=1)


@pytest.mark.parametrize(
    ("samples", "moment", "is_stale", "notice"),
    [
        (None, NOW, False, None),
        (None, LATE, True, f"Nothing written since 12:00:00 UTC (2 min ago). {IS_RUNNING}"),
        (
            *(None, A_DAY_LATER, True),
            f"Nothing written since 2026-11-21 12:00:00 UTC (24 h ago). {IS_RUNNING}",
        ),
        # Nobody commits for a day; `run` confirms the ends of logs each minute.
        (
            [sample_of(at(1)), sample_of(A_DAY_LATER)],
            *(A_DAY_LATER + timedelta(seconds=65), False, None),
        ),
        # Without recent samples a quiet log is not called stale.
        ([], LATE, False, NOT_SAMPLED),
        ([sample_of(at(600))], LATE, False, NOT_SAMPLED),
        # Samples go on, micro-batches do not.
        (
            [sample_of(at(ago), end) for ago, end in ((300, 0), (200, 5), (0, 5))],
            *(NOW, False, "The tables are 5 min behind __consumer_offsets."),
        ),
    ],
)
def test_a_notice_says_since_when_nothing_was_written(
    tables: str, samples: list[Row] | None, moment: datetime, is_stale: bool, notice: str | None
) -> None:
    if samples is not None:
        write_rows(tables, "log_offsets", samples)
    reader = TableReader(tables)
    verdict = Freshness.of(reader, moment).verdict(StatusRules())
    assert (verdict is not None) is is_stale
    assert freshness_notice(reader, moment) == notice


def test_tables_that_were_never_written_are_not_stale(tables: str) -> None:
    apply_micro_batch(tables, progress=[])
    write_rows(tables, "log_offsets", [])
    fresh = Freshness.of(TableReader(tables), LATE)
    assert fresh.written_at is None
    assert (fresh.verdict(StatusRules()), fresh.notice(StatusRules())) == (None, None)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def test_markers_at_the_end_of_the_log_do_not_hide_it_from_rebuilt_tables(
    tmp_path: Path,
) -> None:
    """They are in no history, so they look like lag, however old they are."""
    tables = str(tmp_path / "tables")
    create(tables)
    apply = start_apply(tables)
    apply_next(apply, now_ms())
    maintain_bases(apply.writer.epoch, timedelta(days=7), now=datetime.now(timezone.utc))
    apply_next(apply, now_ms())
    reader = TableReader(tables)
    moment, end = reader.written_at, reader.load_states[LOG_PARTITION].next_offset + 1
    apply_next(apply, now_ms())
    sampled_at = [moment - timedelta(minutes=minutes) for minutes in (350, 5, 1, 0)]
    samples = [sample_of(at, end, LOG_PARTITION) for at in sampled_at]
    write_rows(tables, LOG_OFFSETS.name, samples)
    rebuilt = TableReader(tables).with_history(since=moment, group_ids=["g"]).at(moment)
    assert rebuilt.rebuilt_from is not None
    (known_until,) = tables_known_until(rebuilt)["known_until"].to_pylist()
    assert moment - known_until < timedelta(milliseconds=1)


def test_tables_of_the_future_are_of_unknown_age(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`run` started with a clock that was a day ahead, and may have stopped since."""
    tables = str(tmp_path / "tables")
    create(tables)
    monkeypatch.setattr(load_progress, "utc_now", lambda: utc_now() + timedelta(days=1))
    apply_next(start_apply(tables))
    entry = max(Path(LOAD_PROGRESS.path(tables), "_delta_log").glob("*.json"))
    actions = map(json.loads, entry.read_text().splitlines())
    (timestamp,) = (a["commitInfo"]["timestamp"] for a in actions if "commitInfo" in a)
    reader = TableReader(tables)
    # The clock is right again, and the commit has its time.
    assert Freshness.of(reader).verdict(StatusRules()) is None

    entry.write_text(entry.read_text().replace(str(timestamp), str(timestamp + 24 * 3_600_000)))
    reader = TableReader(tables)
    verdict = Freshness.of(reader).verdict(StatusRules())
    assert verdict is not None
    assert verdict.status is Status.UNKNOWN
    assert "is in the future: the clock of `run` or of this machine is wrong" in verdict.reason
    assert freshness_notice(reader) == f"The tables were {verdict.reason}."
