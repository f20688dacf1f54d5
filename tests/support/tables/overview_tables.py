"""Tables of groups whose lags grow, rest and shrink, with five minutes of history."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path

from streaming.tables.schemas import TABLES
from tests.support.tables.sample_rows import history_of, offset_row, sample
from tests.support.tables.tables_folder import (
    Row,
    apply_micro_batch,
    backdate,
    create_tables,
    write_rows,
)

WINDOW = timedelta(minutes=5)
GROWING, SHRINKING, STEADY, NEW = "orders-slow", "orders-fast", "orders-level", "payments"
_COMMIT_EVERY = timedelta(seconds=30)
_PER_S = 100
_END = 100_000
_OFFSETS = {
    # Five minutes ago and now; 30,000 records were written in between.
    GROWING: (60_000, 75_000),
    SHRINKING: (20_000, 80_000),
    STEADY: (68_000, 98_000),
}


def create_overview_tables(in_folder: Path) -> str:
    """A group per trend, and `payments`, whose rates are unknown."""
    folder = create_tables(in_folder)
    now = datetime.now(timezone.utc)
    then = now - WINDOW
    progress: list[Row] = [{"updated_at": now, "next_offset": 9, "high_watermark": 9}]
    names = [*_OFFSETS, NEW]
    before = [offset_row(name, first, then, "orders") for name, (first, _) in _OFFSETS.items()]
    apply_micro_batch(
        folder,
        progress=[{**progress[0], "updated_at": then}],
        groups=[_group(name) for name in names],
        group_offsets=before,
    )
    for table in TABLES:
        backdate(folder, table, then - timedelta(seconds=20))
    commits = [offset_row(name, last, now, "orders") for name, (_, last) in _OFFSETS.items()]
    apply_micro_batch(
        folder,
        progress=progress,
        group_offsets=[*commits, offset_row(NEW, 5, now, "Invoices")],
        offset_commits=_history(now),
    )
    samples = [
        sample(now - timedelta(seconds=ago), *log)
        for ago in range(330, -1, -30)
        for log in (
            (_END - ago * _PER_S, "orders"),
            (5, "Invoices"),
            (9, "__consumer_offsets"),
        )
    ]
    write_rows(folder, "log_offsets", samples)
    return folder


def _history(now: datetime) -> list[Row]:
    """A commit of each group every 30 s."""
    steps = round(WINDOW / _COMMIT_EVERY)
    moments = [(step, now - (steps - step) * _COMMIT_EVERY) for step in range(steps + 1)]
    return history_of(
        offset_row(
            *(name, first + (last - first) * step // steps, at, "orders"), outcome_timestamp=at
        )
        for name, (first, last) in _OFFSETS.items()
        for step, at in moments
    )


def _group(name: str) -> Row:
    kind = {"group_type": "consumer"} if name == GROWING else {"group_type": "classic"}
    return {"group_id": name, "state": "Stable", "member_count": 2} | kind
