"""Maintenance of a tables folder: deletion of old files and days, and compaction of small files.

Each micro-batch replaces files of a table of keys that it changes, and adds a file to a table of
history. After a week with one micro-batch per second that is 600,000 files per table. Therefore
maintenance

* makes a base from time to time, from which later moments are rebuilt (`base_maintenance`);
* deletes files that only snapshots older than the snapshot retention need, and the entries of the
  Delta log that lead to them;
* deletes days of history that are older than the history retention, both by the clock and by the
  newest records: a clock that is ahead deletes nothing;
* compacts small files of history by day, and those of tables of keys with a change data feed,
  because delta-rs's MERGE writes small files.

It keeps the files of the newest snapshot, however old they are: a query that was stopped for long,
or was killed in a micro-batch, continues from it. It keeps those of later versions, too, because
the next snapshot may name them. delta-rs's own log clean-up with each checkpoint does not know the
snapshot and is therefore off.

Maintenance may run while the query writes. Its commits (deleted days, compaction) may conflict with
a commit of the query; the next round retries them. It deletes files without a commit: the commits
of VACUUM carry no changes, and on a busy table they conflict with those of the query.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone
from functools import partial
from itertools import chain
from typing import Any, Final, NamedTuple

import pyarrow as pa
from deltalake import DeltaTable, WriterProperties
from deltalake.exceptions import DeltaError

from streaming.errors import ConfigurationError, TablesUnavailable
from streaming.tables import deletion_vectors, delta
from streaming.tables.base_maintenance import maintain_bases, make_base
from streaming.tables.bases import FOLDER
from streaming.tables.clock import earliest_now
from streaming.tables.file_systems import file_system
from streaming.tables.load_state import pinned_versions
from streaming.tables.locations import local_path, sync_file
from streaming.tables.log_actions import deletion_vectors_since, removed_after, removed_before
from streaming.tables.moments import Snapshots
from streaming.tables.properties import snapshot_retention
from streaming.tables.reader import TableReader
from streaming.tables.replacing import MOST_FILES
from streaming.tables.schemas import (
    ALL_TABLES,
    BESIDE_TABLES,
    DEFAULT_SNAPSHOT_RETENTION,
    HISTORY_TABLES,
    JUDGED_TABLES,
    KEY_TABLES,
    LOAD_PROGRESS,
    STATE_TABLES,
    TOPIC_PROGRESS,
    Table,
)
from streaming.tables.writer_epoch import WriterEpoch


class _Limit(NamedTuple):
    """The limit of small files; a file that reaches one of the two is compacted no further."""

    size_bytes: int
    rows: int

    def holds(self, file: _File) -> bool:
        return file.size_bytes < self.size_bytes and file.rows < self.rows


_MB: Final = 1024 * 1024
_TINY: Final = _Limit(size_bytes=_MB, rows=250_000)
_LIMITS: Final = (_TINY, _Limit(size_bytes=32 * _MB, rows=8_000_000))
"""Files that repeat few values are small although they have many rows."""
_WRITER_PROPERTIES: Final = WriterProperties(
    # Readers of a few minutes skip the other row groups.
    max_row_group_size=100_000,
    compression="ZSTD",
)
UNREFERENCED_KEPT: Final = timedelta(hours=1)
"""How long a file that no version names is kept, even with a shorter snapshot retention."""
JUDGED_KEPT: Final = timedelta(minutes=10)
"""How long old versions of lag and status are kept at most."""
MOST_SMALL_FILES: Final = 16
"""Up to this number, small files are not compacted."""
_DAY: Final = "day"
_HISTORY: Final = tuple(chain.from_iterable(HISTORY_TABLES.values()))


@dataclass(frozen=True, slots=True, kw_only=True)
class TableMaintenance:
    """The result of the maintenance of a table."""

    table: str
    days_deleted: int = 0
    files_compacted: int = 0
    files_deleted: int = 0
    bases_deleted: int = 0
    error: str = ""
    """Why a part of the maintenance failed; the next round retries it."""

    @property
    def is_nothing(self) -> bool:
        """Whether there was nothing to do."""
        return not (
            self.days_deleted or self.files_compacted or self.files_deleted or self.bases_deleted
        )


def maintain_tables(
    epoch: WriterEpoch, history_retention: timedelta, *, now: datetime
) -> Iterator[TableMaintenance]:
    """Maintain the bases first, so that each past moment can be rebuilt, and then each table.

    The snapshot retention is a property of the tables (`creation.retention_properties`).

    Args:
        epoch: the writer epoch of the folder.
        history_retention: how long days of history are kept.
        now: the current time.

    Raises:
        ConfigurationError: there are no tables.
        WriterFenced: a newer writer has taken over.
    """
    days = _days(epoch.tables, *_HISTORY)
    yield _maintain_bases(epoch, history_retention, _until(days, now) or now)
    kept = _KeptVersions.of(epoch.tables)
    for table in ALL_TABLES:
        if table in JUDGED_TABLES:
            until = None
        elif table in BESIDE_TABLES:
            # This machine's clock gave them their days: it may have been ahead for a while.
            until = _until(_days(epoch.tables, table)[:-1], now)
        else:
            until = _until(days, now)
        kept_since = None if until is None else until - history_retention
        yield _maintain_table(epoch, table, kept, kept_since)


def _days(tables: str, *by_day: Table) -> list[date]:
    """The days with rows in any of these tables; none if one cannot be read."""
    try:
        partitions = [DeltaTable(table.path(tables)).partitions() for table in by_day]
    except (DeltaError, OSError):
        # The maintenance of the table says why.
        return []
    days = {str(values[_DAY]) for values in chain.from_iterable(partitions)}
    return sorted(date.fromisoformat(day) for day in days if day != str(None))


def _until(days: Sequence[date], now: datetime) -> datetime | None:
    """The end of the newest of these days, or the current time if that is earlier."""
    return min(now, datetime.combine(days[-1], time.max, timezone.utc)) if days else None


def _maintain_bases(
    epoch: WriterEpoch, history_retention: timedelta, now: datetime
) -> TableMaintenance:
    try:
        deleted = maintain_bases(epoch, history_retention, now=now)
    except TablesUnavailable as error:
        return TableMaintenance(table=FOLDER, error=f"maintenance of bases failed: {error}")
    return TableMaintenance(table=FOLDER, bases_deleted=deleted)


def tidy_up(epoch: WriterEpoch) -> None:
    """Make a base if one is due, delete files of expired snapshots, and compact very small files.

    It takes a few milliseconds for each table, beside the maintenance of all tables.

    Raises:
        TablesUnavailable: a table cannot be read or written.
    """
    failures: list[TablesUnavailable] = []

    def step(action: Callable[[], object]) -> None:
        # The next steps may free the space that a full disk lacks.
        try:
            action()
        except TablesUnavailable as error:
            failures.append(error)

    step(lambda: make_base(epoch, TableReader(epoch.tables)))
    try:
        kept = _KeptVersions.of(epoch.tables)
    except TablesUnavailable as error:
        failures.append(error)
    else:
        progress = (TOPIC_PROGRESS, LOAD_PROGRESS)
        for table in (*KEY_TABLES, *STATE_TABLES.values(), *progress, *JUDGED_TABLES):
            step(partial(_expire, epoch, table, kept))
    for table in (*_HISTORY, *(table for table in BESIDE_TABLES if table.partition_by)):
        step(partial(_compact_tiny, epoch, table))
    if failures:
        raise TablesUnavailable("; ".join(dict.fromkeys(map(str, failures))))


def _expire(epoch: WriterEpoch, table: Table, kept: _KeptVersions) -> None:
    path = table.path(epoch.tables)
    with delta.writing(path):
        opened = DeltaTable(path)
        _delete_unneeded(epoch, opened, table, kept, _expired(opened, kept.begin(table)))


def _compact_tiny(epoch: WriterEpoch, table: Table) -> None:
    path = table.path(epoch.tables)
    with delta.writing(path):
        _compact(epoch, DeltaTable(path), [_TINY])


@dataclass(frozen=True, slots=True)
class _KeptVersions:
    """The versions of the oldest snapshot that readers may still read.

    `since` is the begin of the snapshot retention. The snapshot at that time was replaced within
    the retention, or is the newest one. Its tables may have been compacted long before: the files
    that it needs are those that its versions name, however long ago a later version removed them.
    `newest` has the versions of the newest snapshot, which is kept whatever the clocks say.
    """

    tables: str
    since: datetime
    versions: Mapping[str, int]
    newest: Mapping[str, int]

    @classmethod
    def of(cls, tables: str) -> _KeptVersions:
        """Read them.

        Raises:
            TablesUnavailable: `load_progress` cannot be read.
        """
        opened = delta.open_table(tables, LOAD_PROGRESS)
        since = earliest_now() - _retention(opened)
        snapshots = Snapshots(tables, opened)
        newest = versions = cls._versions(snapshots, snapshots.newest)
        oldest = snapshots.version_at(since)
        # Another program may have deleted the files of older snapshots.
        with suppress(ConfigurationError):
            versions = cls._versions(snapshots, snapshots.oldest if oldest is None else oldest)
        return cls(tables, since, versions, newest)

    @staticmethod
    def _versions(snapshots: Snapshots, version: int) -> dict[str, int]:
        progress, _ = snapshots.read(version)
        return {**pinned_versions(progress), LOAD_PROGRESS.name: version}

    def begin(self, table: Table) -> datetime:
        """The time since when the files of a table are kept: judged rows can be computed again."""
        if table in JUDGED_TABLES:
            return max(self.since, earliest_now() - JUDGED_KEPT)
        return self.since

    def of_table(self, table: Table) -> int:
        """The version of a table; the current one of a table that belongs to no snapshot."""
        if table in BESIDE_TABLES:
            return delta.current_version(self.tables, table)
        return self.versions.get(table.name, 0)

    def needed(self, opened: DeltaTable, table: Table) -> set[str]:
        """The files that these versions or later ones need, and the opened version does not.

        The time of a commit says nothing if its clock was wrong, so all versions after that of the
        newest snapshot count. They are of an unfinished micro-batch, of compactions and fences.
        The next snapshot may name any of them, however long the micro-batch takes.
        """
        path, last = opened.table_uri, opened.version()
        newest = self.newest.get(table.name, last if table in BESIDE_TABLES else 0)
        return removed_after(path, newest, last) | removed_after(
            path, self.of_table(table), last, self.begin(table)
        )


def _maintain_table(
    epoch: WriterEpoch, table: Table, kept: _KeptVersions, kept_since: datetime | None
) -> TableMaintenance:
    """Maintain one table; a failed step does not stop the other steps.

    Days before `kept_since` are deleted; if it is None, none are.
    """
    path = table.path(epoch.tables)
    opened = DeltaTable(path)
    done: dict[str, int] = {}
    errors: list[str] = []

    def step(name: str, action: Callable[[], int | None]) -> None:
        try:
            # The query writes meanwhile.
            opened.update_incremental()
            done[name] = action() or 0
        except (DeltaError, OSError) as error:
            errors.append(f"maintenance of {path} failed: {delta.error_text(error)}")

    if kept_since is not None and _DAY in table.partition_by:
        step("days_deleted", lambda: _delete_days(epoch, opened, kept_since))
    if _is_compacted(table, opened):
        step("files_compacted", lambda: _compact(epoch, opened))
    step("files_deleted", lambda: _delete_files(epoch, opened, table, kept))
    # Cleaned at the oldest version that is kept: the entries that lead to it stay.
    step("log_cleaned", lambda: _clean_log_before(path, kept.of_table(table)))
    done.pop("log_cleaned", None)
    return TableMaintenance(table=table.name, error="; ".join(errors), **done)


def _is_compacted(table: Table, opened: DeltaTable) -> bool:
    """Whether maintenance compacts a table.

    The engine `driver` limits the files of a table of keys itself (`replacing`): compaction would
    put rows that change each second among all others. The engine `spark` leaves more files.
    """
    of_keys = (*KEY_TABLES, *STATE_TABLES.values(), *JUDGED_TABLES)
    is_limited = table in of_keys and not delta.has_change_data_feed(opened)
    return not is_limited or len(opened.file_uris()) > MOST_FILES


def _clean_log_before(path: str, version: int) -> None:
    try:
        opened = DeltaTable(path, version=version)
    except DeltaError:
        # An earlier release deleted the entries that lead to the version.
        return
    clean_log(path, opened)


def clean_log(path: str, opened: DeltaTable) -> None:
    """Sync the checkpoints of a Delta log to the disk, then delete the entries they replace.

    Args:
        path: the path of the table.
        opened: the table at the oldest version that must stay.

    Raises:
        DeltaError: the log cannot be written.
        OSError: the disk failed; no entry is deleted unless all checkpoints are on the disk.
    """
    folder = local_path(path)
    if folder is not None:
        log = folder / "_delta_log"
        for file in (*log.glob("*.checkpoint*"), log):
            sync_file(file)
    opened.cleanup_metadata()


def _delete_days(epoch: WriterEpoch, opened: DeltaTable, kept_since: datetime) -> int:
    first_kept = kept_since.date().isoformat()
    days = {str(values[_DAY]) for values in opened.partitions()}
    expired = {day for day in days if day < first_kept}
    if expired:
        # The day is the partition, so whole files are deleted and no row is read.
        opened.delete(f"{_DAY} < '{first_kept}'", commit_properties=epoch.maintenance(opened))
    return len(expired)


def _compact(epoch: WriterEpoch, opened: DeltaTable, limits: Iterable[_Limit] = _LIMITS) -> int:
    """Compact the small files of each day that has many of them, the smallest ones first.

    delta-rs rewrites all files below a target size. The target therefore is below the size of
    files that reached the limit: each row is rewritten few times, however often this is called.
    """
    compacted = 0
    for limit in limits:
        of_days: dict[str | None, list[_File]] = defaultdict(list)
        for file in _files(opened):
            of_days[file.day].append(file)
        for day, files in of_days.items():
            large = [file.size_bytes for file in files if not limit.holds(file)]
            target_bytes = min([4 * limit.size_bytes, *large])
            small = [file for file in files if file.size_bytes < target_bytes]
            if len(small) > MOST_SMALL_FILES:
                done: Mapping[str, Any] = opened.optimize.compact(
                    partition_filters=None if day is None else [(_DAY, "=", day)],
                    target_size=target_bytes,
                    writer_properties=_WRITER_PROPERTIES,
                    commit_properties=epoch.maintenance(opened),
                )
                compacted += int(done["numFilesRemoved"])
    return compacted


class _File(NamedTuple):
    day: str | None
    size_bytes: int
    rows: int


def _files(opened: DeltaTable) -> Iterator[_File]:
    for file in pa.table(opened.get_add_actions(flatten=True)).to_pylist():
        day = file.get(f"partition.{_DAY}")
        rows = file.get("num_records") or 0
        yield _File(None if day is None else str(day), file["size_bytes"], rows)


def _delete_files(epoch: WriterEpoch, opened: DeltaTable, table: Table, kept: _KeptVersions) -> int:
    """Delete expired files, and files that the log does not name.

    A file that the log does not name may belong to a commit in progress, which only the fence
    limits in time; it is kept for at least an hour. Such files come from killed writers, and from
    checkpoints of the Delta log, which omit expired removed files. delta-rs also lists files that
    are already deleted, and all files with deletion vectors. It goes by the machine's clock, which
    may have jumped, so the hour is counted again.
    """
    path = table.path(epoch.tables)
    kept_for = max(_retention(opened), UNREFERENCED_KEPT)
    unreferenced = set(
        opened.vacuum(
            full=True,
            retention_hours=math.ceil(kept_for / timedelta(hours=1)),
            enforce_retention_duration=False,
        )
    )
    listed = file_system(path).get_file_info(sorted(unreferenced)) if unreferenced else []
    kept_since = earliest_now() - kept_for
    unreferenced = {file.path for file in listed if file.mtime and file.mtime < kept_since}
    if deletion_vectors.may_have_deletion_vectors(opened):
        unreferenced -= deletion_vectors_since(path, opened.version(), earliest_now() - kept_for)
    expired = _expired(opened, kept.begin(table))
    return _delete_unneeded(epoch, opened, table, kept, unreferenced | expired)


def _expired(opened: DeltaTable, since: datetime) -> set[str]:
    """The files that were removed before the snapshot retention.

    It began at `since` before the table was opened: a later checkpoint of the log, which is read
    here, may have removed files of later versions.
    """
    return removed_before(opened.table_uri, opened.version(), since)


def _delete_unneeded(
    epoch: WriterEpoch,
    opened: DeltaTable,
    table: Table,
    kept: _KeptVersions,
    candidates: set[str],
) -> int:
    """Delete the files that no version from the oldest kept one to the current one needs."""
    epoch.last_write(opened)
    if not candidates:
        return 0
    files = candidates - kept.needed(opened, table)
    # A rollback adds removed files again. A new deletion vector removes a file and adds it again in
    # one commit.
    current = opened.file_uris()
    return _delete(opened, {file for file in files if not _is_among(file, current)})


def _is_among(file: str, uris: list[str]) -> bool:
    return any(uri.endswith(f"/{file}") for uri in uris)


def _retention(opened: DeltaTable) -> timedelta:
    retention = snapshot_retention(opened.metadata().configuration)
    return DEFAULT_SNAPSHOT_RETENTION if retention is None else retention


def _delete(opened: DeltaTable, files: set[str]) -> int:
    """Delete the files that still exist; return their number."""
    folder = file_system(opened.table_uri)
    existing_files = (
        [file for file in folder.get_file_info(sorted(files)) if file.is_file] if files else []
    )
    for file in existing_files:
        # Two kinds of upkeep may delete it at the same time.
        with suppress(FileNotFoundError):
            folder.delete_file(file.path)
    return len(existing_files)
