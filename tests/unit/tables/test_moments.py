"""Moments of snapshots: they are the same wherever the folder is, whatever its files' times are."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from deltalake import DeltaTable

from streaming.errors import ConfigurationError, TablesUnavailable
from streaming.tables import load_progress, reader
from streaming.tables.clock import utc_now
from streaming.tables.moments import MOMENT, Snapshots
from streaming.tables.reader import TableReader
from streaming.tables.schemas import LOAD_PROGRESS
from tests.support.clients.command_line import call
from tests.support.logs.log_rows import LOG_PARTITION
from tests.support.tables.every_table import apply_next, copy_of_load
from tests.support.tables.tables_folder import log_entries, rewrite_entry, start_apply

MICRO_BATCHES = 6
ONE = timedelta(microseconds=1)


@pytest.fixture
def tables(tmp_path: Path) -> str:
    return copy_of_load(tmp_path, MICRO_BATCHES)


def _answers(tables: str, moments: list[datetime]) -> list[int | None]:
    """The next offset of the snapshot at each moment; None if there is none."""
    answers = []
    for moment in moments:
        reader = TableReader(tables).before(moment)
        answers.append(None if reader is None else reader.load_states[LOG_PARTITION].next_offset)
    return answers


def _moments(tables: str) -> list[datetime]:
    """The moment of each micro-batch, just before it, and long before the first."""
    written = [at for _, at in TableReader(tables).commits(MICRO_BATCHES)]
    return [*written, *(at - ONE for at in written), written[-1] - timedelta(days=1)]


def _shuffle_times(folder: Path) -> None:
    """Let the files be as old as a program that restores a backup may leave them."""
    files = [file for file in folder.rglob("*") if file.is_file()]
    for number, file in enumerate(random.Random(3).sample(files, len(files))):
        os.utime(file, (1_000_000 + 60 * number, 1_000_000 + 60 * number))


@pytest.mark.parametrize("make_old", [lambda _folder: None, _shuffle_times])
def test_a_copy_and_a_restored_backup_answer_as_the_original(
    tmp_path: Path, tables: str, make_old: Callable[[Path], None]
) -> None:
    moments = _moments(tables)
    shutil.copytree(tables, tmp_path / "copy", copy_function=shutil.copyfile)
    make_old(tmp_path / "copy")

    expected = _answers(tables, moments)
    assert expected[:MICRO_BATCHES] == [36, 30, 24, 18, 12, 6]
    assert expected[MICRO_BATCHES:] == [30, 24, 18, 12, 6, None, None]
    assert _answers(str(tmp_path / "copy"), moments) == expected
    copied, original = TableReader(tmp_path / "copy"), TableReader(tables)
    assert copied.commits(9) == original.commits(9)
    assert copied.begins_at == original.begins_at


def test_moments_grow_when_the_clock_is_set_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = copy_of_load(tmp_path, 0)
    apply = start_apply(tables)

    back = timedelta(0)
    monkeypatch.setattr(load_progress, "utc_now", lambda: utc_now() - back)
    for hours in (0, 0, 1, 1):
        back = timedelta(hours=hours)
        apply_next(apply)
    apply = start_apply(tables)
    apply_next(apply)
    back = timedelta(0)
    apply_next(apply)

    written = [at for _, at in TableReader(tables).commits(99)]
    assert written == sorted(written, reverse=True)
    moments = _moments(tables)
    # The third is the fence of the second process, which changes no rows.
    assert _answers(tables, moments[:MICRO_BATCHES]) == [36, 30, 24, 24, 18, 12]
    rows = TableReader(tables, as_of=written[2]).read(LOAD_PROGRESS.name)
    assert rows["updated_at"][0].as_py() == written[2]


def test_a_time_at_which_the_clock_was_ahead_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = copy_of_load(tmp_path, 1)
    apply = start_apply(tables)
    before = TableReader(tables)
    with monkeypatch.context() as patched:
        patched.setattr(load_progress, "utc_now", lambda: utc_now() + timedelta(hours=6))
        apply_next(apply)
    apply_next(apply)

    assert TableReader(tables, as_of=before.written_at).version == before.version
    assert TableReader(tables).before(utc_now()) is None
    refused = call("show", "offsets", "--tables", tables, "--as-of", "0s", exit_code=2)
    assert (
        "the clock of `run` was ahead, or this one is behind, "
        f"so version {before.version + 1} has the time" in refused.output
    )
    assert f"name a version from {before.version} to {before.version + 2}" in refused.output


def test_a_wrong_moment_of_the_tables_confirms_no_jump(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Moments stay ahead after a wrong start; the time of the commit is right again."""
    tables = copy_of_load(tmp_path, 0)
    monkeypatch.setattr(load_progress, "utc_now", lambda: utc_now() + timedelta(hours=6))
    apply_next(start_apply(tables))
    confirmed: list[datetime] = []
    monkeypatch.setattr(reader, "confirm", confirmed.append)
    assert TableReader(tables).moment <= utc_now()
    assert max(confirmed) <= utc_now()


def test_commits_of_an_earlier_release_have_the_time_of_their_writer(tables: str) -> None:
    moments = _moments(tables)
    for entry in _entries(tables):
        rewrite_entry(entry, lambda action: action.get("commitInfo", {}).pop(MOMENT, None))
    _shuffle_times(Path(tables))

    written = [at for _, at in TableReader(tables).commits(MICRO_BATCHES)]
    assert [at.microsecond % 1000 for at in written] == [0] * MICRO_BATCHES
    late = [at - moment for at, moment in zip(written, moments[:MICRO_BATCHES], strict=True)]
    assert max(map(abs, late)) < timedelta(minutes=10)
    assert _answers(tables, written) == [36, 30, 24, 18, 12, 6]
    assert _answers(tables, [written[-1] - ONE]) == [None]


def test_entries_that_are_deleted_are_before_the_oldest(tables: str) -> None:
    moments = _moments(tables)
    newest = TableReader(tables).version
    DeltaTable(LOAD_PROGRESS.path(tables), version=newest - 2).create_checkpoint()
    for entry in _entries(tables)[: newest - 3]:
        entry.unlink()

    snapshots = _snapshots(tables)
    assert snapshots.oldest == newest - 3
    assert snapshots.of(newest - 4) is None
    expected = [newest, newest - 1, newest - 2, newest - 3, None, None]
    assert [snapshots.version_at(moment) for moment in moments[:MICRO_BATCHES]] == expected
    with pytest.raises(ConfigurationError, match=r"no snapshot as of 1: the tables reach from"):
        TableReader(tables, as_of=1)


def test_a_moment_or_version_out_of_range_is_an_error_that_names_the_range(tables: str) -> None:
    reader = TableReader(tables)
    now = datetime.now(timezone.utc)

    for as_of in ("9999", "2 days ago", (now + timedelta(hours=1)).isoformat()):
        refused = call("show", "status", "--tables", tables, "--as-of", as_of, exit_code=2)
        assert refused.stdout == ""
        (line,) = refused.stderr.splitlines()
        assert f"to {reader.version} (of {reader.written_at:%Y-%m-%d}" in line
        assert f"the tables reach from {reader.begins_at:%Y-%m-%d}" in line
    assert TableReader(tables, as_of=now).version == reader.version


def test_few_log_entries_are_read(tmp_path: Path) -> None:
    tables = copy_of_load(tmp_path, 1)
    apply = start_apply(tables)
    for _ in range(40):
        apply.progress.write(apply.writer)
    snapshots = _snapshots(tables)

    (*_, first) = snapshots.newest_first(snapshots.newest)
    again = _snapshots(tables)
    assert again.version_at(first[1] + ONE) is not None
    assert len(again._entries) <= 9


def test_an_entry_without_a_commit_info_has_the_moment_of_the_version_before_it(
    tables: str,
) -> None:
    newest = TableReader(tables).version
    before = _snapshots(tables).of(newest - 1)
    entry = _entries(tables)[newest]
    lines = [line for line in entry.read_text().splitlines() if "commitInfo" not in line]
    entry.write_text("\n".join(lines))

    assert _snapshots(tables).of(newest) == before


def test_a_damaged_entry_is_an_error_that_names_it(tables: str) -> None:
    snapshots = _snapshots(tables)
    newest = snapshots.newest
    _entries(tables)[newest].write_text('{"commitInfo": {"timest')

    with pytest.raises(TablesUnavailable, match=f"entry {newest} of its Delta log is damaged"):
        snapshots.of(newest)


def _snapshots(tables: str) -> Snapshots:
    return Snapshots(tables, DeltaTable(LOAD_PROGRESS.path(tables)))


def _entries(tables: str) -> list[Path]:
    return log_entries(tables, LOAD_PROGRESS)
