"""Framing: finds the batches of a record set, and its damaged bytes.

The checksum of a batch does not cover its first bytes: base offset, length, leader epoch and magic.
If the checksum is wrong, no field of the header is trusted. If the checksum is right, the length is
right, too, but the base offset must also fit between the neighbouring batches.

A batch is *sound* if its checksum and header are valid. All other bytes are *damaged*. They end at
the next sound batch; its base offset shows which records are lost. The next sound batch is:

1. the batch to which the damaged batch's length leads, if it is sound. If sound batches fill all
   bytes before it, the length is damaged, and the first of those batches is the next one.
2. otherwise the first sound batch that a search byte by byte finds.

Source: clients/src/main/java/org/apache/kafka/common/record/DefaultRecordBatch.java,
LegacyRecord.java and ByteBufferLogInputStream.java at 4.2.0.
"""

from __future__ import annotations

import re
import struct
import zlib
from dataclasses import dataclass
from typing import Final, NamedTuple

from crc32c import crc32c

from coordinator_state.errors import CorruptRecordBatch
from coordinator_state.log.message_set import MESSAGE_OVERHEAD_BYTES, read_message_set_entry

LOG_OVERHEAD_BYTES: Final = 12
"""Base offset and length; the length does not count them."""
BATCH_HEADER_BYTES: Final = 61
MAGIC_POSITION: Final = 16
CRC_POSITION: Final = 17
CRC_START: Final = 21
"""The position of the attributes, where the checksummed part of a batch begins."""

MAX_BASE_OFFSET: Final = 2**63 - 2**31
"""With a larger base offset, an int32 delta would leave the int64 range."""

SETTLED_BYTES: Final = 64 << 10
"""The reader skips damaged bytes only if this many bytes of the log follow them.

To find an offset, a broker starts at the last index entry before it and follows the lengths of the
batches. There is one entry per 4 KiB of the log (`log.index.interval.bytes`). The broker cannot
find an offset between a damaged length and the next entry, so a reader must not fetch from there.
"""

END_OF_LOG: Final = 2**63
"""Larger than every record offset."""
_OFFSET_BYTES: Final = 8
_LEAST_BYTES: Final = {
    2: BATCH_HEADER_BYTES,
    **{magic: LOG_OVERHEAD_BYTES + size for magic, size in MESSAGE_OVERHEAD_BYTES.items()},
}
_LEAST_LENGTH: Final = MESSAGE_OVERHEAD_BYTES[0]
_MAYBE_A_BATCH: Final = re.compile(rb"(?=[\x00-\x7f].{7}[\x00-\x3f].{7}[\x00-\x02])", re.DOTALL)
"""Base offset and length are not negative, the length is below 1 GiB, and the magic is known."""
_CUT: Final = "incomplete batch"


class Frame(NamedTuple):
    """A piece of a record set: a sound batch, or damaged bytes up to the next sound batch.

    A sound batch has the offsets of its header. Damaged bytes have the range of lost records; it is
    empty if `last_offset` is below `base_offset`. `damage` is the reason, empty for a sound batch.
    """

    start: int
    end: int
    base_offset: int
    last_offset: int
    damage: str = ""


class Rest(NamedTuple):
    """The bytes of a record set from `start` on, which cannot be judged without more of the log.

    `damage` is the reason if they are damaged. `is_cut`: they begin with an incomplete batch.
    `unconfirmed` is a last batch after a gap in the offsets. Without a batch after it, a gap from
    compaction looks like a damaged base offset.
    """

    start: int
    damage: str = ""
    is_cut: bool = False
    unconfirmed: Frame | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The requested offsets of a record set, and the known limits of its log.

    Attributes:
        from_offset: the first requested record offset; all records before it were read.
        to_offset: the exclusive end of the request; a batch that reaches it is the last one.
        before: the last record offset before the record set, -1 if unknown.
        log_end: all record offsets of a valid batch are below it.
        is_cut: whether the log may continue after the record set. If so, these bytes are the rest:
            an incomplete batch, a last batch after a gap, and damaged bytes with fewer than
            `SETTLED_BYTES` after them.
    """

    from_offset: int = 0
    to_offset: int = END_OF_LOG
    before: int = -1
    log_end: int = END_OF_LOG
    is_cut: bool = False


def frame_record_set(view: memoryview, bounds: Bounds) -> tuple[list[Frame], Rest]:
    """Find the batches of a record set, in order."""
    framing = _Framing(view, bounds)
    rest = framing.run()
    return framing.frames, rest


def sound_frame(view: memoryview, position: int) -> Frame | None:
    """Return the batch at a position after a check of its checksum; None if it is incomplete.

    Raises:
        CorruptRecordBatch: no sound batch is at the position.
    """
    left = len(view) - position
    if left <= MAGIC_POSITION and left < LOG_OVERHEAD_BYTES + _LEAST_LENGTH:
        return None
    base_offset, length = struct.unpack_from(">qi", view, position)
    magic = view[position + MAGIC_POSITION]
    if length < _LEAST_LENGTH:
        raise CorruptRecordBatch(f"impossible batch length {length}", position=8)
    if magic not in _LEAST_BYTES:
        raise CorruptRecordBatch(f"unknown magic {magic}", position=MAGIC_POSITION)
    if LOG_OVERHEAD_BYTES + length < _LEAST_BYTES[magic]:
        raise CorruptRecordBatch(f"impossible batch length {length}", position=8)
    end = position + LOG_OVERHEAD_BYTES + length
    if end > len(view):
        return None
    if magic < 2:
        return _sound_message(view, position, end, base_offset)
    (crc,) = struct.unpack_from(">I", view, position + CRC_POSITION)
    actual = crc32c(view[position + CRC_START : end])
    if actual != crc:
        raise CorruptRecordBatch(
            f"CRC-32C is {actual:#010x}, not {crc:#010x}", position=CRC_POSITION
        )
    if not 0 <= base_offset <= MAX_BASE_OFFSET:
        raise CorruptRecordBatch(f"impossible base offset {base_offset}", position=0)
    (last_offset_delta,) = struct.unpack_from(">i", view, position + 23)
    if last_offset_delta < 0:
        raise CorruptRecordBatch(f"negative last offset delta {last_offset_delta}", position=23)
    return Frame(position, end, base_offset, base_offset + last_offset_delta)


def first_offset(view: memoryview, frame: Frame) -> int:
    """Return the first record offset of a sound batch or, in a wrapper, of its inner messages."""
    raw = view[frame.start : frame.end]
    if raw[MAGIC_POSITION] == 2:
        return frame.base_offset
    try:
        return read_message_set_entry(raw).messages[0].record_offset
    except CorruptRecordBatch:
        return frame.base_offset


def _sound_message(view: memoryview, position: int, end: int, offset: int) -> Frame:
    """Check a message of magic 0 or 1; its header has the offset of the last inner message."""
    (crc,) = struct.unpack_from(">I", view, position + LOG_OVERHEAD_BYTES)
    actual = zlib.crc32(view[position + MAGIC_POSITION : end])
    if actual != crc:
        raise CorruptRecordBatch(f"CRC-32 is {actual:#010x}, not {crc:#010x}", position=12)
    if offset < 0:
        raise CorruptRecordBatch(f"impossible offset {offset}", position=0)
    return Frame(position, end, offset, offset)


def _misplaced(frame: Frame) -> str:
    return f"base offset {frame.base_offset} does not fit between the neighbouring batches"


class _Framing:
    """One pass over a record set; `frames` cover all bytes before `_position`."""

    def __init__(self, view: memoryview, bounds: Bounds) -> None:
        self.frames: list[Frame] = []
        self._view = view
        self._is_cut = bounds.is_cut
        self._position = 0
        self._last_offset = bounds.before
        self._next_offset = bounds.from_offset
        self._to_offset = bounds.to_offset
        self._log_end = bounds.log_end

    def run(self) -> Rest:
        """Fill `frames`; return the rest."""
        while self._position < len(self._view) and self._next_offset < self._to_offset:
            rest = self._step()
            if rest is not None:
                return rest
        return Rest(self._position)

    def _step(self) -> Rest | None:
        try:
            frame = sound_frame(self._view, self._position)
        except CorruptRecordBatch as error:
            return self._skip_damage(error.message, scan_from=self._position + 1)
        if frame is None:
            if self._is_cut:
                return Rest(self._position, is_cut=True)
            return self._skip_damage(_CUT, scan_from=self._position + 1)
        return self._accept(frame)

    def _accept(self, frame: Frame) -> Rest | None:
        """Add a sound batch, unless its base offset is damaged."""
        if frame.base_offset <= self._last_offset or frame.last_offset >= self._log_end:
            return self._skip_damage(_misplaced(frame), scan_from=frame.end)
        known_to = self._next_offset if self._last_offset < 0 else self._last_offset + 1
        if frame.base_offset > known_to and first_offset(self._view, frame) > known_to:
            header_offset = self._header_offset(frame.end)
            if header_offset is None and self._is_cut:
                return Rest(self._position, unconfirmed=frame)
            if header_offset is not None and header_offset <= frame.last_offset:
                return self._resolve_conflict(frame)
        self._add(frame)
        return None

    def _resolve_conflict(self, frame: Frame) -> Rest | None:
        """Handle a sound batch after a gap whose next batch has too small a base offset.

        One of the two base offsets is damaged. A third batch may show which: the damaged offset
        contradicts both other batches, or the other batch ends where the third begins. Otherwise
        both batches are skipped.
        """
        following = self._sound(frame.end)
        third = None if following is None else self._sound(following.end)
        if following is None or third is None:
            if self._is_cut:
                return Rest(self._position, is_cut=True)
        elif third.base_offset <= max(frame.last_offset, following.last_offset + 1):
            return self._skip_damage(_misplaced(frame), scan_from=frame.end)
        is_known = third is not None and following is not None
        if following is None or (is_known and following.base_offset < self._next_offset):
            self._add(frame)
            return None
        return self._skip_damage(_misplaced(frame), scan_from=following.end)

    def _skip_damage(self, damage: str, *, scan_from: int) -> Rest | None:
        """Add damaged bytes up to the next sound batch; without one, they are the rest."""
        following = self._next_sound(scan_from)
        is_settled = not self._is_cut or (
            following is not None and len(self._view) - following.start >= SETTLED_BYTES
        )
        if following is None or not is_settled:
            return Rest(self._position, damage, is_cut=damage == _CUT)
        last_offset = first_offset(self._view, following) - 1
        self._add(Frame(self._position, following.start, self._next_offset, last_offset, damage))
        return None

    def _add(self, frame: Frame) -> None:
        self.frames.append(frame)
        self._position = frame.end
        self._last_offset = max(self._last_offset, frame.last_offset)
        self._next_offset = max(self._next_offset, frame.last_offset + 1)

    def _next_sound(self, scan_from: int) -> Frame | None:
        """Find the next sound batch after damaged bytes."""
        claimed = self._sound(max(self._claimed_end, scan_from))
        for match in _MAYBE_A_BATCH.finditer(self._view, scan_from):
            frame = self._sound(match.start())
            if frame is not None and (
                claimed is None
                or frame.start == claimed.start
                or self._leads_to(frame, claimed.start)
            ):
                return frame
        return None

    @property
    def _claimed_end(self) -> int:
        """The end of the current batch by its length field, -1 if that is missing or too small."""
        header = self._view[self._position : self._position + LOG_OVERHEAD_BYTES]
        if len(header) < LOG_OVERHEAD_BYTES:
            return -1
        length = int.from_bytes(header[_OFFSET_BYTES:], "big", signed=True)
        return -1 if length < _LEAST_LENGTH else self._position + LOG_OVERHEAD_BYTES + length

    def _leads_to(self, frame: Frame, position: int) -> bool:
        """Whether consecutive sound batches from this one end exactly at a position."""
        following: Frame | None = frame
        while following is not None and following.end < position:
            following = self._sound(following.end)
        return following is not None and following.end == position

    def _sound(self, position: int) -> Frame | None:
        """Return the sound batch at a position if its offsets are larger than all added ones."""
        if not 0 <= position < len(self._view):
            return None
        try:
            frame = sound_frame(self._view, position)
        except CorruptRecordBatch:
            return None
        if frame is None or frame.last_offset >= self._log_end:
            return None
        return frame if frame.base_offset > self._last_offset else None

    def _header_offset(self, position: int) -> int | None:
        if len(self._view) - position < _OFFSET_BYTES:
            return None
        return int.from_bytes(self._view[position : position + _OFFSET_BYTES], "big", signed=True)
