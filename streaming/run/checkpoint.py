"""Reading a Spark checkpoint before a query starts on it.

A checkpoint can always be discarded: `load_progress` has the next offsets, and a query resumes
there.

A checkpoint folder has `metadata` with the query's id, and in `offsets` one file per planned
micro-batch: a version line, a line of Spark's JSON, and one line per source with the offset JSON of
`coordinator_log`. `commits` has one file per finished micro-batch. Spark does not sync these files:
after a power loss they may be missing, empty, cut off or full of zeros.

Source: sql/core/src/main/scala/org/apache/spark/sql/execution/streaming/checkpointing/
OffsetSeqLog.scala at 4.2.0.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pyarrow.fs import FileSelector, FileSystem

from streaming.errors import ConfigurationError
from streaming.source import OFFSET_FORMAT_VERSION
from streaming.tables.file_systems import file_system
from streaming.tables.load_progress import LoadProgress
from streaming.tables.topic_progress import TopicProgress

_VERSION_LINE: Final = "v1"
_CHECKSUM_HEADER: Final = b"crc\0"
"""The header of the file that Hadoop's `ChecksumFileSystem` writes beside each local file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicCheckpoint:
    """The content of a checkpoint about another topic than `__consumer_offsets`."""

    topic_id: str
    next_offsets: Mapping[int, int]
    log_partitions: frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """The content of a checkpoint.

    `next_offsets` are the end of the last finished micro-batch; `log_partitions` are those of the
    last planned one. `others` has the same of the other internal topics. The query id is empty if
    the checkpoint is incomplete: a discard was interrupted, or a power loss damaged it.
    """

    location: str
    query_id: str
    next_offsets: dict[int, int]
    log_partitions: frozenset[int] = frozenset()
    cluster_id: str = ""
    topic_id: str = ""
    others: Mapping[str, TopicCheckpoint] = field(default_factory=dict)
    format_version: int = OFFSET_FORMAT_VERSION


def read_checkpoint(location: str) -> Checkpoint | None:
    """Return the checkpoint at a path or store address, None if there is none yet.

    Raises:
        ConfigurationError: the folder is not a checkpoint of this program, or cannot be read.
    """
    try:
        # Spark writes it through Hadoop's file systems; delta-rs reads the same addresses.
        return _read_complete(file_system(location), location)
    except _Incomplete:
        return Checkpoint(location=location, query_id="", next_offsets={})
    except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
        raise ConfigurationError(
            f"{location} is not a checkpoint of this program ({error}): use another folder "
            "with --checkpoint"
        ) from error


def require_same_cluster(checkpoint: Checkpoint, cluster_id: str) -> None:
    """Refuse a checkpoint of another cluster.

    Raises:
        ConfigurationError: the checkpoint belongs to another cluster.
    """
    if checkpoint.cluster_id not in ("", cluster_id):
        raise ConfigurationError(
            f"checkpoint {checkpoint.location} belongs to cluster {checkpoint.cluster_id}, but "
            f"this is cluster {cluster_id}: use another folder with --checkpoint"
        )


def misfit(
    checkpoint: Checkpoint,
    progress: LoadProgress,
    log_partitions: Collection[int],
    others: Mapping[str, Collection[int]],
) -> str | None:
    """Return why a query on these tables cannot resume from a checkpoint, None if it can.

    A checkpoint behind the tables is usable: records that the tables already have are skipped.

    Args:
        checkpoint: the checkpoint as read.
        progress: the progress rows of the tables.
        log_partitions: the log partitions to read.
        others: the log partitions to read of each other topic.

    Raises:
        ConfigurationError: the checkpoint belongs to another cluster.
    """
    require_same_cluster(checkpoint, progress.cluster_id)
    if not checkpoint.query_id:
        return "it is incomplete"
    if checkpoint.format_version != OFFSET_FORMAT_VERSION:
        return (
            f"its offsets have format version {checkpoint.format_version}, this program writes "
            f"{OFFSET_FORMAT_VERSION}"
        )
    if checkpoint.topic_id not in ("", progress.topic_id):
        return f"it belongs to topic id {checkpoint.topic_id}, not {progress.topic_id}"
    if checkpoint.log_partitions and checkpoint.log_partitions != set(log_partitions):
        return "it covers other log partitions"
    return _ahead(checkpoint.next_offsets, progress) or _misfit_of_others(
        checkpoint, progress, others
    )


def _misfit_of_others(
    checkpoint: Checkpoint, progress: LoadProgress, others: Mapping[str, Collection[int]]
) -> str | None:
    # A checkpoint without a planned micro-batch covers nothing yet.
    if checkpoint.log_partitions and checkpoint.others.keys() != others.keys():
        return "it covers other topics"
    for topic, topic_checkpoint in checkpoint.others.items():
        of_topic = progress.others[topic]
        if topic_checkpoint.topic_id != of_topic.topic_id:
            return (
                f"it belongs to topic id {topic_checkpoint.topic_id} of {topic}, "
                f"not {of_topic.topic_id}"
            )
        if topic_checkpoint.log_partitions != set(others[topic]):
            return f"it covers other log partitions of {topic}"
        if (reason := _ahead(topic_checkpoint.next_offsets, of_topic)) is not None:
            return f"{topic}: {reason}"
    return None


def _ahead(next_offsets: Mapping[int, int], progress: TopicProgress) -> str | None:
    """Why the tables cannot follow these next offsets of a topic."""
    for log_partition, next_offset in sorted(next_offsets.items()):
        row = progress.rows.get(log_partition)
        if row is not None and row.is_reloading:
            return f"log partition {log_partition} is being reloaded"
        applied = 0 if row is None else row.next_offset
        if next_offset > applied:
            return (
                f"its next offset of log partition {log_partition} is {next_offset}, the tables' "
                f"is {applied}"
            )
    return None


def discard(checkpoint: Checkpoint) -> None:
    """Delete Spark's files of a query; `load_progress` also has the next offsets.

    Raises:
        ConfigurationError: a file cannot be deleted.
    """
    try:
        folder = file_system(checkpoint.location)
        files = folder.get_file_info(["metadata", ".metadata.crc"])
        for name in ("commits", "offsets", "sources", "state"):
            files += folder.get_file_info(FileSelector(name, True, recursive=True))
        # `metadata` first: without it a partly deleted checkpoint is recognised as incomplete.
        for file in files:
            if file.is_file:
                folder.delete_file(file.path)
    except OSError as error:
        raise ConfigurationError(
            f"cannot delete {checkpoint.location}, which does not match the tables: {error}; "
            "use another folder with --checkpoint"
        ) from error


class _Incomplete(Exception):
    """A file of a checkpoint is missing or damaged."""


def _read_complete(folder: FileSystem, location: str) -> Checkpoint | None:
    planned = _numbers(folder, "offsets")
    finished = _numbers(folder, "commits")
    if not planned and not finished and _read(folder, "metadata") is None:
        return None
    (metadata,) = _json_lines(folder, "metadata", 1)
    if not planned and not finished:
        return Checkpoint(location=location, query_id=metadata["id"], next_offsets={})
    # Spark plans one micro-batch at a time, and reads its earlier plans when it starts.
    if not planned or not 0 <= planned[-1] - (finished or [-1])[-1] <= 1:
        raise _Incomplete
    *_, newest = [_offset(folder, batch_id) for batch_id in planned[-2:]]
    if newest["v"] != OFFSET_FORMAT_VERSION:
        return Checkpoint(
            location=location,
            query_id=metadata["id"],
            next_offsets={},
            cluster_id=newest.get("cluster_id", ""),
            format_version=newest["v"],
        )
    applied: Any = {"p": {}, "others": {}}
    if finished:
        _json_lines(folder, f"commits/{finished[-1]}", 2)
        applied = _offset(folder, finished[-1])
    return Checkpoint(
        location=location,
        query_id=metadata["id"],
        next_offsets=_next_offsets(applied),
        log_partitions=frozenset(map(int, newest["p"])),
        cluster_id=newest["cluster_id"],
        topic_id=newest["topic_id"],
        others={
            topic: TopicCheckpoint(
                topic_id=of_topic["topic_id"],
                next_offsets=_next_offsets(applied["others"].get(topic, {"p": {}})),
                log_partitions=frozenset(map(int, of_topic["p"])),
            )
            for topic, of_topic in newest["others"].items()
        },
    )


def _next_offsets(position: Any) -> dict[int, int]:
    return {int(p): next_offset for p, (next_offset, *_) in position["p"].items()}


def _offset(folder: FileSystem, batch_id: int) -> Any:
    """Return the source offset at the end of a micro-batch."""
    return _json_lines(folder, f"offsets/{batch_id}", 3)[2]


def _json_lines(folder: FileSystem, name: str, count: int) -> list[Any]:
    """Return the first lines of a file, parsed from JSON; a version line stays a string.

    Raises:
        _Incomplete: the file or its checksum file is missing, empty, cut off or full of zeros.
        ValueError: the file is not one of a checkpoint.
    """
    text = _read(folder, name)
    parent, _, own_name = name.rpartition("/")
    checksums = _read(folder, f"{parent}/.{own_name}.crc".lstrip("/"))
    if checksums is not None and not checksums.startswith(_CHECKSUM_HEADER):
        raise _Incomplete
    lines = (text or b"").decode().split("\n")[:count]
    if "\0" in lines[0] or (len(lines) < count and _VERSION_LINE.startswith(lines[0])):
        raise _Incomplete
    return [_parsed(line) for line in lines]


def _parsed(line: str) -> Any:
    if line == _VERSION_LINE:
        return line
    try:
        return json.loads(line)
    except ValueError:
        if not line or line.startswith("{"):
            raise _Incomplete from None
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
