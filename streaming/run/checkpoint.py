"""What a Spark checkpoint says of itself, read before the query starts on it.

It may always be discarded: the tables know where they are, and a query goes on from there.

A checkpoint folder holds `metadata` with the query's id, and one file per planned micro-batch in
`offsets`: a version line, a line of Spark's own JSON, then one line per source, ours being the
offset JSON of `coordinator_log`; `commits` has a file per finished one. Spark does not sync them: a
power loss may leave them missing, empty, cut or full of zeros.

Source: sql/core/src/main/scala/org/apache/spark/sql/execution/streaming/checkpointing/
OffsetSeqLog.scala at 4.2.0.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

from pyarrow.fs import FileSelector, FileSystem

from streaming.errors import ConfigurationError
from streaming.source import OFFSET_FORMAT_VERSION
from streaming.tables.file_systems import file_system
from streaming.tables.load_progress import LoadProgress

_VERSION_LINE: Final = "v1"
_CHECKSUM_HEADER: Final = b"crc\0"
"""Of the file that Hadoop's `ChecksumFileSystem` writes beside each file on local disks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """`next_offsets` are where the micro-batch after the last finished one begins.

    `log_partitions` are those of the last planned one. The query id is empty where the checkpoint
    is not whole: it was being discarded, or a power loss damaged it.
    """

    location: str
    query_id: str
    next_offsets: dict[int, int]
    log_partitions: frozenset[int] = frozenset()
    cluster_id: str = ""
    topic_id: str = ""
    format_version: int = OFFSET_FORMAT_VERSION


def read_checkpoint(location: str) -> Checkpoint | None:
    """The checkpoint at a path or an address, None where there is none yet.

    Raises:
        ConfigurationError: the folder holds something else, offsets of another format version
            among it, or cannot be read.
    """
    try:
        # Spark writes it by Hadoop's file systems; delta-rs reads the same addresses.
        return _read_whole(file_system(location), location)
    except _NotWhole:
        return Checkpoint(location=location, query_id="", next_offsets={})
    except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
        raise ConfigurationError(
            f"{location} is not a checkpoint of this program ({error}): name another folder "
            "with --checkpoint"
        ) from error


def require_same_cluster(checkpoint: Checkpoint, cluster_id: str) -> None:
    """Refuse a checkpoint of another cluster.

    Raises:
        ConfigurationError: it is.
    """
    if checkpoint.cluster_id not in ("", cluster_id):
        raise ConfigurationError(
            f"checkpoint {checkpoint.location} is of cluster {checkpoint.cluster_id}, but this is "
            f"{cluster_id}: name another folder with --checkpoint"
        )


def misfit(
    checkpoint: Checkpoint, progress: LoadProgress, log_partitions: Collection[int]
) -> str | None:
    """Why a query on these tables cannot go on with a checkpoint, None where it can.

    One that is behind the tables is fine: what it delivers again is left out.

    Args:
        checkpoint: as it was read.
        progress: how far the tables are.
        log_partitions: those to read.

    Raises:
        ConfigurationError: it is of another cluster.
    """
    require_same_cluster(checkpoint, progress.cluster_id)
    if not checkpoint.query_id:
        return "it is not whole"
    if checkpoint.format_version != OFFSET_FORMAT_VERSION:
        return (
            f"its offsets have format version {checkpoint.format_version}, this program writes "
            f"{OFFSET_FORMAT_VERSION}"
        )
    if checkpoint.topic_id not in ("", progress.topic_id):
        return f"it is of topic id {checkpoint.topic_id}, not {progress.topic_id}"
    if checkpoint.log_partitions and checkpoint.log_partitions != set(log_partitions):
        return "it has other log partitions"
    for log_partition, next_offset in sorted(checkpoint.next_offsets.items()):
        row = progress.rows.get(log_partition)
        if row is not None and row.is_reloading:
            return f"log partition {log_partition} is loaded again"
        applied = 0 if row is None else row.next_offset
        if next_offset > applied:
            return (
                f"it is at record offset {next_offset} of log partition {log_partition}, and the "
                f"tables at {applied}"
            )
    return None


def discard(checkpoint: Checkpoint) -> None:
    """Delete what Spark keeps of a query; all of it that counts is in `load_progress` too.

    Raises:
        ConfigurationError: it cannot be deleted.
    """
    try:
        folder = file_system(checkpoint.location)
        files = folder.get_file_info(["metadata", ".metadata.crc"])
        for name in ("commits", "offsets", "sources", "state"):
            files += folder.get_file_info(FileSelector(name, True, recursive=True))
        # `metadata` first: what is without it is not whole.
        for file in files:
            if file.is_file:
                folder.delete_file(file.path)
    except OSError as error:
        raise ConfigurationError(
            f"cannot delete {checkpoint.location}, which does not fit the tables: {error}; "
            "name another folder with --checkpoint"
        ) from error


class _NotWhole(Exception):
    """A file of a checkpoint is missing or damaged."""


def _read_whole(folder: FileSystem, location: str) -> Checkpoint | None:
    planned = _numbers(folder, "offsets")
    finished = _numbers(folder, "commits")
    if not planned and not finished and _read(folder, "metadata") is None:
        return None
    (metadata,) = _json_lines(folder, "metadata", 1)
    if not planned and not finished:
        return Checkpoint(location=location, query_id=metadata["id"], next_offsets={})
    # Spark plans one micro-batch at a time, and reads its earlier plans when it starts.
    if not planned or not 0 <= planned[-1] - (finished or [-1])[-1] <= 1:
        raise _NotWhole
    *_, newest = [_offset(folder, batch_id) for batch_id in planned[-2:]]
    if newest["v"] != OFFSET_FORMAT_VERSION:
        return Checkpoint(
            location=location,
            query_id=metadata["id"],
            next_offsets={},
            format_version=newest["v"],
        )
    position = {}
    if finished:
        _json_lines(folder, f"commits/{finished[-1]}", 2)
        position = _offset(folder, finished[-1])["p"]
    return Checkpoint(
        location=location,
        query_id=metadata["id"],
        next_offsets={int(p): next_offset for p, (next_offset, _) in position.items()},
        log_partitions=frozenset(map(int, newest["p"])),
        cluster_id=newest["cluster_id"],
        topic_id=newest["topic_id"],
    )


def _offset(folder: FileSystem, batch_id: int) -> Any:
    """The offset at which a micro-batch ends."""
    return _json_lines(folder, f"offsets/{batch_id}", 3)[2]


def _json_lines(folder: FileSystem, name: str, count: int) -> list[Any]:
    """The first lines of a file, parsed; a version line is left as it is.

    Raises:
        _NotWhole: the file is missing, empty, cut or full of zeros, or its checksums are.
        ValueError: it is another kind of file.
    """
    text = _read(folder, name)
    parent, _, own_name = name.rpartition("/")
    checksums = _read(folder, f"{parent}/.{own_name}.crc".lstrip("/"))
    if checksums is not None and not checksums.startswith(_CHECKSUM_HEADER):
        raise _NotWhole
    lines = (text or b"").decode().split("\n")[:count]
    if "\0" in lines[0] or (len(lines) < count and _VERSION_LINE.startswith(lines[0])):
        raise _NotWhole
    return [_parsed(line) for line in lines]


def _parsed(line: str) -> Any:
    if line == _VERSION_LINE:
        return line
    try:
        return json.loads(line)
    except ValueError:
        if not line or line.startswith("{"):
            raise _NotWhole from None
        raise


def _read(folder: FileSystem, name: str) -> bytes | None:
    try:
        with folder.open_input_file(name) as file:
            return bytes(file.read())
    except FileNotFoundError:
        return None


def _numbers(folder: FileSystem, name: str) -> list[int]:
    entries = folder.get_file_info(FileSelector(name, allow_not_found=True))
    return sorted(int(entry.base_name) for entry in entries if entry.base_name.isdecimal())
