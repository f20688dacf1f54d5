"""A log partition as a broker keeps it, and answers a fetch from it: by the headers in its files.

As `UnifiedLog.read`, `LogSegment.read`, `FileRecords.searchForOffsetFromPosition` and
`FileLogInputStream.nextBatch` do it, of Kafka 3.9.1 and of 4.2.0.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from streaming.errors import LogTruncated
from streaming.kafka.fetch import FetchedRecords

INDEX_INTERVAL_BYTES = 300


class BrokenHeader(Exception):
    """`CorruptRecordException`: a batch too small to be one."""


class _Header(NamedTuple):
    position: int
    size_bytes: int
    base_offset: int
    last_offset: int


@dataclass
class Segment:
    """Record batches in a file, and the index that was made when they were written."""

    content: bytearray
    base_offset: int
    index: list[tuple[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        indexed = 0
        for header in self.headers(0):
            if header.position - indexed > INDEX_INTERVAL_BYTES:
                self.index.append((header.last_offset, header.position))
                indexed = header.position

    def headers(self, position: int) -> Iterator[_Header]:
        """`FileLogInputStream`: a length leads from one to the next."""
        while position < len(self.content) - 17:
            base_offset, length = struct.unpack_from(">qi", self.content, position)
            header = bytes(self.content[position : position + 27]).ljust(27, b"\0")
            magic, delta = struct.unpack_from(">b6xi", header, 16)
            if length < 14:
                raise BrokenHeader
            if position > len(self.content) - 12 - length:
                return
            last_offset = base_offset + delta if magic >= 2 else base_offset
            yield _Header(position, 12 + length, base_offset, last_offset)
            position += 12 + length

    def find(self, offset: int, *, version: str) -> _Header | None:
        """The batch that holds an offset, or the next one."""
        entry = bisect_right(self.index, offset, key=lambda entry: entry[0])
        headers = self.headers(self.index[entry - 1][1] if entry else 0)
        if version.startswith("3"):
            return next((header for header in headers if header.last_offset >= offset), None)
        before = None
        for header in headers:
            if header.base_offset == offset:
                return header
            if header.base_offset > offset:
                return before if before and before.last_offset >= offset else header
            before = header
        return before if before and before.last_offset >= offset else None


@dataclass
class BrokerLog:
    """A log partition; it answers like one leader that has only this one."""

    segments: list[Segment]
    log_end: int
    version: str
    log_start: int = 0
    reported_high_watermark: int | None = None
    fetches: int = 0

    def fetch(
        self,
        positions: Mapping[int, int],
        max_bytes: int = 1 << 20,
        max_partition_bytes: int = 1 << 20,
        max_wait_ms: int = 0,  # noqa: ARG002
    ) -> dict[int, FetchedRecords]:
        """What `LogClient.fetch` does."""
        self.fetches += 1
        ((log_partition, offset),) = positions.items()
        if not self.log_start <= offset <= self.log_end:
            raise LogTruncated(
                topic="__consumer_offsets",
                log_partition=log_partition,
                record_offset=offset,
                log_start=self.log_start,
                log_end=self.log_end,
            )
        try:
            records, is_unreadable = self._read(offset, min(max_bytes, max_partition_bytes)), False
        except BrokenHeader:
            records, is_unreadable = b"", True
        reported = self.reported_high_watermark
        high_watermark = self.log_end if reported is None else reported
        fetched = FetchedRecords(
            records=records,
            high_watermark=high_watermark,
            is_unreadable=is_unreadable,
        )
        return {log_partition: fetched}

    def _read(self, offset: int, max_bytes: int) -> bytes:
        first = bisect_right(self.segments, offset, key=lambda segment: segment.base_offset) - 1
        for segment in self.segments[max(first, 0) :]:
            header = segment.find(offset, version=self.version)
            if header is not None:
                size = max(max_bytes, header.size_bytes)
                return bytes(segment.content[header.position : header.position + size])
        return b""
