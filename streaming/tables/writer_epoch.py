"""The writer epoch of a tables folder: only its newest writer can commit.

A process that opens a folder for writing takes the next epoch. It commits the epoch to
`load_progress` first and then to every other table; such a commit is a fence. Every later commit
checks the epoch.

* A commit that is prepared after the fence finds the newer epoch in the table.
* A commit that was prepared before the fence conflicts with it, because both carry the same Delta
  transaction id (`SetTransaction.appId`).

An older writer therefore cannot commit to a table once a newer one has fenced it, on any store that
Delta can write to. The newer writer reads the tables after it has fenced all of them.

Source: `checkForUpdatedApplicationTransactionIdsThatCurrentTxnDependsOn` in
spark/src/main/scala/org/apache/spark/sql/delta/ConflictChecker.scala of Delta 4.4.0, and the
method of the same name in delta-rs.
"""

from __future__ import annotations

import os
import socket
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Final, NoReturn

import tenacity
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError

from streaming.errors import TablesReplaced, WriterFenced
from streaming.tables import delta
from streaming.tables.as_of import TIME
from streaming.tables.schemas import LOAD_PROGRESS, Table

WRITER: Final = "coordinator-state/writer"
"""Transaction id of fences and of commits that change rows.

Its version is `epoch << NUMBER_BITS` plus the number of the write in the epoch; a fence is
write 0."""
MAINTENANCE: Final = "coordinator-state/maintenance"
"""Transaction id of fences and of commits that change no rows: compaction, properties, old days.

Its version is the epoch. With the id `WRITER` they would conflict with every write of a micro-batch
at the same time."""
ROWS: Final = "coordinator-state/rows"
"""Transaction id of fences; its version is the last write before the fence that changed rows."""
NUMBER_BITS: Final = 32

HOLDER: Final = "coordinator_state.writer"
"""The field in the commit info of a fence that names its writer."""
_COMMITS_SEARCHED: Final = 100
_ATTEMPTS: Final = 10
_MOST_PAUSE_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class WriterEpoch:
    """The epoch under which a process writes to a folder.

    `is_fenced` is set when a newer epoch is found, or another folder in the place of this one; the
    process must then stop.
    """

    tables: str
    number: int
    is_fenced: threading.Event = field(default_factory=threading.Event, compare=False)
    _committed: dict[str, int] = field(default_factory=dict, compare=False, repr=False)
    """The last write or fence by table that this process knows to be committed."""
    _begun: dict[str, int] = field(default_factory=dict, compare=False, repr=False)
    """The last write by table that this process began."""
    _refusals: list[WriterFenced] = field(default_factory=list, compare=False, repr=False)

    @classmethod
    def take(
        cls, tables: str, holder: str, first: Table = LOAD_PROGRESS, at_least: int = 0
    ) -> WriterEpoch:
        """Take the next epoch of a folder and fence the first table with it.

        Args:
            tables: the tables folder.
            holder: the command that takes the epoch; the fenced writer names it in its message.
            first: the table whose fence decides between two writers that take an epoch at the same
                time.
            at_least: a known earlier epoch; the new epoch is greater.

        Raises:
            TablesUnavailable: the table cannot be written.
        """
        taken = 0

        def take_next(opened: DeltaTable) -> None:
            nonlocal taken
            taken = max(epoch_of(opened), at_least) + 1
            _write_fence(opened, first, taken, holder)

        committed(tables, first, take_next)
        epoch = cls(tables, taken)
        epoch.note_commit(first, taken << NUMBER_BITS)
        return epoch

    @classmethod
    def current(cls, tables: str) -> WriterEpoch:
        """The current epoch of a folder, for work beside its writer that changes no rows.

        Raises:
            TablesUnavailable: `load_progress` cannot be read.
        """
        return cls(tables, epoch_of(delta.open_table(tables, LOAD_PROGRESS)))

    def fence(
        self, others: Sequence[Table], holder: str, opened: Mapping[Table, DeltaTable] | None = None
    ) -> dict[Table, DeltaTable]:
        """Fence the other tables; return them, opened at the versions that the fences follow.

        No writer has changed rows between such a version and its fence: the fence would have
        conflicted.

        Args:
            others: the tables.
            holder: the command that fences them.
            opened: tables that are open already, at any version.

        Raises:
            WriterFenced: a newer writer has fenced one of them.
            TablesUnavailable: a table is missing or cannot be written.
        """
        fenced = {}
        for table in others:

            def write(opened: DeltaTable, table: Table = table) -> None:
                if self.last_write(opened) < self.number << NUMBER_BITS:
                    _write_fence(opened, table, self.number, holder)

            known = None if opened is None else opened.get(table)
            fenced[table] = committed(self.tables, table, write, known)
            self.note_commit(table, self.number << NUMBER_BITS)
        return fenced

    def last_write(self, opened: DeltaTable) -> int:
        """The `WRITER` version of an opened table; 0 if it has none.

        Raises:
            WriterFenced: a newer writer has fenced the table.
        """
        last = _writer_version(opened)
        if last >> NUMBER_BITS > self.number:
            self._end(WriterFenced(self.tables, _holder_of(opened)))
        return last

    def require_current(self, table: Table = LOAD_PROGRESS) -> None:
        """Check that no newer writer has fenced a table, and that no folder replaced its own.

        Raises:
            WriterFenced: a newer writer has fenced the table.
            TablesReplaced: the table is not the one that this process wrote.
            TablesUnavailable: the table cannot be read.
        """
        if self._refusals:
            raise self._refusals[0]
        # A write may be committed after the table was opened.
        known = self._committed.get(table.name)
        last = self.last_write(delta.open_table(self.tables, table))
        self._require_own(table, last, known, self._begun.get(table.name))

    def is_due(self, opened: DeltaTable, table: Table, number: int) -> bool:
        """Whether a write is not committed yet; if it is due, the caller commits it.

        Raises:
            WriterFenced: a newer writer has fenced the table.
            TablesReplaced: the table is not the one that this process wrote.
        """
        begun = self._begun.get(table.name)
        last = self.last_write(opened)
        self._require_own(table, last, self._committed.get(table.name), begun)
        self._begun[table.name] = max(number, begun or 0)
        return last < number

    def note_commit(self, table: Table, number: int) -> None:
        """Note that a write or a fence is committed."""
        self._committed[table.name] = max(number, self._committed.get(table.name, 0))

    def _require_own(
        self, table: Table, last: int, committed: int | None, begun: int | None
    ) -> None:
        """Check the last write of a table against the writes of this process.

        An older copy of the folder lacks the last one that is `committed`. In a newer copy, another
        process with the same epoch has committed writes that this one has not `begun`.
        """
        if committed is not None and not committed <= last <= (begun or committed):
            self._end(TablesReplaced(table.path(self.tables)))

    def _end(self, refusal: WriterFenced) -> NoReturn:
        self._refusals.append(refusal)
        self.is_fenced.set()
        raise refusal

    def maintenance(self, opened: DeltaTable) -> CommitProperties:
        """The properties of a commit that changes no rows of a snapshot.

        Raises:
            WriterFenced: a newer writer has fenced the table.
        """
        self.last_write(opened)
        return CommitProperties(app_transactions=[Transaction(MAINTENANCE, self.number)])


def committed(
    tables: str,
    table: Table,
    action: Callable[[DeltaTable], object],
    opened: DeltaTable | None = None,
) -> DeltaTable:
    """Commit an action to a table; return the table as the action left it.

    `opened` is the table if it is open already; otherwise it is opened. A commit that conflicts
    with another commit is retried on the newest version of the table. Conflicts are normal:
    maintenance compacts files and deletes old days while the query writes.

    Raises:
        TablesUnavailable: the table cannot be written.
    """
    path = table.path(tables)
    with delta.writing(path):
        for attempt in tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(CommitFailedError),
            stop=tenacity.stop_after_attempt(_ATTEMPTS),
            wait=tenacity.wait_random(max=_MOST_PAUSE_S),
            reraise=True,
        ):
            with attempt:
                is_known = opened is not None and attempt.retry_state.attempt_number == 1
                current = opened if opened is not None and is_known else DeltaTable(path)
                action(current)
    return current


def epoch_of(opened: DeltaTable) -> int:
    """The newest epoch that has fenced a table; 0 if none has."""
    return _writer_version(opened) >> NUMBER_BITS


def last_row_write(opened: DeltaTable) -> int:
    """The last write that changed rows, up to the opened version of a table.

    Two versions of a table with the same value have the same rows. The value is the `WRITER`
    version of that write, or the table version if no writer with an epoch has written yet.
    """
    last: int | None = opened.transaction_version(WRITER)
    if last is None:
        return opened.version()
    is_fence = last % (1 << NUMBER_BITS) == 0
    return (opened.transaction_version(ROWS) or 0) if is_fence else last


def with_same_rows(tables: str, table: Table, version: int, newest: int) -> Iterator[int]:
    """The versions of a table after `version` that have the same rows, newest first.

    They are of fences, and of compactions by maintenance or by another program.

    Raises:
        TablesUnavailable: a version cannot be read.
    """

    def is_later_write(later: int) -> bool:
        return last_row_write(delta.open_table(tables, table, later)) != last_write

    last_write = last_row_write(delta.open_table(tables, table, version))
    # Numbers of writes only grow.
    count = bisect_left(range(version + 1, newest + 1), True, key=is_later_write)
    yield from range(version + count, version, -1)


def _writer_version(opened: DeltaTable) -> int:
    return opened.transaction_version(WRITER) or 0


def _write_fence(opened: DeltaTable, table: Table, epoch: int, holder: str) -> None:
    """Commit an epoch without files."""
    transactions = [
        Transaction(WRITER, epoch << NUMBER_BITS),
        Transaction(MAINTENANCE, epoch),
        Transaction(ROWS, last_row_write(opened)),
    ]
    who = f"{holder} on {socket.gethostname()}, process {os.getpid()}"
    opened.create_write_transaction(
        [],
        mode="append",
        schema=table.schema,
        partition_by=list(table.partition_by),
        commit_properties=CommitProperties(
            app_transactions=transactions, custom_metadata={HOLDER: who}
        ),
    )


def _holder_of(opened: DeltaTable) -> str:
    """The writer that fenced a table last, and when."""
    try:
        for commit in opened.history(_COMMITS_SEARCHED):
            if HOLDER in commit:
                at = datetime.fromtimestamp(commit["timestamp"] / 1000, timezone.utc)
                return f"{commit[HOLDER]}, at {at:{TIME}}"
    except (DeltaError, OSError):
        # The store failed after the epoch was read; only the name of the writer is missing.
        pass
    return "unknown"
