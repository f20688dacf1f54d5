"""The compiled decoder of record sets; its rows equal those of `log_decoder.decode_record_set`.

It decodes a record set in windows (`windows`), from the last to the first. So it knows whether a
commit is superseded before it copies strings and builds Arrow columns, and does this only for rows
that are kept.

The loops decode only well-formed OffsetCommits and markers. `log_decoder` decodes everything else
(other record types, doubtful or invalid bytes, message formats 0 and 1), and its rows are merged in
log order.

The decoder trusts headers until it finds a damaged batch. Then it decodes the record set again, in
the pieces that `record_set` finds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Final

import numpy as np
import pyarrow as pa

from coordinator_state.log.commit_sampling import CommitSampling
from coordinator_state.log.kernel import batches, records, rows
from coordinator_state.log.kernel.checksum import crc32c_tables
from coordinator_state.log.kernel.columns import arrow_rows
from coordinator_state.log.kernel.compaction import compact, zones_of
from coordinator_state.log.kernel.keys import (
    KIND_GROUP_RECORD,
    KIND_OTHER_OFFSET,
    KeyedRows,
    mark_superseded,
    no_keys,
)
from coordinator_state.log.kernel.numbers import Bytes, Integers, Mask
from coordinator_state.log.kernel.windows import Damaged, Windows, require_sound
from coordinator_state.log.log_decoder import (
    MAX_TIMESTAMP_MS,
    MIN_TIMESTAMP_MS,
    DecodedRecordSet,
    OffsetRange,
    Row,
    decode_corrupt_batch,
    is_modern_record,
    is_offset,
)
from coordinator_state.log.log_rows import LOG_ROW_SCHEMA
from coordinator_state.log.record import Record
from coordinator_state.log.record_batch import (
    read_batch_header,
    read_frame,
)
from coordinator_state.log.record_set import END_OF_LOG, Frame, Rest, frame_record_set

_CRC_TABLES: Final = crc32c_tables()


def decode_record_set(
    buffer: bytes | memoryview, offsets: OffsetRange, sampling: CommitSampling | None = None
) -> DecodedRecordSet:
    """Decode the records of a range of record offsets, in log order."""
    view = memoryview(buffer)
    try:
        return _RecordSetDecoder(view, offsets, sampling).decode()
    except Damaged:
        frames, rest = frame_record_set(view, offsets)
        return _decode_frames(view, frames, rest, offsets, sampling)


def _decode_frames(
    view: memoryview,
    frames: list[Frame],
    rest: Rest,
    offsets: OffsetRange,
    sampling: CommitSampling | None,
) -> DecodedRecordSet:
    pieces: list[DecodedRecordSet] = []
    # The frames are sound, so nothing has to be known of the log around them.
    within = replace(offsets, before=-1, log_end=END_OF_LOG, is_cut=False)
    for is_damaged, run in groupby(frames, key=lambda frame: bool(frame.damage)):
        run_frames = list(run)
        if is_damaged:
            pieces += (
                decode_corrupt_batch(read_frame(view, frame), offsets) for frame in run_frames
            )
        else:
            sound = view[run_frames[0].start : run_frames[-1].end]
            pieces.append(_RecordSetDecoder(sound, within, sampling).decode())
    rows_found = _one_batch([piece.rows for piece in pieces])
    if sampling is not None:
        rows_found, _ = compact(rows_found, sampling)
    records_read = sum(piece.records_read for piece in pieces)
    return DecodedRecordSet(
        rows=rows_found,
        next_offset=max((piece.next_offset for piece in pieces), default=offsets.from_offset),
        last_base_offset=frames[-1].base_offset if frames else -1,
        records_read=records_read,
        records_superseded=records_read - rows_found.num_rows,
        bytes_read=sum(piece.bytes_read for piece in pieces),
        rest=rest,
    )


class _RecordSetDecoder:
    """One pass over a record set; it makes pieces of rows from the last to the first."""

    def __init__(
        self, view: memoryview, offsets: OffsetRange, sampling: CommitSampling | None
    ) -> None:
        self._offsets = offsets
        self._sampling = sampling
        self._windows = Windows(view, offsets, is_compacting=sampling is not None)
        self._table = self._windows.table
        self._records: Integers = np.empty((records.RECORD_COLUMNS, 0), dtype=np.int64)
        self._keys, self._groups = no_keys(), no_keys()
        self._barriers = 0
        self._pieces: list[pa.RecordBatch] = []
        self._records_read = 0
        self._bytes_read = 0
        self._needs_final_compaction = False

    def decode(self) -> DecodedRecordSet:
        """Decode the record set.

        Raises:
            Damaged: a batch is not sound.
        """
        windows: list[batches.Place] = []
        count, place, has_more = 0, (0, -1, self._offsets.before, False), True
        while has_more:
            windows.append(place)
            count, place, bytes_read, has_more = self._windows.index(place)
            self._bytes_read += bytes_read
        rest = self._windows.rest(place)
        self._decode_window(count)
        for window in reversed(windows[:-1]):
            count, *_ = self._windows.index(window)
            self._decode_window(count)
        return self._result(place, rest)

    def _decode_window(self, count: int) -> None:
        last = count
        while last > 0:
            arena, first = self._windows.fill_arena(last)
            self._decode_batches(arena, first, last)
            last = first

    def _decode_batches(self, arena: Bytes, first: int, last: int) -> None:
        most_records = int(self._table[batches.MOST_ROWS, first:last].sum())
        if most_records > self._records.shape[1]:
            self._records = np.empty((records.RECORD_COLUMNS, most_records), dtype=np.int64)
        count = records.index_records(
            arena,
            _CRC_TABLES,
            self._offsets.from_offset,
            self._offsets.to_offset,
            self._table,
            first,
            last,
            self._records,
            np.empty((rows.ROW_COLUMNS, 1), dtype=np.int64),
        )
        record_table = self._records[:, :count]
        is_kept = record_table[records.RECORD_KIND] <= KIND_OTHER_OFFSET
        self._records_read += int(np.count_nonzero(is_kept))
        fallback = self._read_by_fallback(arena, record_table, np.flatnonzero(~is_kept))
        if self._sampling is not None:
            is_kept &= ~self._superseded(arena, record_table, fallback, self._sampling)
        kept = np.flatnonzero(is_kept)
        piece = arrow_rows(
            arena, self._table, self._rows(arena, record_table, kept), self._offsets.log_partition
        )
        if fallback:
            piece = self._with_fallback(piece, kept, fallback)
        self._add_piece(piece)

    def _rows(self, arena: Bytes, record_table: Integers, places: Integers) -> Integers:
        """Decode all columns of the records at these places."""
        decoded = np.empty((rows.ROW_COLUMNS, len(places)), dtype=np.int64)
        rows.decode_rows(
            arena,
            self._table,
            record_table[records.RECORD_POSITION, places],
            record_table[records.RECORD_BATCH, places],
            decoded,
        )
        return decoded

    def _superseded(
        self,
        arena: Bytes,
        record_table: Integers,
        fallback: Mapping[int, Sequence[Row]],
        sampling: CommitSampling,
    ) -> Mask:
        kinds = record_table[records.RECORD_KIND]
        barriers = np.full(record_table.shape[1], self._barriers, dtype=np.int64)
        for place, rows_there in fallback.items():
            has_records = any(map(is_modern_record, rows_there))
            if has_records and kinds[place] == records.KIND_FALLBACK_RECORD:
                kinds[place] = KIND_GROUP_RECORD
            elif has_records or any(map(is_offset, rows_there)):
                barriers[:place] += 1
                self._barriers += 1
                self._needs_final_compaction = True
        is_superseded = np.zeros(record_table.shape[1], dtype=np.bool_)
        self._keys, self._groups = mark_superseded(
            KeyedRows(
                arena,
                record_table[records.RECORD_KEY_POSITION],
                record_table[records.RECORD_KEY_LENGTH],
                kinds,
                record_table[records.RECORD_COMMITTED_OFFSET],
                np.clip(record_table[records.RECORD_TIMESTAMP], MIN_TIMESTAMP_MS, MAX_TIMESTAMP_MS),
                barriers,
                zones_of(sampling),
            ),
            is_superseded,
            self._keys,
            self._groups,
        )
        return is_superseded

    def _with_fallback(
        self, decoded: pa.RecordBatch, places: Integers, fallback: Mapping[int, Sequence[Row]]
    ) -> pa.RecordBatch:
        """Merge the rows of `log_decoder` into the decoded rows, in log order."""
        fallback_places = [place for place, rows_there in fallback.items() for _ in rows_there]
        fallback_rows = [row for rows_there in fallback.values() for row in rows_there]
        all_places = np.concatenate([places, np.array(fallback_places, dtype=np.int64)])
        order = np.argsort(all_places, kind="stable")
        return _one_batch([decoded, self._fallback_piece(fallback_rows)]).take(pa.array(order))

    def _read_by_fallback(
        self, arena: Bytes, record_table: Integers, places: Integers
    ) -> dict[int, list[Row]]:
        """Decode the records and batches at these places with `log_decoder`."""
        is_batch = record_table[records.RECORD_KIND, places] == records.KIND_FALLBACK_BATCH
        decoded = self._rows(arena, record_table, places[~is_batch])
        of_records = dict(zip(places[~is_batch].tolist(), decoded.T.tolist(), strict=True))
        return {
            place: [self._row_of(arena, of_records[place])]
            if place in of_records
            else list(self._rows_of_batch(arena, int(record_table[records.RECORD_BATCH, place])))
            for place in places.tolist()
        }

    def _row_of(self, arena: Bytes, row: list[int]) -> Row:
        record = Record(
            record_offset=row[rows.OFFSET],
            timestamp_ms=row[rows.TIMESTAMP],
            key=_bytes_at(arena, row[rows.KEY_POSITION], row[rows.KEY_LENGTH]),
            value=_bytes_at(arena, row[rows.VALUE_POSITION], row[rows.VALUE_LENGTH]),
        )
        batch = self._windows.batch(arena, row[rows.BATCH])
        return self._offsets.row_of(read_batch_header(batch), record)

    def _rows_of_batch(self, arena: Bytes, index: int) -> Iterator[Row]:
        raw = self._windows.batch(arena, index)
        batch = read_frame(raw, require_sound(raw))
        if self._offsets.overlaps(batch):
            is_counted = self._table[batches.ROUTE, index] != batches.ROUTE_FALLBACK
            self._bytes_read += 0 if is_counted else batch.size_bytes
            yield from self._offsets.rows_of(batch)

    def _fallback_piece(self, fallback: list[Row]) -> pa.RecordBatch:
        self._records_read += len(fallback)
        self._needs_final_compaction |= any(map(is_offset, fallback))
        return pa.RecordBatch.from_pylist(fallback, schema=LOG_ROW_SCHEMA)

    def _add_piece(self, piece: pa.RecordBatch) -> None:
        if piece.num_rows:
            self._pieces.append(piece)

    def _result(self, place: batches.Place, rest: Rest) -> DecodedRecordSet:
        _, base_offset, last_offset, _ = place
        all_rows = _one_batch(self._pieces[::-1])
        # Each window kept the first commit of each key. Commits from `log_decoder` were not among
        # the keys, and the groups of records in its batches were unknown.
        if self._sampling is not None and (self._needs_final_compaction or len(self._pieces) > 1):
            all_rows, _ = compact(all_rows, self._sampling)
        return DecodedRecordSet(
            rows=all_rows,
            next_offset=max(
                self._offsets.from_offset, min(last_offset + 1, self._offsets.to_offset)
            ),
            last_base_offset=base_offset,
            records_read=self._records_read,
            records_superseded=self._records_read - all_rows.num_rows,
            bytes_read=self._bytes_read,
            rest=rest,
        )


def _one_batch(pieces: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(pieces) == 1:
        return pieces[0]
    chunks = pa.Table.from_batches(pieces, schema=LOG_ROW_SCHEMA).combine_chunks().to_batches()
    return chunks[0] if chunks else pa.RecordBatch.from_pylist([], schema=LOG_ROW_SCHEMA)


def _bytes_at(arena: Bytes, position: int, length: int) -> bytes | None:
    return None if length < 0 else arena[position : position + length].tobytes()
