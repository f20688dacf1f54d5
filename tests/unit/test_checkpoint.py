"""Checkpoints, read before a query starts on them from folders laid out as Spark does it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from coordinator_state.offsets import Semantics
from streaming.errors import ConfigurationError
from streaming.tables.checkpoint import read_checkpoint, require_fit
from streaming.tables.load_progress import LoadProgress, Progress


def _write(folder: Path, *, next_offset: int, committed: bool = True) -> str:
    for name in ("offsets", "commits"):
        (folder / name).mkdir(parents=True)
    (folder / "metadata").write_text(json.dumps({"id": "query"}))
    position = {"v": 1, "cluster_id": "c", "topic_id": "t", "p": {"7": [next_offset, 0]}}
    (folder / "offsets" / "3").write_text(f"v1\n{{}}\n{json.dumps(position)}")
    (folder / "offsets" / ".3.crc").write_bytes(b"")
    if committed:
        (folder / "commits" / "3").write_text("v1\n{}")
    return str(folder)


def _progress(next_offset: int, cluster_id: str = "c") -> LoadProgress:
    progress = LoadProgress.nothing(
        cluster_id=cluster_id, topic_id="t", semantics=Semantics.COORDINATOR
    )
    progress.rows[7] = Progress(next_offset=next_offset)
    return progress


def test_no_folder_is_no_checkpoint(tmp_path: Path) -> None:
    assert read_checkpoint(str(tmp_path / "none")) is None


def test_the_last_finished_micro_batch_counts(tmp_path: Path) -> None:
    found = read_checkpoint(_write(tmp_path / "a", next_offset=9))
    assert found is not None
    assert (found.query_id, found.next_offsets) == ("query", {7: 9})
    planned = read_checkpoint(_write(tmp_path / "b", next_offset=9, committed=False))
    assert planned is not None
    assert planned.next_offsets == {}


@pytest.mark.parametrize("applied", [9, 10])
def test_a_checkpoint_at_or_behind_the_tables_fits(tmp_path: Path, applied: int) -> None:
    checkpoint = read_checkpoint(_write(tmp_path, next_offset=9))
    assert checkpoint is not None
    require_fit(checkpoint, _progress(applied), "tables")


def test_a_checkpoint_ahead_of_the_tables_is_refused(tmp_path: Path) -> None:
    checkpoint = read_checkpoint(_write(tmp_path, next_offset=9))
    assert checkpoint is not None
    with pytest.raises(
        ConfigurationError, match=r"log partition 7 is at record offset 9 .* and at 8 in the"
    ):
        require_fit(checkpoint, _progress(8), "tables")


def test_a_checkpoint_of_another_cluster_is_refused(tmp_path: Path) -> None:
    checkpoint = read_checkpoint(_write(tmp_path, next_offset=9))
    assert checkpoint is not None
    with pytest.raises(ConfigurationError, match=r"of cluster c, .* but tables of cluster other"):
        require_fit(checkpoint, _progress(9, cluster_id="other"), "tables")


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    folder = _write(tmp_path, next_offset=9)
    (tmp_path / "offsets" / "3").write_text("v1\n{}\nnot JSON")
    with pytest.raises(ConfigurationError, match="is not a checkpoint of this program"):
        read_checkpoint(folder)


def test_offsets_of_another_format_version_say_how_to_go_on(tmp_path: Path) -> None:
    folder = _write(tmp_path, next_offset=9)
    (tmp_path / "offsets" / "3").write_text('v1\n{}\n{"v": 2, "positions": {"7": 9}}')
    with pytest.raises(ConfigurationError, match=r"version 2, .* those of 1: name a new folder"):
        read_checkpoint(folder)
