"""Moments around a reload: rebuilt right, refused, or called not exact."""

from __future__ import annotations

import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from streaming.errors import ConfigurationError, TablesUnavailable
from streaming.kafka.fetch import LogDescription
from streaming.lag.past_statuses import PastStatuses
from streaming.reload.beginning import begin_reload
from streaming.reload.doubts import Doubt
from streaming.run.maintenance import maintain_beside_query
from streaming.tables.base_maintenance import maintain_bases
from streaming.tables.bases import BasePlace
from streaming.tables.creation import keep_snapshots, set_properties
from streaming.tables.past import Past
from streaming.tables.reader import TableReader
from streaming.tables.schemas import HISTORY_ALL, LOAD_PROGRESS, PROPERTY_HISTORY
from tests.support.logs.log_rows import LOG_PARTITION
from tests.support.tables.every_table import RECORDS, apply_logs, apply_next, create
from tests.support.tables.tables_folder import start_apply

WEEK = timedelta(days=7)
OF_PLAIN_RECORDS = ("group_offsets", "groups", "group_members")
"""Without pending offsets: those that were lost with the log are not known."""
KEPT = 4
"""Micro-batches before the truncation of the log."""

Rows = dict[str, list[str]]


class Truncated:
    """A log of five micro-batches, whose last one is lost; other records follow."""

    def __init__(self, tables: str) -> None:
        self.tables = tables
        create(tables)
        self.apply = start_apply(tables)
        set_properties(self.apply.writer.epoch, LOAD_PROGRESS, {PROPERTY_HISTORY: HISTORY_ALL})
        self.times_ms: list[int] = []
        self.moments: list[tuple[datetime, Rows]] = []

    def micro_batches(self, count: int) -> None:
        for _ in range(count):
            self.times_ms.append(_next_ms())
            apply_next(self.apply, self.times_ms[-1])
            self.keep_moment()

    def keep_moment(self) -> None:
        reader = TableReader(self.tables)
        self.moments.append((reader.written_at, rows_of(reader)))

    def begin_reload(self) -> None:
        """The end of the log is lost, and the reload begins."""
        topic = LogDescription(
            topic="t", cluster_id="c", topic_id="t", leaders={LOG_PARTITION: (1, 5)}
        )
        doubt = Doubt(reason="truncated", kept_below=KEPT * RECORDS)
        begin_reload(self.apply.writer, self.apply.progress, {LOG_PARTITION: doubt}, topic)
        self.apply = start_apply(self.tables)

    def reload(self, *, later: int) -> None:
        """The whole log is read, which has other records now."""
        new = [_next_ms() for _ in range(later)]
        apply_logs(self.apply, 0, [*self.times_ms[:KEPT], *new], variant=100)
        self.keep_moment()

    def make_base(self) -> None:
        maintain_bases(self.apply.writer.epoch, WEEK, now=datetime.now(timezone.utc))

    def forget_snapshots(self) -> None:
        keep_snapshots(self.apply.writer.epoch, timedelta(0))
        assert maintain_beside_query(self.apply.writer.epoch, WEEK)


def _next_ms() -> int:
    # Records have milliseconds, snapshots microseconds.
    time.sleep(0.003)
    return time.time_ns() // 1_000_000


def rows_of(reader: TableReader, names: tuple[str, ...] = OF_PLAIN_RECORDS) -> Rows:
    return {name: sorted(map(repr, reader.read(name).to_pylist())) for name in names}


@pytest.fixture(name="truncated")
def _truncated(tmp_path: Path) -> Truncated:
    """Five micro-batches, with a base after the second."""
    found = Truncated(str(tmp_path / "tables"))
    found.micro_batches(2)
    found.make_base()
    found.micro_batches(3)
    return found


@pytest.mark.parametrize("later", [0, 1, 2], ids=["shorter", "as long", "longer"])
def test_moments_before_a_reload_have_their_rows(truncated: Truncated, later: int) -> None:
    truncated.begin_reload()
    truncated.reload(later=later)
    truncated.make_base()
    truncated.micro_batches(1)
    truncated.forget_snapshots()

    for at, rows in truncated.moments[1:5]:
        reader = TableReader(truncated.tables, as_of=at)
        assert rows_of(reader) == rows
        assert "not exact for log partitions 7:" in str(reader.rebuilt_from)
    at, rows = truncated.moments[5]
    after = TableReader(truncated.tables, as_of=at)
    assert rows_of(after) == rows
    assert str(after.rebuilt_from).endswith("; exact")


def test_moments_during_a_reload_have_the_rows_before_it(truncated: Truncated) -> None:
    truncated.begin_reload()
    newest = TableReader(truncated.tables)
    for at, rows in [*truncated.moments[1:], (newest.moment, truncated.moments[-1][1])]:
        found = newest.rebuilt(at, newest.rebuilding(at, at))
        assert found is not None
        assert rows_of(found) == rows


def test_a_moment_between_a_reload_and_the_next_base_is_refused(
    truncated: Truncated,
) -> None:
    truncated.begin_reload()
    truncated.reload(later=2)
    at, rows = truncated.moments[-1]
    truncated.micro_batches(1)
    newest = TableReader(truncated.tables)
    # Its snapshot is still there.
    assert newest.rebuilt(at, newest.rebuilding(at, at)) is None
    assert rows_of(Past(newest, since=at).at(at)) == rows
    with pytest.raises(ConfigurationError, match="as soon as the next base is written"):
        newest.rebuilding(at, at).at(at)
    truncated.make_base()
    truncated.forget_snapshots()

    with pytest.raises(ConfigurationError, match=r"log partition was reloaded.* from 20.*Z$"):
        TableReader(truncated.tables, as_of=at)
    assert TableReader(truncated.tables).before(at) is None
    statuses = PastStatuses(newest, "g", at - timedelta(minutes=1))
    status = statuses.status(at)
    assert (status.status, status.is_known) == (None, False)
    assert "a log partition was reloaded" in status.reason


def test_a_moment_has_the_same_rows_in_every_span(truncated: Truncated) -> None:
    """The clock of the old leader was a minute ahead of that of the new one."""
    now_ms = _next_ms()
    at = datetime.fromtimestamp((now_ms + 5_000) / 1000, timezone.utc)
    for ahead_ms in (60_000, 1_000, 2_000, 61_000):
        apply_next(truncated.apply, now_ms + ahead_ms)
    newest = TableReader(truncated.tables)
    alone = newest.rebuilt(at, newest.rebuilding(at, at))
    assert alone is not None
    later = at + timedelta(minutes=2)
    assert rows_of(alone) == rows_of(Past(newest, since=at, until=later).at(at))


def test_tables_that_cannot_be_read_are_no_gap(
    truncated: Truncated, monkeypatch: pytest.MonkeyPatch
) -> None:
    newest = TableReader(truncated.tables)
    at, _ = truncated.moments[3]
    statuses = PastStatuses(newest, "g", at)

    def unreachable(*_arguments: object, **_options: object) -> None:
        raise TablesUnavailable("the store is unreachable")

    monkeypatch.setattr(BasePlace, "read", unreachable)
    with pytest.raises(TablesUnavailable):
        statuses.status(at)
    with pytest.raises(TablesUnavailable):
        Past(newest, since=at).before(at)
