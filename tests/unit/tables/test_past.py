"""Moments before the oldest snapshot, rebuilt from a base and the history: as the snapshot was.

Around a reload they are right, refused, or called not exact.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from functools import cached_property, partial
from pathlib import Path
from threading import Barrier, BrokenBarrierError
from typing import Any
from unittest import mock

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from coordinator_state.insight.group_status import StatusRules
from streaming.engine.micro_batch import MicroBatchApply
from streaming.errors import ConfigurationError, TablesUnavailable, WriterFenced
from streaming.kafka.leaders import LogDescription
from streaming.lag.freshness import Freshness
from streaming.reload.beginning import begin_reload
from streaming.reload.doubts import Doubt
from streaming.run.maintenance import maintain_beside_query
from streaming.tables import base_maintenance, maintenance
from streaming.tables import reader as reader_module
from streaming.tables.base_maintenance import MOST_AGE, maintain_bases, make_base
from streaming.tables.bases import BasePlace, bases_of
from streaming.tables.creation import keep_snapshots, set_properties
from streaming.tables.delta import open_table
from streaming.tables.durations import DEFAULT_HISTORY_RESOLUTION
from streaming.tables.folder import keep_up_to_date
from streaming.tables.history import History
from streaming.tables.maintenance import tidy_up
from streaming.tables.moments import Snapshots
from streaming.tables.reader import TableReader
from streaming.tables.schemas import (
    GROUP_MEMBERS,
    GROUP_OFFSETS,
    GROUPS,
    HISTORY_ALL,
    HISTORY_OFF,
    KEY_TABLES,
    LOAD_PROGRESS,
    OFFSET_COMMITS,
    PENDING_OFFSETS,
    PROPERTY_HISTORY,
    STATE_CURRENT,
    STATE_WAITING,
    Table,
)
from streaming.tables.writer_epoch import WriterEpoch
from tests.support.brokers.object_store import served_object_store
from tests.support.clients.command_line import call, json_lines
from tests.support.logs.log_rows import LOG_PARTITION
from tests.support.tables.every_table import RECORDS, apply_logs, apply_next, create
from tests.support.tables.tables_folder import start_apply

PLAIN = (GROUP_OFFSETS, GROUPS, GROUP_MEMBERS)
"""Tables whose rows are known after a reload; of pending offsets some were lost with the log."""
REBUILT = (*PLAIN, PENDING_OFFSETS)
UNKNOWN = {PENDING_OFFSETS: ("client_id", "client_host")}
"""The history does not have the client of a pending offset."""
WEEK = timedelta(days=7)
OTHER = 11
"""A log partition without a leader at first."""
KEPT = 4
"""Micro-batches before the truncation of the log."""
Rows = dict[str, list[str]]


@dataclass(frozen=True)
class Moment:
    """A snapshot: its moment, and its rows."""

    at: datetime
    rows: Rows
    next_offset: int

    @property
    def plain_rows(self) -> Rows:
        return {table.name: self.rows[table.name] for table in PLAIN}


@dataclass
class Live:
    """A query whose records have the time of now."""

    tables: str
    moments: list[Moment] = field(default_factory=list)
    times_ms: list[int] = field(default_factory=list)

    @cached_property
    def apply(self) -> MicroBatchApply[pa.Table]:
        """The newest start."""
        return start_apply(self.tables)

    @property
    def epoch(self) -> WriterEpoch:
        return WriterEpoch.current(self.tables)

    def create(self) -> None:
        create(self.tables)
        set_properties(self.epoch, LOAD_PROGRESS, {PROPERTY_HISTORY: HISTORY_ALL})

    def copy(self, folder: Path) -> Live:
        """A copy of the folder, which no query writes to yet."""
        tables = str(shutil.copytree(self.tables, folder / "tables"))
        return Live(tables, [*self.moments], [*self.times_ms])

    def micro_batches(self, count: int) -> None:
        """Write micro-batches and keep their snapshots."""
        for _ in range(count):
            self.times_ms.append(_next_ms())
            apply_next(self.apply, self.times_ms[-1])
            self._keep_moment()

    def _keep_moment(self) -> None:
        reader = TableReader(self.tables)
        next_offset = reader.load_states[LOG_PARTITION].next_offset
        self.moments.append(Moment(reader.written_at, rows_of(reader), next_offset))

    def make_base(self, *, if_due: bool = True) -> None:
        """Make a base, and delete old ones."""
        if if_due:
            maintain_bases(self.epoch, WEEK, now=datetime.now(timezone.utc))
            return
        with mock.patch.object(base_maintenance, "MOST_AGE", timedelta(0)):
            self.make_base()

    def forget_snapshots(self) -> None:
        """Delete the files of all snapshots but the newest."""
        keep_snapshots(self.epoch, timedelta(0))
        assert maintain_beside_query(self.epoch, WEEK)

    def begin_reload(self) -> None:
        """The end of the log is lost, and the reload begins."""
        topic = LogDescription(
            topic="t", cluster_id="c", topic_id="t", leaders={LOG_PARTITION: (1, 5)}
        )
        doubt = Doubt(reason="truncated", kept_below=KEPT * RECORDS)
        progress = self.apply.progress
        begin_reload(self.apply.writer, progress, progress, {LOG_PARTITION: doubt}, topic)
        self.apply = start_apply(self.tables)

    def reload(self, *, later: int) -> None:
        """The whole log is read, which has other records now."""
        new = [_next_ms() for _ in range(later)]
        apply_logs(self.apply, 0, [*self.times_ms[:KEPT], *new], variant=100)
        self._keep_moment()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _next_ms() -> int:
    """A later millisecond: records have milliseconds, snapshots microseconds."""
    before_ms = _now_ms()
    while (next_ms := _now_ms()) == before_ms:
        pass
    return next_ms


def rows_of(
    reader: TableReader,
    group_ids: Sequence[str] | None = None,
    tables: Iterable[Table] = REBUILT,
) -> Rows:
    """The rows of rebuilt tables, in a fixed order, without the columns that may be null."""
    return {
        table.name: sorted(
            repr({name: value for name, value in row.items() if name not in UNKNOWN.get(table, ())})
            for row in reader.read(table.name).to_pylist()
            if group_ids is None or row["group_id"] in group_ids
        )
        for table in tables
    }


def rebuilt_at(
    newest: TableReader, at: datetime, group_ids: Sequence[str] | None = None
) -> TableReader:
    """The tables at a moment, rebuilt although the snapshot may still be there."""
    rebuilt = newest.with_history(since=at, until=at, group_ids=group_ids).at(at)
    assert rebuilt.rebuilt_from is not None
    return rebuilt


def plain_rows_of(reader: TableReader) -> Rows:
    return rows_of(reader, tables=PLAIN)


@pytest.fixture(scope="module")
def five_micro_batches(tmp_path_factory: pytest.TempPathFactory) -> Live:
    """Five micro-batches, with a base after the second."""
    live = Live(str(tmp_path_factory.mktemp("five") / "tables"))
    live.create()
    live.micro_batches(2)
    live.make_base()
    live.micro_batches(3)
    return live


@pytest.fixture(scope="module")
def eight_micro_batches(five_micro_batches: Live, tmp_path_factory: pytest.TempPathFactory) -> Live:
    """Three more, with another base before them."""
    live = five_micro_batches.copy(tmp_path_factory.mktemp("eight"))
    live.make_base(if_due=False)
    live.micro_batches(3)
    return live


@pytest.fixture(scope="module")
def forgotten(eight_micro_batches: Live, tmp_path_factory: pytest.TempPathFactory) -> Live:
    """Eight micro-batches, and the files of the last snapshot only; for tests that only read."""
    live = eight_micro_batches.copy(tmp_path_factory.mktemp("forgotten"))
    live.forget_snapshots()
    return live


@pytest.fixture
def live(eight_micro_batches: Live, tmp_path: Path) -> Live:
    return eight_micro_batches.copy(tmp_path)


@pytest.fixture
def truncated(five_micro_batches: Live, tmp_path: Path) -> Live:
    """A log of five micro-batches, whose last one gets lost."""
    return five_micro_batches.copy(tmp_path)


@pytest.fixture
def baseless(tmp_path: Path) -> Live:
    """One micro-batch, without a base."""
    live = Live(str(tmp_path / "tables"))
    live.create()
    live.micro_batches(1)
    return live


def test_a_moment_whose_snapshot_is_deleted_is_rebuilt(forgotten: Live) -> None:
    newest = TableReader(forgotten.tables)
    assert newest.begins_at == forgotten.moments[1].at
    for moment in forgotten.moments[1:-1]:
        reader = TableReader(forgotten.tables, as_of=moment.at)
        assert reader.rebuilt_from is not None
        assert rows_of(reader) == moment.rows
        assert reader.load_states[LOG_PARTITION].next_offset == moment.next_offset
        assert reader.moment == reader.as_of == moment.at
        before = newest.before(moment.at)
        assert before is not None
        assert rows_of(before) == moment.rows
    assert TableReader(forgotten.tables, as_of=forgotten.moments[-1].at).rebuilt_from is None
    with pytest.raises(ConfigurationError, match="the tables reach from"):
        TableReader(forgotten.tables, as_of=forgotten.moments[0].at)
    assert newest.before(forgotten.moments[0].at) is None


@pytest.fixture
def gap_ms(live: Live) -> list[int]:
    """Times of records while `run` was stopped; the next run reads them in one micro-batch."""
    times_ms = [_next_ms() for _ in range(3)]
    apply_logs(live.apply, live.apply.progress.rows[LOG_PARTITION].next_offset, times_ms)
    return times_ms


def test_a_moment_in_a_gap_has_the_records_up_to_it(
    live: Live, gap_ms: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader_module, "_LIVE", timedelta(0))
    newest = TableReader(live.tables)
    past = newest.with_history(since=live.moments[-1].at, prefers_snapshots=True)
    before = live.moments[-1].next_offset
    for number, time_ms in enumerate(gap_ms[:-1]):
        at = datetime.fromtimestamp(time_ms / 1000, timezone.utc)
        for reader in (TableReader(live.tables, as_of=at), past.at(at)):
            assert str(reader.rebuilt_from).endswith("; exact")
            next_offset = reader.load_states[LOG_PARTITION].next_offset
            assert next_offset == before + (number + 1) * RECORDS
            times = reader.read(OFFSET_COMMITS.name)["record_timestamp"]
            assert pc.max(times).as_py() == at
    # A live run is read from its snapshots.
    monkeypatch.setattr(reader_module, "_LIVE", timedelta(days=1))
    reader = TableReader(live.tables, as_of=at)
    assert reader.rebuilt_from is None
    assert rows_of(reader) == live.moments[-1].rows


def test_without_records_of_the_gap_the_snapshot_is_right(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader_module, "_LIVE", timedelta(0))
    at = datetime.now(timezone.utc)
    live.micro_batches(1)
    reader = TableReader(live.tables, as_of=at)
    assert reader.rebuilt_from is None
    assert rows_of(reader) == live.moments[-2].rows


def test_a_longer_retention_does_not_hide_the_bases(forgotten: Live, tmp_path: Path) -> None:
    live = forgotten.copy(tmp_path)
    keep_snapshots(live.epoch, timedelta(hours=1))
    moment = live.moments[3]
    reader = TableReader(live.tables, as_of=moment.at)
    assert reader.rebuilt_from is not None
    assert rows_of(reader) == moment.rows
    assert reader.version == TableReader(live.tables).version


def test_history_of_a_rebuilt_moment_ends_there(forgotten: Live) -> None:
    at = forgotten.moments[3].at
    reader = TableReader(forgotten.tables, as_of=at)
    for name, column in (("offset_commits", "outcome_timestamp"), ("group_events", None)):
        newest = TableReader(forgotten.tables).read(name)
        rows = reader.read(name, filters=[("log_partition", "=", LOG_PARTITION)])
        assert 0 < rows.num_rows < newest.num_rows
        assert max(rows[column or "record_timestamp"].to_pylist()) <= at
        with duckdb.connect() as sql:
            sql.register("history", reader.dataset(name))
            assert sql.execute("SELECT count(*) FROM history").fetchall() == [(rows.num_rows,)]


def test_rows_of_some_groups_only_are_read(live: Live) -> None:
    newest = TableReader(live.tables)
    moment = live.moments[-2]
    some, none = (rebuilt_at(newest, moment.at, group_ids) for group_ids in (["g"], ["unknown"]))
    assert rows_of(some) == moment.rows
    assert rows_of(none) == {table.name: [] for table in REBUILT}


def test_a_base_is_made_when_it_is_due(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    made = bases_of(live.tables)
    files = duckdb.read_parquet(f"{GROUP_OFFSETS.path(made[0].path)}/*.parquet")
    assert len(files) == len(live.moments[1].rows["group_offsets"])
    live.make_base()
    assert bases_of(live.tables) == made
    # Many records follow the newest base.
    monkeypatch.setattr("streaming.tables.base_maintenance._MIN_RECORDS", 1)
    monkeypatch.setattr("streaming.tables.base_maintenance._RECORDS_PER_ROW", 0)
    live.make_base()
    assert len(bases_of(live.tables)) == 3
    # Nothing was written since.
    live.make_base()
    monkeypatch.setattr("streaming.tables.base_maintenance.MOST_AGE", -MOST_AGE)
    live.make_base()
    assert len(bases_of(live.tables)) == 3


def made_bases(live: Live) -> int:
    """Make a base if one is due; return the number of bases."""
    make_base(live.epoch, TableReader(live.tables))
    return len(bases_of(live.tables))


def test_a_base_is_due_after_the_clock_was_set_back(
    baseless: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead = datetime.now(timezone.utc) + timedelta(days=1)
    baseless.apply.progress.write(baseless.apply.writer, now=ahead)
    assert made_bases(baseless) == 1
    apply_next(baseless.apply)
    assert TableReader(baseless.tables).written_at - ahead < timedelta(seconds=1)
    assert made_bases(baseless) == 1
    monkeypatch.setattr("streaming.tables.base_maintenance.MOST_AGE", timedelta(milliseconds=1))
    assert made_bases(baseless) == 2


def test_a_stop_is_noticed_after_the_clock_was_set_back(baseless: Live) -> None:
    before = datetime.now(timezone.utc)
    ahead = before + timedelta(days=1)
    baseless.apply.progress.write(baseless.apply.writer, now=ahead)
    later = before + timedelta(hours=1)
    fresh = Freshness.of(TableReader(baseless.tables), later)
    assert fresh.loaded_at is not None
    assert timedelta(0) <= fresh.loaded_at - before < timedelta(minutes=1)
    assert "Nothing written since" in str(fresh.notice(StatusRules()))


def test_a_base_is_due_when_a_waiting_log_partition_has_records(baseless: Live) -> None:
    progress = baseless.apply.progress
    progress.set_leaderless([OTHER])
    progress.write(baseless.apply.writer)
    assert made_bases(baseless) == 1
    newest = TableReader(baseless.tables)
    rebuilt = rebuilt_at(newest, newest.moment)
    for reader in (newest, rebuilt):
        states = {p: load.state for p, load in reader.load_states.items()}
        assert states == {LOG_PARTITION: STATE_CURRENT, OTHER: STATE_WAITING}
    progress.set_leaderless([])
    progress.write(baseless.apply.writer)
    assert made_bases(baseless) == 1
    progress.set_leaderless([OTHER])
    progress.rows[OTHER].next_offset = 5
    progress.set_leaderless([])
    progress.rows[OTHER].state = STATE_CURRENT
    progress.write(baseless.apply.writer)
    assert made_bases(baseless) == 2


def test_a_writer_that_was_replaced_makes_and_deletes_no_base(baseless: Live) -> None:
    old = baseless.apply.writer.epoch
    reader = TableReader(baseless.tables)
    start_apply(baseless.tables)
    with pytest.raises(WriterFenced):
        make_base(old, reader)
    assert not any(base.is_complete for base in bases_of(baseless.tables))
    make_base(WriterEpoch.current(baseless.tables), TableReader(baseless.tables))
    complete = [base for base in bases_of(baseless.tables) if base.is_complete]
    tomorrow = datetime.now(timezone.utc) + 9 * timedelta(days=1)
    with pytest.raises(WriterFenced):
        maintain_bases(old, WEEK, now=tomorrow)
    assert [base for base in bases_of(baseless.tables) if base.is_complete] == complete != []


def test_a_full_disk_and_a_damaged_table_stop_no_other_step(
    baseless: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    compact, compacted = maintenance._compact_tiny, []

    def is_full(_epoch: WriterEpoch, _reader: TableReader) -> None:
        raise TablesUnavailable("the disk is full")

    def is_damaged(epoch: WriterEpoch, table: Table) -> None:
        if table is OFFSET_COMMITS:
            raise TablesUnavailable("offset_commits is damaged")
        compact(epoch, table)
        compacted.append(table.name)

    baseless.micro_batches(1)
    keep_snapshots(baseless.epoch, timedelta(0))
    files = set(Path(baseless.tables, "group_offsets").glob("*.parquet"))
    monkeypatch.setattr(maintenance, "make_base", is_full)
    monkeypatch.setattr(maintenance, "_compact_tiny", is_damaged)
    with pytest.raises(TablesUnavailable, match=r"^the disk is full; offset_commits is damaged$"):
        tidy_up(baseless.epoch)
    assert set(Path(baseless.tables, "group_offsets").glob("*.parquet")) < files
    assert {"group_events", "status_changes"} <= {*compacted}


def fail_at(monkeypatch: pytest.MonkeyPatch, table: Table, error: Exception) -> None:
    """Let the write of a base end at a table."""
    write = base_maintenance._write

    def failing(base: BasePlace, written: Table, *rest: Any) -> int:
        if written is table:
            raise error
        return write(base, written, *rest)

    monkeypatch.setattr(base_maintenance, "_write", failing)


def test_an_interrupted_base_is_ignored_and_deleted_later(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    complete = bases_of(live.tables)
    with monkeypatch.context() as patched, pytest.raises(OSError, match="killed"):
        fail_at(patched, KEY_TABLES[2], OSError("killed"))
        live.make_base(if_due=False)
    *others, half = bases_of(live.tables)
    assert others == complete
    assert not half.is_complete

    newest = TableReader(live.tables)
    assert rows_of(rebuilt_at(newest, live.moments[-1].at)) == live.moments[-1].rows
    live.make_base()
    assert half in bases_of(live.tables)
    monkeypatch.setattr(base_maintenance, "_WRITTEN_WITHIN", timedelta(0))
    live.make_base()
    assert bases_of(live.tables) == complete


@pytest.mark.parametrize("error", [OSError("killed"), TablesUnavailable("the disk is full")])
def test_a_base_that_is_written_again_has_each_row_once(
    live: Live, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    live.micro_batches(1)
    monkeypatch.setattr("streaming.tables.base_maintenance.MOST_AGE", timedelta(0))
    count = len(bases_of(live.tables))
    with monkeypatch.context() as patched, pytest.raises(type(error), match=str(error)):
        fail_at(patched, LOAD_PROGRESS, error)
        make_base(live.epoch, TableReader(live.tables))
    # A killed process leaves its files, a full disk needs the space.
    assert len(bases_of(live.tables)) == count + isinstance(error, OSError)
    make_base(live.epoch, TableReader(live.tables))
    assert_newest_base_is_of_the_last_moment(live)
    newest = bases_of(live.tables)[-1]
    assert newest.count(GROUP_OFFSETS) == newest.read(GROUP_OFFSETS).num_rows > 0


def assert_newest_base_is_of_the_last_moment(live: Live) -> None:
    """A base is a tables folder."""
    newest = bases_of(live.tables)[-1]
    assert newest.is_complete
    reader = TableReader(newest.path)
    assert (rows_of(reader), reader.written_at) == (live.moments[-1].rows, live.moments[-1].at)


def test_two_jobs_at_once_make_one_base(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    live.micro_batches(1)
    monkeypatch.setattr("streaming.tables.base_maintenance.MOST_AGE", timedelta(0))
    write, at_once = base_maintenance._write, Barrier(2)

    def slowly(base: BasePlace, table: Any, *rest: Any) -> int:
        with suppress(BrokenBarrierError):
            at_once.wait(0.5)
        return write(base, table, *rest)

    monkeypatch.setattr(base_maintenance, "_write", slowly)
    readers = [TableReader(live.tables), TableReader(live.tables)]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(partial(make_base, live.epoch), readers))
    assert_newest_base_is_of_the_last_moment(live)


def test_commits_that_a_base_was_behind_are_in_the_past_of_a_group(baseless: Live) -> None:
    live, progress = baseless, baseless.apply.progress
    row = progress.rows[LOG_PARTITION]
    assert row.current_at is not None
    row.current_at -= timedelta(hours=1)
    row.high_watermark += 1
    progress.write(live.apply.writer, now=datetime.now(timezone.utc))
    live.make_base()
    half_an_hour_ago = time.time_ns() // 1_000_000 - 1_800_000
    apply_next(live.apply, half_an_hour_ago)
    live.micro_batches(1)
    last = live.moments[-1]
    rebuilt = TableReader(live.tables).with_history(since=last.at, group_ids=["g"]).at(last.at)
    assert rebuilt.rebuilt_from is not None
    assert rows_of(rebuilt, ["g"]) == rows_of(TableReader(live.tables), ["g"])


def test_a_run_without_history_deletes_the_bases(live: Live) -> None:
    assert bases_of(live.tables)
    keep_up_to_date(
        live.epoch,
        log_partitions=50,
        offsets_retention_ms=604_800_000,
        snapshot_retention=timedelta(minutes=6),
        history=HISTORY_OFF,
        history_resolution=DEFAULT_HISTORY_RESOLUTION,
        status_rules=StatusRules(),
    )
    assert bases_of(live.tables) == []


def test_bases_without_their_history_are_deleted(live: Live) -> None:
    epoch = live.epoch
    tomorrow = datetime.now(timezone.utc) + timedelta(days=1)
    assert maintain_bases(epoch, timedelta(days=1), now=tomorrow) == 0
    assert maintain_bases(epoch, timedelta(days=1), now=tomorrow + timedelta(days=1)) == 2
    assert bases_of(live.tables) == []


@pytest.mark.long
def test_a_store_answers_as_a_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    with served_object_store() as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        live = Live("s3://bucket/tables")
        live.create()
        live.micro_batches(1)
        live.make_base()
        live.micro_batches(2)
        for moment in live.moments[1:]:
            reader = TableReader(live.tables).before(moment.at)
            assert reader is not None
            assert (rows_of(reader), reader.rebuilt_from) == (moment.rows, None)
        live.forget_snapshots()

        reader = TableReader(live.tables, as_of=live.moments[1].at)
        assert rows_of(reader) == live.moments[1].rows
        long_ago = live.moments[0].at - timedelta(days=1)
        assert reader.before(long_ago) is None
        with pytest.raises(ConfigurationError, match="the tables reach from"):
            TableReader(live.tables, as_of=long_ago)
        later = datetime.now(timezone.utc) + timedelta(days=9)
        assert maintain_bases(live.epoch, WEEK, now=later) == 1
        assert bases_of(live.tables) == []


def test_the_command_line_shows_a_rebuilt_moment(forgotten: Live) -> None:
    moment = forgotten.moments[3]
    as_of = ["--tables", forgotten.tables, "--as-of", moment.at.isoformat()]
    shown = call("show", "offsets", *as_of, "--output", "json")
    assert len(json_lines(shown)) == len(moment.rows["group_offsets"])
    assert "rebuilt from the base of" in shown.stderr
    (row,) = json_lines(
        call("sql", "SELECT count(*) AS n FROM group_offsets", *as_of, "--output", "json")
    )
    assert row["n"] == len(moment.rows["group_offsets"])
    unknown = call("explain", "none", *as_of, exit_code=1)
    assert "rebuilt from the base of" in unknown.stderr
    assert TableReader(forgotten.tables).read("transactions").num_rows == 1
    without_history = call("show", "transactions", *as_of, "--output", "json")
    assert without_history.stdout == ""
    assert (
        "transactions has no history: its rows of that moment are no longer available"
        in without_history.stderr
    )


@pytest.mark.parametrize(
    "later",
    [pytest.param(0, marks=pytest.mark.long), pytest.param(1, marks=pytest.mark.long), 2],
    ids=["shorter", "as long", "longer"],
)
def test_moments_before_a_reload_have_their_rows(truncated: Live, later: int) -> None:
    truncated.begin_reload()
    truncated.reload(later=later)
    truncated.make_base()
    truncated.micro_batches(1)
    truncated.forget_snapshots()

    for moment in truncated.moments[1:5]:
        reader = TableReader(truncated.tables, as_of=moment.at)
        assert plain_rows_of(reader) == moment.plain_rows
        assert "not exact for log partitions 7:" in str(reader.rebuilt_from)
    reloaded = truncated.moments[5]
    after = TableReader(truncated.tables, as_of=reloaded.at)
    assert plain_rows_of(after) == reloaded.plain_rows
    assert str(after.rebuilt_from).endswith("; exact")


def test_moments_during_a_reload_have_the_rows_before_it(truncated: Live) -> None:
    truncated.begin_reload()
    newest = TableReader(truncated.tables)
    rows_at = {moment.at: moment.plain_rows for moment in truncated.moments[1:]}
    for at, rows in {**rows_at, newest.moment: truncated.moments[-1].plain_rows}.items():
        assert plain_rows_of(rebuilt_at(newest, at)) == rows


@pytest.mark.long
def test_a_moment_between_a_reload_and_the_next_base_is_refused(
    truncated: Live,
) -> None:
    truncated.begin_reload()
    truncated.reload(later=2)
    reloaded = truncated.moments[-1]
    at = reloaded.at
    truncated.micro_batches(1)
    newest = TableReader(truncated.tables)
    # Its snapshot is still there.
    snapshot = newest.with_history(since=at).at(at)
    assert snapshot.rebuilt_from is None
    assert plain_rows_of(snapshot) == reloaded.plain_rows
    snapshots = Snapshots(truncated.tables, open_table(truncated.tables, LOAD_PROGRESS))
    with pytest.raises(ConfigurationError, match="as soon as the next base is written"):
        History(snapshots, at, at).at(at)
    truncated.make_base()
    truncated.forget_snapshots()

    with pytest.raises(ConfigurationError, match=r"log partition was reloaded.* from 20.*Z$"):
        TableReader(truncated.tables, as_of=at)
    assert TableReader(truncated.tables).before(at) is None


def test_a_moment_has_the_same_rows_in_every_span(truncated: Live) -> None:
    """The clock of the old leader was a minute ahead of that of the new one."""
    now_ms = _next_ms()
    at = datetime.fromtimestamp((now_ms + 5_000) / 1000, timezone.utc)
    for ahead_ms in (60_000, 1_000, 2_000, 61_000):
        apply_next(truncated.apply, now_ms + ahead_ms)
    newest = TableReader(truncated.tables)
    in_span = newest.with_history(since=at, until=at + timedelta(minutes=2)).at(at)
    assert in_span.rebuilt_from is not None
    assert plain_rows_of(rebuilt_at(newest, at)) == plain_rows_of(in_span)


def test_tables_that_cannot_be_read_are_no_gap(
    truncated: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    newest = TableReader(truncated.tables)
    at = truncated.moments[3].at
    past = newest.with_history(since=at)

    def unreachable(*_arguments: object, **_options: object) -> None:
        raise TablesUnavailable("the store is unreachable")

    monkeypatch.setattr(BasePlace, "read", unreachable)
    with pytest.raises(TablesUnavailable):
        past.before(at)
