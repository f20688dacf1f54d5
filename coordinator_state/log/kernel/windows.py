"""The batches of a record set, in windows that limit the memory, and the bytes of a window.

Decompressed bodies are appended to a copy of the bytes of the batches.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from coordinator_state.errors import CorruptRecordBatch
from coordinator_state.log.kernel import batches
from coordinator_state.log.kernel.numbers import Bytes, Integers, read_only
from coordinator_state.log.log_decoder import OffsetRange
from coordinator_state.log.record_batch import read_batch_body
from coordinator_state.log.record_set import Frame, Rest, sound_frame

WINDOW_BYTES: Final = 64 * 1024 * 1024
"""The size of a window, before and after decompression; it limits the memory for integer rows."""
COMPACTED_WINDOW_BYTES: Final = 4 * 1024 * 1024
"""Smaller if compaction drops most rows: first access to fresh memory then dominates the cost."""
WINDOW_BATCHES: Final = 1 << 18


class Damaged(Exception):
    """The record set has bytes outside sound batches."""


class Windows:
    """Windows over a record set; `table` has the columns of `batches` for the batches of one."""

    def __init__(self, view: memoryview, offsets: OffsetRange, *, is_compacting: bool) -> None:
        self._view = view
        self._data = read_only(np.frombuffer(view, dtype=np.uint8))
        self._offsets = offsets
        self._window_bytes = COMPACTED_WINDOW_BYTES if is_compacting else WINDOW_BYTES
        self.table: Integers = np.empty((batches.BATCH_COLUMNS, WINDOW_BATCHES), dtype=np.int64)

    def index(self, place: batches.Place) -> tuple[int, batches.Place, int, bool]:
        """Fill the table with the batches of the window at a place (`batches.index_batches`)."""
        return batches.index_batches(
            self._data,
            place,
            self._offsets.from_offset,
            self._offsets.to_offset,
            self._window_bytes,
            self.table,
        )

    def rest(self, place: batches.Place) -> Rest:
        """Return the bytes after the last complete batch: none, or an incomplete batch.

        Raises:
            Damaged: the bytes are something else, or a base offset may be damaged.
        """
        position, _, last_offset, has_gap = place
        is_cut = self._offsets.is_cut
        if place == batches.NO_PLACE or last_offset >= self._offsets.log_end:
            raise Damaged
        following = self._view[position : position + 8]
        is_followed = len(following) == 8 and int.from_bytes(following, "big") > last_offset
        if has_gap and not is_followed and (following or is_cut):
            raise Damaged
        next_offset = max(last_offset + 1, self._offsets.from_offset)
        if not following or next_offset >= self._offsets.to_offset:
            return Rest(position)
        try:
            frame = sound_frame(self._view, position)
        except CorruptRecordBatch:
            raise Damaged from None
        if frame is not None or not is_cut:
            raise Damaged
        return Rest(position, is_cut=True)

    def fill_arena(self, last: int) -> tuple[Bytes, int]:
        """Return the bytes of the batches before `last`, and the number of their first batch.

        Without compression the bytes are the record set itself. Otherwise they are a copy of as
        many batches as fit into a window, followed by the decompressed bodies.
        """
        table = self.table
        is_compressed = table[batches.ROUTE, :last] == batches.ROUTE_COMPRESSED
        if not is_compressed.any():
            return self._data, 0
        first = 0
        bodies: dict[int, memoryview] = {}
        room = self._window_bytes
        for index in np.flatnonzero(is_compressed)[::-1].tolist():
            bodies[index] = self._decompress(index)
            room -= len(bodies[index])
            if room <= 0:
                first = index
                break
        start = int(table[batches.POSITION, first])
        end = int(table[batches.POSITION, last - 1] + table[batches.SIZE, last - 1])
        for column in (batches.POSITION, batches.BODY_START, batches.BODY_END):
            table[column, first:last] -= start
        body_end = end - start
        for index, body in bodies.items():
            table[batches.BODY_START, index] = body_end
            body_end += len(body)
            table[batches.BODY_END, index] = body_end
        arrays = [np.frombuffer(body, dtype=np.uint8) for body in bodies.values()]
        return read_only(np.concatenate([self._data[start:end], *arrays])), first

    def _decompress(self, index: int) -> memoryview:
        """Verify and decompress a batch; `log_decoder` reads a batch that cannot be decompressed.

        Raises:
            Damaged: the batch is not sound.
        """
        table = self.table
        start = table[batches.POSITION, index]
        raw = self._view[start : start + table[batches.SIZE, index]]
        require_sound(raw)
        try:
            header, body = read_batch_body(raw)
        except CorruptRecordBatch:
            table[batches.ROUTE, index] = batches.ROUTE_BROKEN
            return memoryview(b"")
        table[batches.ROUTE, index] = batches.ROUTE_DECOMPRESSED
        table[batches.MOST_ROWS, index] = 1 + min(
            header.records_count, len(body) // batches.LEAST_RECORD_BYTES
        )
        return body

    def batch(self, arena: Bytes, index: int) -> memoryview:
        """The bytes of a batch of the window."""
        start = int(self.table[batches.POSITION, index])
        return memoryview(arena.data)[start : start + int(self.table[batches.SIZE, index])]


def require_sound(raw: memoryview) -> Frame:
    """Return the frame of bytes that are one batch.

    Raises:
        Damaged: the batch is not sound.
    """
    try:
        frame = sound_frame(raw, 0)
    except CorruptRecordBatch:
        raise Damaged from None
    if frame is None:
        raise Damaged
    return frame
