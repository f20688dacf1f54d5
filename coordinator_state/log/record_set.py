"""Where the batches of a record set are, and which of its bytes are damaged.

The checksum of a batch does not cover its first bytes: base offset, length, leader epoch and magic.
So nothing of a header is believed where the checksum is wrong, neither length nor offsets. Where it
is right the length is too, but the base offset must still fit between the batches on both sides.

Bytes that are not a sound batch are *damaged*. They end at the next sound batch, whose base offset
shows which record offsets are lost. If the damaged length leads to a sound batch, that is the next
one, unless sound batches fill all bytes before it: then the length is damaged, too. Otherwise the
next one is the first sound batch found byte by byte.

Source: clients/src/main/java/org/apache/kafka/common/record/DefaultRecordBatch.java,
LegacyRecord.java and ByteBufferLogInputStream.java at 4.2.0.
"""

from __future__ import annotations

import re
import struct
import zlib
from typing import Final, NamedTuple

from crc32c import crc32c

from coordinator_state.errors import CorruptRecordBatch
from coordinator_state.log.message_set import MESSAGE_OVERHEAD_BYTES, read_message_set_entry

LOG_OVERHEAD_BYTES: Final = 12
"""Base offset and length, which the length does not count."""
BATCH_HEADER_BYTES: Final = 61
MAGIC_POSITION: Final = 16
CRC_POSITION: Final = 17
CRC_START: Final = 21
"""The attributes, where the checksummed part of a batch begins."""

MAX_BASE_OFFSET: Final = 2**63 - 2**31
"""Beyond this, an int32 delta would leave the int64 range."""

SETTLED_BYTES: Final = 64 << 10
"""How much of the log must follow damaged bytes before they are passed over.

A broker finds an offset by the lengths of the batches behind the last index entry before it; there
is one entry for each 4 KiB of the log (`log.index.interval.bytes`). It finds no offset between a
damaged length and the next entry, so a reader must not ask for one there.
"""

END_OF_LOG: Final = 2**63
"""Behind every offset."""
_OFFSET_BYTES: Final = 8
_LEAST_BYTES: Final = {
    2: BATCH_HEADER_BYTES,
    **{magic: LOG_OVERHEAD_BYTES + size for magic, size in MESSAGE_OVERHEAD_BYTES.items()},
}
_LEAST_LENGTH: Final = MESSAGE_OVERHEAD_BYTES[0]
_MAYBE_A_BATCH: Final = re.compile(rb"(?=[\x00-\x7f].{7}[\x00-\x3f].{7}[\x00-\x02])", re.DOTALL)
"""Base offset and length are not negative, the length is below 1 GiB, and the magic is known."""
_CUT: Final = "a batch without its end"


class Frame(NamedTuple):
    """A piece of a record set: a sound batch, or damaged bytes up to the next one.

    The offsets of a sound batch are those of its header, those of damaged bytes the ones that are
    lost; none are where `last_offset` is below `base_offset`. `damage` says what is wrong.
    """

    start: int
    end: int
    base_offset: int
    last_offset: int
    damage: str = ""


class Rest(NamedTuple):
    """The bytes of a record set from `start` on, which cannot be told yet.

    `damage` says what is wrong with them. `is_cut`: they begin with a batch that is not all there.
    `unconfirmed` is a last batch with a gap before it: without a batch behind it, a gap of
    compaction looks like a damaged base offset.
    """

    start: int
    damage: str = ""
    is_cut: bool = False
    unconfirmed: Frame | None = None


def frame_record_set(
    view: memoryview,
    *,
    from_offset: int = 0,
    to_offset: int = END_OF_LOG,
    before: int = -1,
    log_end: int = END_OF_LOG,
    is_cut: bool = False,
) -> tuple[list[Frame], Rest]:
    """Find the batches of a record set, in order.

    Args:
        view: the record set.
        from_offset: the first offset that is asked for; all before it was read.
        to_offset: the end of what is asked for; a batch that reaches it is the last one.
        before: the last offset before the record set, as far as that is known.
        log_end: no offset of a batch is at or behind it.
        is_cut: whether the log may go on behind the record set. What only that could tell is left:
            a batch that is cut, a gap before the last batch, and damaged bytes with little behind.
    """
    framing = _Framing(view, before, from_offset, to_offset, log_end, is_cut=is_cut)
    rest = framing.run()
    return framing.frames, rest


def sound_frame(view: memoryview, position: int) -> Frame | None:
    """The batch at a position, its checksum verified; None where it is cut.

    Raises:
        CorruptRecordBatch: there is none.
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
    """The offset of the first record of a sound batch, of a compressed message of those inside."""
    raw = view[frame.start : frame.end]
    if raw[MAGIC_POSITION] == 2:
        return frame.base_offset
    try:
        return read_message_set_entry(raw).messages[0].record_offset
    except CorruptRecordBatch:
        return frame.base_offset


def _sound_message(view: memoryview, position: int, end: int, offset: int) -> Frame:
    """A message of magic 0 or 1; its header has the offset of the last message inside."""
    (crc,) = struct.unpack_from(">I", view, position + LOG_OVERHEAD_BYTES)
    actual = zlib.crc32(view[position + MAGIC_POSITION : end])
    if actual != crc:
        raise CorruptRecordBatch(f"CRC-32 is {actual:#010x}, not {crc:#010x}", position=12)
    if offset < 0:
        raise CorruptRecordBatch(f"impossible offset {offset}", position=0)
    return Frame(position, end, offset, offset)


def _misplaced(frame: Frame) -> str:
    return f"base offset {frame.base_offset} does not fit between the batches beside it"


class _Framing:
    """One walk through a record set. What is taken ends before `_position` and `_next_offset`."""

    def __init__(
        self,
        view: memoryview,
        before: int,
        from_offset: int,
        to_offset: int,
        log_end: int,
        *,
        is_cut: bool,
    ) -> None:
        self.frames: list[Frame] = []
        self._view = view
        self._is_cut = is_cut
        self._position = 0
        self._last_offset = before
        self._next_offset = from_offset
        self._to_offset = to_offset
        self._log_end = log_end

    def run(self) -> Rest:
        """Find the frames, and the bytes that are left."""
        while self._position < len(self._view) and self._next_offset < self._to_offset:
            rest = self._step()
            if rest is not None:
                return rest
        return Rest(self._position)

    def _step(self) -> Rest | None:
        try:
            frame = sound_frame(self._view, self._position)
        except CorruptRecordBatch as error:
            return self._pass_over(error.message, scan_from=self._position + 1)
        if frame is None:
            if self._is_cut:
                return Rest(self._position, is_cut=True)
            return self._pass_over(_CUT, scan_from=self._position + 1)
        return self._place(frame)

    def _place(self, frame: Frame) -> Rest | None:
        """Take a sound batch, unless its base offset is damaged."""
        if frame.base_offset <= self._last_offset or frame.last_offset >= self._log_end:
            return self._pass_over(_misplaced(frame), scan_from=frame.end)
        known_to = self._next_offset if self._last_offset < 0 else self._last_offset + 1
        if frame.base_offset > known_to and first_offset(self._view, frame) > known_to:
            header_offset = self._header_offset(frame.end)
            if header_offset is None and self._is_cut:
                return Rest(self._position, unconfirmed=frame)
            if header_offset is not None and header_offset <= frame.last_offset:
                return self._place_one_of_two(frame)
        self._take(frame)
        return None

    def _place_one_of_two(self, frame: Frame) -> Rest | None:
        """A sound batch behind a gap, and one behind it whose base offset is too small for that.

        One of the two base offsets is damaged. A third batch may tell which: the damaged one is
        contradicted by both others, or the other one joins on to the third. Else both are passed
        over.
        """
        following = self._sound(frame.end)
        third = None if following is None else self._sound(following.end)
        if following is None or third is None:
            if self._is_cut:
                return Rest(self._position, is_cut=True)
        elif third.base_offset <= max(frame.last_offset, following.last_offset + 1):
            return self._pass_over(_misplaced(frame), scan_from=frame.end)
        is_known = third is not None and following is not None
        if following is None or (is_known and following.base_offset < self._next_offset):
            self._take(frame)
            return None
        return self._pass_over(_misplaced(frame), scan_from=following.end)

    def _pass_over(self, damage: str, *, scan_from: int) -> Rest | None:
        """Take damaged bytes up to the next sound batch; if none is known, they are the rest."""
        following = self._next_sound(scan_from)
        is_settled = not self._is_cut or (
            following is not None and len(self._view) - following.start >= SETTLED_BYTES
        )
        if following is None or not is_settled:
            return Rest(self._position, damage, is_cut=damage == _CUT)
        last_offset = first_offset(self._view, following) - 1
        self._take(Frame(self._position, following.start, self._next_offset, last_offset, damage))
        return None

    def _take(self, frame: Frame) -> None:
        self.frames.append(frame)
        self._position = frame.end
        self._last_offset = max(self._last_offset, frame.last_offset)
        self._next_offset = max(self._next_offset, frame.last_offset + 1)

    def _next_sound(self, scan_from: int) -> Frame | None:
        """The sound batch at which the log goes on behind damaged bytes."""
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
        """Where the batch at the position ends by its own length, -1 where it has none."""
        header = self._view[self._position : self._position + LOG_OVERHEAD_BYTES]
        if len(header) < LOG_OVERHEAD_BYTES:
            return -1
        length = int.from_bytes(header[_OFFSET_BYTES:], "big", signed=True)
        return -1 if length < _LEAST_LENGTH else self._position + LOG_OVERHEAD_BYTES + length

    def _leads_to(self, frame: Frame, position: int) -> bool:
        """Whether sound batches reach from this one to exactly a position."""
        following: Frame | None = frame
        while following is not None and following.end < position:
            following = self._sound(following.end)
        return following is not None and following.end == position

    def _sound(self, position: int) -> Frame | None:
        """A sound batch there whose offsets are behind those taken."""
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
