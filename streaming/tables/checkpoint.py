"""What a Spark checkpoint says of itself, read before the query starts on it.

A checkpoint folder holds `metadata` with the query's id, and one file per planned micro-batch in
`offsets`: a version line, a line of Spark's own JSON, then one line per source, ours being the
offset JSON of `coordinator_log`; `commits` has a file per finished one.

Source: sql/core/src/main/scala/org/apache/spark/sql/execution/streaming/checkpointing/
OffsetSeqLog.scala at 4.2.0.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from pyarrow.fs import FileSelector, FileSystem

from streaming.errors import ConfigurationError
from streaming.source import OFFSET_FORMAT_VERSION
from streaming.tables.file_systems import file_system
from streaming.tables.load_progress import LoadProgress


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """`next_offsets` are where the micro-batch after the last finished one begins."""

    location: str
    query_id: str
    next_offsets: dict[int, int]
    cluster_id: str
    topic_id: str


def read_checkpoint(location: str) -> Checkpoint | None:
    """The checkpoint at a path or an address, None where there is none yet.

    Raises:
        ConfigurationError: the folder holds something else, offsets of another format version
            among it, or cannot be read.
    """
    try:
        # Spark writes it by Hadoop's file systems; delta-rs reads the same addresses.
        folder = file_system(location)
        metadata = _read(folder, "metadata")
        if metadata is None:
            return None
        query_id = json.loads(metadata)["id"]
        finished = _numbers(folder, "commits")
        if not finished:
            return Checkpoint(
                location=location, query_id=query_id, next_offsets={}, cluster_id="", topic_id=""
            )
        planned = _read(folder, f"offsets/{finished[-1]}") or ""
        offset = json.loads(planned.splitlines()[2])
        _require_format(location, offset["v"])
        return Checkpoint(
            location=location,
            query_id=query_id,
            next_offsets={int(p): position[0] for p, position in offset["p"].items()},
            cluster_id=offset["cluster_id"],
            topic_id=offset["topic_id"],
        )
    except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
        raise ConfigurationError(
            f"{location} is not a checkpoint of this program ({error}): name another folder "
            "with --checkpoint"
        ) from error


def _require_format(location: str, found: object) -> None:
    if found != OFFSET_FORMAT_VERSION:
        raise ConfigurationError(
            f"checkpoint {location} has offsets of format version {found}, this program those of "
            f"{OFFSET_FORMAT_VERSION}: name a new folder with --checkpoint and the query goes on "
            "from where the tables are"
        )


def require_fit(checkpoint: Checkpoint, progress: LoadProgress, tables: str) -> None:
    """Refuse a checkpoint whose records the tables have not seen.

    A checkpoint that is behind the tables is fine: what it delivers again is left out.

    Raises:
        ConfigurationError: it is of another cluster or topic, or ahead of the tables.
    """
    where = f"checkpoint {checkpoint.location}"
    found = (checkpoint.cluster_id, checkpoint.topic_id)
    if checkpoint.next_offsets and found != (progress.cluster_id, progress.topic_id):
        raise ConfigurationError(
            f"{where} is of cluster {found[0]}, topic id {found[1]}, but {tables} of cluster "
            f"{progress.cluster_id}, topic id {progress.topic_id}: name another folder with "
            "--checkpoint"
        )
    for log_partition, next_offset in sorted(checkpoint.next_offsets.items()):
        row = progress.rows.get(log_partition)
        applied = 0 if row is None else row.next_offset
        if next_offset > applied:
            raise ConfigurationError(
                f"{where} does not fit {tables}: log partition {log_partition} is at record offset "
                f"{next_offset} in the checkpoint and at {applied} in the tables; name a new "
                "folder with --checkpoint and the query goes on from where the tables are"
            )


def _read(folder: FileSystem, name: str) -> str | None:
    try:
        with folder.open_input_file(name) as file:
            return str(file.read().decode())
    except FileNotFoundError:
        return None


def _numbers(folder: FileSystem, name: str) -> list[int]:
    entries = folder.get_file_info(FileSelector(name, allow_not_found=True))
    return sorted(int(entry.base_name) for entry in entries if entry.base_name.isdecimal())
