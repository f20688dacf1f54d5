"""The quarantine of an older release, decoded again: as if this release had read the log."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from functools import cache
from pathlib import Path
from shutil import copytree
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from coordinator_state.log.log_decoder import OffsetRange, decode_record_set
from coordinator_state.log.log_rows import LOG_ROW_SCHEMA
from coordinator_state.replay.consumer_groups import ConsumerGroup
from coordinator_state.replay.share_groups import ShareGroup
from streaming.engine.redecode import Redecoded, redecode_quarantine
from streaming.tables.load_progress import LoadProgress
from streaming.tables.opening import open_for_writing
from streaming.tables.reader import TableReader
from streaming.tables.schemas import GROUPS, LOAD_PROGRESS, QUARANTINE, Table
from streaming.tables.writer import Writer
from tests.support.logs.log_rows import progress_row
from tests.support.logs.logs import Event, group_value, offset_key, offset_value, segment
from tests.support.logs.modern_records import KeyAndValue, ModernRecords
from tests.support.tables.every_table import create
from tests.support.tables.tables_folder import SPARK_ENGINE, Crash, start_apply

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COMPARED = (
    *("group_offsets", "pending_offsets", "coordinator_records"),
    *("groups", "group_members", "quarantine"),
)
DRAW = ModernRecords(random.Random(4), [])


def _whole(kind: Any, group_id: str) -> list[KeyAndValue]:
    return [DRAW.record(number, group_id, "m", DRAW.value(number)) for number in kind.parts]


def _tombstones(kind: Any, group_id: str) -> list[KeyAndValue]:
    return [DRAW.record(number, group_id, "m", None) for number in reversed(list(kind.parts))]


def _commit(group_id: str, committed_offset: int) -> KeyAndValue:
    return offset_key(group_id, "t", 0), offset_value(committed_offset)


CLASSIC = (b"\0\2\0\7classic", group_value(["m"]))
UNKNOWN = (b"\0\x63\0\1g", b"\0\0")
# An older release knows offset commits of a few versions and classic groups. One of two commits
# that it could not decode has a later one.
QUARANTINED_COMMITS = [_commit("superseded", 1), _commit("waiting", 1)]
FIRST = [
    _commit("gives way", 5),
    *QUARANTINED_COMMITS,
    CLASSIC,
    *_whole(ConsumerGroup, "joined"),
    *_whole(ConsumerGroup, "gives way"),
    *_whole(ShareGroup, "gone"),
    *_whole(ConsumerGroup, "known later"),
    UNKNOWN,
]
SECOND = [
    _commit("superseded", 2),
    _commit("joined", 3),
    *_tombstones(ShareGroup, "gone"),
    *_whole(ConsumerGroup, "known later")[:3],
]
THIRD = [
    *_tombstones(ConsumerGroup, "joined")[:1],
    DRAW.record(8, "gives way", "m", DRAW.value(8)),
    DRAW.record(3, "gives way", "", DRAW.value(3)),
    _commit("gone", 1),
]
STAYS = {2, len(FIRST) - 1}
OLD_RELEASE = {
    offset
    for offset, record in enumerate([*FIRST, *SECOND])
    if record in QUARANTINED_COMMITS or (record[0][1] > 2 and record not in SECOND[-3:])
}
OLD_RELEASE_LATER = {len([*FIRST, *SECOND]) + index for index in range(3)}


class Tables:
    """Tables of one release, whose micro-batches are applied one by one.

    With a session by the engine `spark`.
    """

    def __init__(
        self, folder: Path, log: Sequence[KeyAndValue] = (), spark: SparkSession | None = None
    ) -> None:
        self.folder = str(folder)
        self._spark = spark
        self.log = [*log]

    def apply(self, records: list[KeyAndValue], undecodable: Collection[int] = ()) -> None:
        """One micro-batch of a new process."""
        start = len(self.log)
        self.log += records
        raw, end = segment([Event(key=key, value=value) for key, value in self.log])
        decoded = decode_record_set(
            raw, OffsetRange(log_partition=0, from_offset=start, to_offset=end)
        )
        rows = [self._row(row, undecodable) for row in decoded.rows.to_pylist()]
        progress = progress_row(start, end, log_partition=0, records_read=len(rows))
        batch = pa.Table.from_pylist([*rows, progress], schema=LOG_ROW_SCHEMA)
        start_apply(self.folder, spark=self._spark).apply(batch, start, "query")

    def _row(self, row: dict[str, Any], undecodable: Collection[int]) -> dict[str, Any]:
        offset = row["record_offset"]
        if offset not in undecodable or row["row_kind"] == "undecodable":
            return row
        kept = ("log_partition", "record_offset", "record_timestamp_ms", "record_type")
        key, value = self.log[offset]
        why = {"row_kind": "undecodable", "reason": "?", "raw_key": key, "raw_value": value}
        return {**{name: row[name] for name in kept}, **why, "producer_id": -1}

    def progress(self) -> LoadProgress:
        return LoadProgress.read(TableReader(self.folder))

    def redecode(self) -> Redecoded:
        writer = open_for_writing(self.folder, "redecode")
        return redecode_quarantine(writer, self.progress())

    def rows(self) -> dict[str, list[str]]:
        """The rows of the tables.

        Without where a group or member began: an earlier record of the same key counts no more.
        """
        reader = TableReader(self.folder)
        rows_by_table = {name: reader.read(name).to_pylist() for name in COMPARED}
        for row in (*rows_by_table["groups"], *rows_by_table["group_members"]):
            del row["created_record_offset"]
        return {name: sorted(map(repr, rows)) for name, rows in rows_by_table.items()}

    def counts(self) -> tuple[int, int, int]:
        """Records applied or superseded, quarantined, and read."""
        row = self.progress().rows[0]
        assert row.records_accounted == row.records_read
        decoded = row.records_applied + row.records_superseded
        return decoded, row.records_quarantined, row.records_read


@pytest.mark.parametrize(
    ("engine_session", "table"),
    [
        *(("driver", table) for table in (GROUPS, LOAD_PROGRESS)),
        pytest.param("spark", GROUPS, marks=SPARK_ENGINE.marks),
    ],
    indirect=["engine_session"],
    ids=lambda value: value if isinstance(value, str) else value.name,
)
def test_redecode_is_repeated_after_a_crash(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    engine_session: SparkSession | None,
    table: Table,
) -> None:
    new, old = _of_two_releases(tmp_path, engine_session)
    _, undisturbed = _of_two_releases(tmp_path / "undisturbed")
    _crash_before(table, old, monkeypatch)
    redecoded = old.redecode()
    assert redecoded == undisturbed.redecode()
    assert min(redecoded.applied, redecoded.superseded) > 0
    assert redecoded.waiting == {0: 1}
    assert sum(redecoded.undecodable.values()) == 1
    _assert_same(old, new)

    # A new process goes on from there, and records that change a known group are redecoded too.
    new.apply(THIRD)
    old.apply(THIRD, OLD_RELEASE_LATER)
    redecoded = old.redecode()
    assert (redecoded.applied, redecoded.superseded, redecoded.groups) == (3, 0, 2)
    _assert_same(old, new)
    assert old.redecode().applied == 0


@pytest.mark.parametrize(
    ("engine_session", "table"),
    [
        *(("driver", table) for table in (QUARANTINE, LOAD_PROGRESS)),
        pytest.param("spark", QUARANTINE, marks=(*SPARK_ENGINE.marks, pytest.mark.release)),
    ],
    indirect=["engine_session"],
    ids=lambda value: value if isinstance(value, str) else value.name,
)
def test_a_run_rolls_an_interrupted_redecode_back(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    engine_session: SparkSession | None,
    table: Table,
) -> None:
    new, old = _of_two_releases(tmp_path, engine_session)
    before = old.rows()
    _crash_before(table, old, monkeypatch)
    assert old.rows() == before
    new.apply(THIRD)
    old.apply(THIRD)
    old.redecode()
    _assert_same(old, new)


def _crash_before(table: Table, tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `redecode` crash just before it commits to a table."""
    commit = Writer._commit

    def crash(self: Writer, written: Table, *arguments: Any, **more: Any) -> int:
        if written is table:
            raise Crash
        return commit(self, written, *arguments, **more)

    with monkeypatch.context() as patch:
        patch.setattr(Writer, "_commit", crash)
        with pytest.raises(Crash):
            tables.redecode()


def _of_two_releases(folder: Path, spark: SparkSession | None = None) -> tuple[Tables, Tables]:
    """What a release makes of the log that knows all, and an older one.

    The older one goes on with the session.
    """
    copytree(_built().name, folder, dirs_exist_ok=True)
    log = [*FIRST, *SECOND]
    return Tables(folder / "new", log), Tables(folder / "old", log, spark)


@cache
def _built() -> TemporaryDirectory[str]:
    folder = TemporaryDirectory(prefix="releases-")
    for name, undecodable in (("new", STAYS), ("old", OLD_RELEASE | STAYS)):
        tables = Tables(Path(folder.name, name))
        create(tables.folder)
        tables.apply([*FIRST, *SECOND], undecodable)
    return folder


def _assert_same(old: Tables, new: Tables) -> None:
    expected = new.rows()
    for name, rows in old.rows().items():
        assert rows == expected[name], name
    assert old.counts() == new.counts()
