"""The offsets in the checkpoint of a Spark Structured Streaming query that reads Kafka.

A query writes `offsets/N` when it plans batch N: the version, one line of metadata, and one line
for each source, which for Kafka is `{"TOPIC": {"PARTITION": OFFSET}}`. The offsets are the ends of
the batch, the first ones that it does not read. It writes `commits/N` when the batch is done. So
the query is where the newest batch with both files ends. Spark keeps the files of 100 batches
(`spark.sql.streaming.minBatchesToRetain`).

Source: org.apache.spark.sql.execution.streaming.checkpointing.OffsetSeqLog and CommitLog, and
org.apache.spark.sql.kafka010.JsonUtils at v4.2.0.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

from pyarrow.fs import FileInfo, FileSelector, FileSystem, FileType

from streaming.errors import ConfigurationError
from streaming.kafka.partition_offsets import TopicPartition
from streaming.tables.file_systems import file_system

_VOID: Final = "-"
"""The line of a source without an offset yet."""
_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
"""The names that Kafka allows."""
_PARTITION: Final = re.compile(r"[0-9]{1,10}")


class SparkBatch(NamedTuple):
    """A batch that is done: the offsets at which it ends."""

    query_id: str
    batch_id: int
    done_at: datetime
    offsets: Mapping[TopicPartition, int]

    @property
    def state(self) -> tuple[str, int, Mapping[TopicPartition, int]]:
        """What the files say, without their times."""
        return self.query_id, self.batch_id, self.offsets


class NoCheckpoint(ConfigurationError):
    """The folder has no checkpoint yet."""


@dataclass(slots=True)
class SparkCheckpoint:
    """A checkpoint.

    Args:
        location: the folder, or its address in an object store.
    """

    location: str
    _files: FileSystem | None = None

    def batches_since(self, last: SparkBatch | None) -> list[SparkBatch]:
        """The batches that were done since a batch, oldest first; all that Spark keeps if None.

        Only the contents of files decide, so a copied checkpoint has no new batches. If the query
        went back, or another query has the checkpoint, the batches of the new state are given.

        Raises:
            NoCheckpoint: there is no checkpoint.
            ConfigurationError: a file cannot be read, or has another form.
        """
        try:
            self._files = self._files or file_system(self.location)
            query_id = _query_id(self._files)
            if query_id is None:
                raise NoCheckpoint(f"{self.location} has no checkpoint of a Spark query")
            done = {int(info.base_name): _time(info) for info in _numbered(self._files, "commits")}
            batches = [
                SparkBatch(query_id, batch_id, done[batch_id], self._offsets(self._files, batch_id))
                for batch_id in _wanted(done, query_id, last)
            ]
        except (OSError, UnicodeDecodeError, ValueError, RecursionError) as error:
            raise ConfigurationError(
                f"cannot read the checkpoint {self.location}: {error}"
            ) from error
        if last is not None and batches and batches[0].state == last.state:
            del batches[0]
        return [batch for batch in batches if batch.offsets]

    def _offsets(self, files: FileSystem, batch_id: int) -> dict[TopicPartition, int]:
        name = f"offsets/{batch_id}"
        try:
            text = _text(files, name)
        except FileNotFoundError:
            # Spark deletes old batches meanwhile, and a copy may not have the file yet.
            return {}
        version, _, *sources = text.split("\n")
        if version.strip() not in {"v1", "v2"}:
            raise ValueError(f"{name} begins with {version[:20]!r}, not with v1 or v2")
        offsets: dict[TopicPartition, int] = {}
        for source in sources:
            for at, offset in _of_kafka(_json_of(source)):
                # Of two sources that read one partition, the slower one counts.
                offsets[at] = min(offset, offsets.get(at, offset))
        return offsets


def _wanted(done: Collection[int], query_id: str, last: SparkBatch | None) -> list[int]:
    """The ids of the batches to read, in order."""
    ids = sorted(done)
    if last is None or query_id != last.query_id or not ids:
        return ids
    # After a rewind by hand only the newest batch is certain to be new.
    return [batch_id for batch_id in ids if batch_id >= last.batch_id] or ids[-1:]


def _query_id(files: FileSystem) -> str | None:
    try:
        metadata = json.loads(_text(files, "metadata"))
    except FileNotFoundError:
        return None
    return str(metadata["id"]) if isinstance(metadata, dict) and "id" in metadata else None


def _json_of(line: str) -> Any:
    """The offset of a source; in version 2 the id of the source stands before it."""
    text = line.strip()
    if not text or text == _VOID:
        return None
    if not text.startswith(("{", "[")):
        _, _, text = text.partition(":")
    try:
        return json.loads(text)
    except ValueError:
        # The offset of another source, such as a number.
        return None


def _of_kafka(offset: Any) -> Iterator[tuple[TopicPartition, int]]:
    """The offsets of a Kafka source; nothing for the offset of another source."""
    if not isinstance(offset, dict):
        return
    for topic, partitions in offset.items():
        if isinstance(partitions, str):
            # Version 2 with a map: the offset of each source as text.
            yield from _of_kafka(_json_of(partitions))
        elif isinstance(partitions, dict) and _TOPIC.fullmatch(topic):
            for partition, end in partitions.items():
                is_offset = isinstance(end, int) and not isinstance(end, bool)
                if not (is_offset and 0 <= end < 1 << 63 and _PARTITION.fullmatch(partition)):
                    continue
                if int(partition) < 1 << 31:
                    yield TopicPartition(topic, int(partition)), end


def _numbered(files: FileSystem, folder: str) -> list[FileInfo]:
    selector = FileSelector(folder, allow_not_found=True)
    return [
        info
        for info in files.get_file_info(selector)
        if info.type == FileType.File and info.base_name.isdecimal()
    ]


def _time(info: FileInfo) -> datetime:
    mtime: datetime = info.mtime
    return mtime


def _text(files: FileSystem, name: str) -> str:
    with files.open_input_stream(name) as stream:
        content: bytes = stream.read()
    return content.decode()
