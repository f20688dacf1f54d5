"""The files that a Delta log lists as removed, and when; VACUUM knows whole hours only."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any
from urllib.parse import unquote

import pyarrow.parquet as pq
from pyarrow.fs import FileSystem

from streaming.tables.file_systems import file_system


def removed_before(path: str, version: int, moment: datetime) -> set[str]:
    """The files of a table that were removed before a moment and not added again, up to a version.

    The checkpoints of the log keep removed files for the table's
    `delta.deletedFileRetentionDuration`.

    Raises:
        OSError: the log cannot be read.
    """
    found: dict[str, datetime] = {}
    for action in _actions(file_system(path), version):
        if action.get("add") is not None:
            found.pop(unquote(action["add"]["path"]), None)
        removed = action.get("remove")
        if removed is not None and removed.get("deletionTimestamp") is not None:
            at = datetime.fromtimestamp(removed["deletionTimestamp"] / 1000, timezone.utc)
            found[unquote(removed["path"])] = at
    return {file for file, at in found.items() if at < moment}


def _actions(log: FileSystem, version: int) -> Iterator[dict[str, Any]]:
    """The actions of the newest checkpoint, then those of each later entry."""
    last = -1
    hint = _read(log, "_last_checkpoint")
    if hint is not None:
        last = int(_parsed(hint, "_last_checkpoint")["version"])
        with log.open_input_file(f"_delta_log/{last:020}.checkpoint.parquet") as file:
            yield from pq.read_table(file, columns=["remove"]).to_pylist()
    for number in range(last + 1, version + 1):
        entry = _read(log, f"{number:020}.json")
        # Without a checkpoint, the first entries of a cleaned log are gone.
        for line in (entry or b"").splitlines():
            yield _parsed(line, f"{number:020}.json")


def _parsed(line: bytes, name: str) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(line)
    except ValueError as error:
        raise OSError(f"{name} of the Delta log is damaged") from error
    return found


def _read(log: FileSystem, name: str) -> bytes | None:
    try:
        with log.open_input_file(f"_delta_log/{name}") as file:
            content: bytes = file.read()
    except FileNotFoundError:
        return None
    return content
