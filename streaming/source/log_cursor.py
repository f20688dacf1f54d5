"""A cursor over the fetches of a range, which also reads past damaged bytes.

A broker finds an offset by the headers of the batches before it. It answers from the batch that
contains the offset, or else from the next batch, up to the end of the segment or the limit. A
damaged header hides the batches after it from this lookup, but not from an answer that began
earlier.

1. A fetch asks for the batch before the next offset (the anchor). The answer then has the bytes
   after it in file order. At the end of a segment the fetch asks for the next offset itself.
2. If the anchor is not in the log, the cursor tries earlier ones, up to 1,024 offsets back.
3. A gap before the last batch of a segment may be a damaged base offset. A fetch of the last offset
   of that batch must lead to the same batch.
4. If a segment ends with damaged bytes, or the broker cannot find the next offset, the cursor
   searches for the smallest offset that leads to a sound batch. One row says which offsets are
   lost.

Every answer moves the next offset, or goes one step down this list, or asks for a larger answer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from coordinator_state.errors import CorruptRecordBatch
from coordinator_state.log.commit_sampling import CommitSampling
from coordinator_state.log.log_decoder import (
    DecodedRecordSet,
    OffsetRange,
    decode_corrupt_batch,
    decode_record_set,
)
from coordinator_state.log.record_batch import CorruptBatch, read_rest
from coordinator_state.log.record_set import (
    BATCH_HEADER_BYTES,
    Bounds,
    Frame,
    Rest,
    first_offset,
    frame_record_set,
    sound_frame,
)
from streaming.kafka.fetch import FetchedRecords

_MOST_OFFSETS_BACK: Final = 1024
"""Usually more records than a broker has between two entries of its index (4 KiB)."""
_NOT_FOUND: Final = "the broker cannot find this offset: a batch header before it is damaged"
_MISPLACED: Final = "a base offset that does not fit"


class Answer(NamedTuple):
    """The answer to a fetch.

    `is_whole`: the answer ends where the log or the segment ends; a larger one would have no more.
    """

    fetched: FetchedRecords
    is_whole: bool


@dataclass(frozen=True, slots=True)
class _Reading:
    """An answer is decoded from the next offset on."""


@dataclass(frozen=True, slots=True)
class _BehindCut:
    """Waits for a batch at the end of an answer, which begins at `start` and was cut."""

    cut: Answer
    start: int


@dataclass(frozen=True, slots=True)
class _Confirming:
    """Waits for the batch behind a gap; without it the gap is damage."""

    damage: CorruptBatch


@dataclass(slots=True)
class _Search:
    """A search for the smallest offset above `low` that leads to a sound batch.

    `high` leads to `frame` of `answer`; without an answer, it is the log end. `damage` are the
    damaged bytes before it; None if the broker does not return them.
    """

    low: int
    high: int
    damage: CorruptBatch | None
    step: int = 1
    answer: Answer | None = None
    frame: Frame | None = None

    @property
    def offset(self) -> int:
        """The next offset to try: steps double up to the first hit, then the interval is halved."""
        if self.answer is None and self.low + self.step < self.high:
            return self.low + self.step
        return self.low + (self.high - self.low) // 2

    @property
    def is_over(self) -> bool:
        return self.high - self.low <= 1

    def note(self, answer: Answer, frame: Frame | None) -> None:
        """Record the answer to a fetch of `offset`, and the sound batch in it, if any."""
        if frame is None:
            self.low = self.offset
            self.step *= 2
        else:
            self.high, self.answer, self.frame = self.offset, answer, frame


class LogCursor:
    """Decodes the answers to fetches of `fetch_offset` until the range is read.

    Attributes:
        next_offset: the next offset to read; every offset before it is read, or a row says that it
            is lost.
        fetch_offset: the offset for the next fetch.
        needs_more: whether only a larger answer helps.
    """

    def __init__(
        self, offsets: OffsetRange, *, high_watermark: int, sampling: CommitSampling | None
    ) -> None:
        self.next_offset = offsets.from_offset
        self.fetch_offset = max(offsets.from_offset - 1, 0)
        self.needs_more = False
        self._log_partition = offsets.log_partition
        self._log_topic = offsets.log_topic
        self._to_offset = offsets.to_offset
        self._log_end = max(high_watermark, offsets.to_offset)
        self._sampling = sampling
        self._follows_segment = False
        self._state: _Reading | _BehindCut | _Confirming | _Search = _Reading()

    @property
    def is_done(self) -> bool:
        """Whether the range is read to its end."""
        return self.next_offset >= self._to_offset

    def leave_anchor(self) -> None:
        """Fetch the next offset itself."""
        self.fetch_offset = self.next_offset

    def take(self, answer: Answer) -> list[DecodedRecordSet]:
        """Decode the part of the answer that lies in the range, from the next offset on."""
        self.needs_more = False
        self._log_end = max(self._log_end, answer.fetched.high_watermark)
        if _is_behind(answer.fetched, self.fetch_offset):
            return []
        match self._state:
            case _Search() as search:
                return self._take_found(search, answer)
            case _Confirming(damage):
                return self._take_confirmation(damage, answer)
            case _BehindCut(cut, start):
                return self._take_behind_cut(cut, start, answer)
            case _Reading():
                return self._take_next(answer)

    def _take_next(self, answer: Answer) -> list[DecodedRecordSet]:
        if self.fetch_offset < self.next_offset and not self._is_anchored(answer.fetched):
            self._go_back()
            return []
        if answer.fetched.records and self.fetch_offset <= self.next_offset:
            return self._decode(answer)
        if answer.fetched.records or answer.fetched.is_unreadable:
            return self._begin_search()
        return self._take_nothing(answer.fetched.high_watermark)

    # --- a sound log

    def _is_anchored(self, fetched: FetchedRecords) -> bool:
        """Whether the answer begins before the next offset. Damaged bytes may begin anywhere."""
        if not fetched.records:
            return False
        first = self._first_frame(fetched)
        return first is None or first.base_offset < self.next_offset

    def _go_back(self) -> None:
        offsets_back = 2 * (self.next_offset - self.fetch_offset)
        is_last = self.fetch_offset == 0 or offsets_back > _MOST_OFFSETS_BACK
        self.fetch_offset = self.next_offset if is_last else max(self.next_offset - offsets_back, 0)

    def _decode(self, answer: Answer) -> list[DecodedRecordSet]:
        decoded = self._decoded(answer.fetched, is_cut=True)
        if decoded.next_offset > self.next_offset:
            return self._advance(answer, decoded)
        rest = decoded.rest
        if not answer.is_whole:
            self.needs_more = True
        elif rest.unconfirmed is not None and rest.unconfirmed.last_offset >= self.next_offset:
            self._state = _Confirming(self._damaged(answer, Rest(rest.start, _MISPLACED)))
            self.fetch_offset = min(rest.unconfirmed.last_offset, self._log_end - 1)
        elif rest.is_cut and self.fetch_offset < self.next_offset:
            # A quota may have shortened the answer. The first batch of an answer comes whole.
            self._state = _BehindCut(answer, rest.start)
            self.needs_more = True
            self.leave_anchor()
        else:
            return self._decode_to_end(answer)
        return []

    def _decode_to_end(self, answer: Answer) -> list[DecodedRecordSet]:
        """Decode an answer that ends with its segment."""
        decoded = self._decoded(answer.fetched, is_cut=False)
        if decoded.next_offset > self.next_offset:
            return self._advance(answer, decoded)
        if decoded.rest.damage:
            return self._begin_search(self._damaged(answer, decoded.rest))
        if self.fetch_offset < self.next_offset:
            self.leave_anchor()
            return []
        return self._begin_search()

    def _take_behind_cut(self, cut: Answer, start: int, answer: Answer) -> list[DecodedRecordSet]:
        """Continue if the batch that was cut is whole now; otherwise its length is damaged."""
        self._state = _Reading()
        header = cut.fetched.records[start : start + BATCH_HEADER_BYTES]
        if answer.fetched.records.startswith(header) and self._first_frame(answer.fetched):
            return self._decode(answer)
        return self._decode_to_end(cut)

    def _take_nothing(self, high_watermark: int) -> list[DecodedRecordSet]:
        """Handle an answer without records: compaction may have removed the last ones of the log.

        A damaged header may also hide them, so the cursor fetches the last offset first.
        """
        if high_watermark < self._to_offset:
            return []
        if self.fetch_offset < self._log_end - 1:
            self.fetch_offset = self._log_end - 1
        else:
            self._move(self._to_offset)
        return []

    def _advance(self, answer: Answer, decoded: DecodedRecordSet) -> list[DecodedRecordSet]:
        is_at_end = answer.is_whole and decoded.rest.start == len(answer.fetched.records)
        self._move(decoded.next_offset, None if is_at_end else decoded.last_base_offset)
        self._follows_segment = is_at_end
        return [decoded]

    def _move(self, next_offset: int, anchor: int | None = None) -> None:
        self.next_offset = next_offset
        self.fetch_offset = next_offset if anchor is None else min(anchor, next_offset)
        self._follows_segment = False
        self._state = _Reading()

    def _decoded(
        self, fetched: FetchedRecords, *, is_cut: bool, start: int = 0
    ) -> DecodedRecordSet:
        view = memoryview(fetched.records)[start:]
        offsets = OffsetRange(
            log_partition=self._log_partition,
            from_offset=self.next_offset,
            to_offset=self._to_offset,
            before=self.next_offset - 1 if self._follows_segment else -1,
            log_end=self._log_end,
            is_cut=is_cut,
            log_topic=self._log_topic,
        )
        if self._log_topic is not None:
            return decode_record_set(view, offsets)
        # Only workers decode, so planning does not wait until the compiler is loaded.
        from coordinator_state.log import kernel

        return kernel.decode_record_set(view, offsets, self._sampling)

    # --- a damaged one

    def _take_confirmation(self, damage: CorruptBatch, answer: Answer) -> list[DecodedRecordSet]:
        """Accept the gap before a batch if a fetch of its last offset leads to it."""
        first = self._first_frame(answer.fetched)
        if first is None or not _is_in_damage(damage, answer, first):
            return self._begin_search(damage)
        self._state = _Reading()
        self.next_offset = min(max(first.base_offset, self.next_offset), self._to_offset)
        if self.is_done:
            return []
        return self._decode_found(answer, first)

    def _begin_search(self, damage: CorruptBatch | None = None) -> list[DecodedRecordSet]:
        search = _Search(low=self.next_offset - 1, high=self._log_end, damage=damage)
        self._state, self.fetch_offset = search, search.offset
        return []

    def _take_found(self, search: _Search, answer: Answer) -> list[DecodedRecordSet]:
        frame = self._next_sound_frame(search.damage, answer)
        if frame is None and not answer.is_whole:
            self.needs_more = True
            return []
        search.note(answer, frame)
        if not search.is_over:
            self.fetch_offset = search.offset
            return []
        if search.answer is None or search.frame is None:
            return self._lose_to(self._log_end, search.damage)
        view = memoryview(search.answer.fetched.records)
        lost = self._lose_to(first_offset(view, search.frame), search.damage)
        return lost if self.is_done else lost + self._decode_found(search.answer, search.frame)

    def _next_sound_frame(self, damage: CorruptBatch | None, answer: Answer) -> Frame | None:
        """The first sound batch that reaches the next offset, unless it is in damaged bytes."""
        frames, rest = frame_record_set(
            memoryview(answer.fetched.records),
            Bounds(
                from_offset=self.next_offset,
                to_offset=self.next_offset + 1,
                log_end=self._log_end,
                is_cut=not answer.is_whole,
            ),
        )
        for frame in (*frames, rest.unconfirmed):
            if frame and not frame.damage and frame.last_offset >= self.next_offset:
                return None if _is_in_damage(damage, answer, frame) else frame
        return None

    def _decode_found(self, answer: Answer, frame: Frame) -> list[DecodedRecordSet]:
        """Decode from a sound batch that reaches the next offset, and move past it."""
        self._follows_segment = False
        decoded = self._decoded(answer.fetched, is_cut=not answer.is_whole, start=frame.start)
        self._move(decoded.next_offset, decoded.last_base_offset)
        return [decoded]

    def _lose_to(self, next_offset: int, damage: CorruptBatch | None) -> list[DecodedRecordSet]:
        """The row of the offsets lost before `next_offset`; the cursor moves past them."""
        if next_offset <= self.next_offset:
            return []
        lost = damage or CorruptBatch(
            base_offset=self.next_offset, last_offset=None, size_bytes=0, reason=_NOT_FOUND, raw=b""
        )
        offsets = OffsetRange(
            log_partition=self._log_partition,
            from_offset=self.next_offset,
            to_offset=self._to_offset,
            log_topic=self._log_topic,
        )
        self._move(min(next_offset, self._to_offset))
        return [decode_corrupt_batch(replace(lost, last_offset=next_offset - 1), offsets)]

    def _damaged(self, answer: Answer, rest: Rest) -> CorruptBatch:
        return read_rest(memoryview(answer.fetched.records), rest, self.next_offset)

    def _first_frame(self, fetched: FetchedRecords) -> Frame | None:
        """The first batch of an answer, from its first record; None if it is damaged or cut."""
        view = memoryview(fetched.records)
        try:
            frame = sound_frame(view, 0)
        except CorruptRecordBatch:
            return None
        if frame is None or frame.last_offset >= self._log_end:
            return None
        return frame._replace(base_offset=first_offset(view, frame))


def _is_behind(fetched: FetchedRecords, fetch_offset: int) -> bool:
    """Whether the leader's high watermark lags, as after an election; then the fetch is retried."""
    has_answer = fetched.records or fetched.is_unreadable
    return not has_answer and fetched.high_watermark <= fetch_offset


def _is_in_damage(damage: CorruptBatch | None, answer: Answer, frame: Frame) -> bool:
    """Whether the header of a batch is among damaged bytes."""
    header = bytes(answer.fetched.records[frame.start : frame.end][:BATCH_HEADER_BYTES])
    return damage is not None and header in damage.raw
