"""The actions of a Delta log that name files, for what delta-rs does not tell.

VACUUM of delta-rs knows whole hours only, and not which files with deletion vectors are in use.
"""

from __future__ import annotations

import json
from base64 import b85decode
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from typing import Any
from urllib.parse import unquote
from uuid import UUID

import pyarrow.parquet as pq
from pyarrow.fs import FileSystem

from streaming.tables.file_systems import file_system

_ENCODED_ID = 20
"""The characters of a UUID in Z85, which is base 85 with another alphabet than `b85decode`."""
_Z85 = str.maketrans(
    "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#",
    "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~",
)


def removed_before(path: str, version: int, moment: datetime) -> set[str]:
    """The files of a table that were removed before a moment and not added again, up to a version.

    The checkpoints of the log keep removed files for the table's
    `delta.deletedFileRetentionDuration`.

    Raises:
        OSError: the log cannot be read.
    """
    removal_times: dict[str, datetime] = {}
    for action in _actions(file_system(path), version, ["remove"]):
        if action.get("add") is not None:
            removal_times.pop(unquote(action["add"]["path"]), None)
        removed = action.get("remove")
        if removed is not None and (at := _deleted_at(removed)) is not None:
            removal_times[unquote(removed["path"])] = at
    return {file for file, at in removal_times.items() if at < moment}


def removed_after(path: str, first: int, last: int, until: datetime | None = None) -> set[str]:
    """The files, with their deletion vectors, that versions after `first` up to `last` removed.

    With `until`, versions from the first one that was committed at that time are not read.

    Raises:
        OSError: the log cannot be read, or without `until` lacks an entry.
    """
    files: set[str] = set()
    log = file_system(path)
    for version in range(first + 1, last + 1):
        actions = list(_entries(log, version, version))
        # An earlier release deleted entries before the newest snapshot, but none after it.
        if until is None and not actions:
            raise OSError(f"entry {version} of the Delta log is missing")
        times = [info.get("timestamp") for a in actions if (info := a.get("commitInfo"))]
        if until is not None and times and (times[0] or 0) >= until.timestamp() * 1000:
            break
        for action in actions:
            if (removed := action.get("remove")) is not None:
                files.add(unquote(removed["path"]))
                vector = _deletion_vector(removed.get("deletionVector") or {})
                files |= set() if vector is None else {vector}
    return files


def deletion_vectors_since(path: str, version: int, moment: datetime) -> set[str]:
    """The files with deletion vectors that a table has needed since a moment, up to a version.

    Raises:
        OSError: the log cannot be read.
    """
    # A file may have the deletion vectors of several data files.
    removal_times: dict[tuple[str, str, int], datetime | None] = {}
    for action in _actions(file_system(path), version, ["add", "remove"]):
        file = action.get("add") or action.get("remove") or {}
        descriptor = file.get("deletionVector") or {}
        vector = _deletion_vector(descriptor)
        if vector is not None:
            removal_times[vector, file["path"], descriptor["offset"]] = _deleted_at(file)
    return {vector for (vector, _, _), at in removal_times.items() if at is None or at >= moment}


def _deleted_at(file: Mapping[str, Any]) -> datetime | None:
    at_ms = file.get("deletionTimestamp")
    return None if at_ms is None else datetime.fromtimestamp(at_ms / 1000, timezone.utc)


def _deletion_vector(descriptor: Mapping[str, Any]) -> str | None:
    """The file of a deletion vector, relative to its table; None if the log itself has it.

    Source: PROTOCOL.md of Delta Lake, "Deletion Vector Descriptor Schema".
    """
    if descriptor.get("storageType") != "u":
        return None
    text = descriptor["pathOrInlineDv"]
    prefix, encoded = text[:-_ENCODED_ID], text[-_ENCODED_ID:]
    unique = UUID(bytes=b85decode(encoded.translate(_Z85)))
    return f"{prefix}/deletion_vector_{unique}.bin".lstrip("/")


def _actions(log: FileSystem, version: int, columns: list[str]) -> Iterator[dict[str, Any]]:
    """Columns of the newest checkpoint, then all actions of each later entry."""
    last = -1
    hint = _read(log, "_last_checkpoint")
    if hint is not None:
        last = int(_parsed(hint, "_last_checkpoint")["version"])
        with log.open_input_file(f"_delta_log/{last:020}.checkpoint.parquet") as file:
            yield from pq.read_table(file, columns=columns).to_pylist()
    yield from _entries(log, last + 1, version)


def _entries(log: FileSystem, first: int, last: int) -> Iterator[dict[str, Any]]:
    """All actions of the entries from one version to another; the first may be deleted."""
    for number in range(first, last + 1):
        name = f"{number:020}.json"
        for line in (_read(log, name) or b"").splitlines():
            yield _parsed(line, name)


def _parsed(line: bytes, name: str) -> dict[str, Any]:
    try:
        document: dict[str, Any] = json.loads(line)
    except ValueError as error:
        raise OSError(f"{name} of the Delta log is damaged") from error
    return document


def _read(log: FileSystem, name: str) -> bytes | None:
    try:
        with log.open_input_file(f"_delta_log/{name}") as file:
            content: bytes = file.read()
    except FileNotFoundError:
        return None
    return content
