"""The offsets at the end of a log without a record, counted in the bytes of its last batches."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from coordinator_state.errors import DecodeError
from coordinator_state.log.record_batch_writer import write_control_batch, write_record_batch
from streaming.kafka.log_tail import LogTail
from tests.support.logs.record_batches import write_message_set

_ABORT, _COMMIT = 0, 1


def tail(
    records: bytes, first: int, end: int, aborted: Sequence[tuple[int, int]] = ()
) -> int | None:
    log_tail = LogTail(first, end)
    log_tail.take(records, aborted)
    return log_tail.offsets


def marker(offset: int, control_type: int = _COMMIT) -> bytes:
    return write_control_batch(offset, 7, 0, control_type)


def of_transaction(offset: int, producer_id: int = 7) -> bytes:
    return write_record_batch(
        offset, [(0, 0, None, b"x")], producer_id=producer_id, is_transactional=True
    )


def test_markers_that_are_cut_short_are_not_known() -> None:
    two = marker(8) + marker(9)
    assert tail(two, 8, 10) == 2
    assert tail(marker(8) + two[len(marker(8)) :][:50], 8, 10) is None
    assert tail(b"", 8, 10) is None
    record = write_record_batch(9, [(0, 0, None, b"x")])
    assert tail(marker(8) + record, 8, 10) == 0


def test_records_of_aborted_transactions_are_none() -> None:
    raw = of_transaction(8) + of_transaction(9) + marker(10, _ABORT)
    assert tail(raw, 8, 11, [(7, 8)]) == 3
    assert tail(raw, 8, 11) == 1
    # The next transaction of the producer.
    assert tail(raw + of_transaction(11), 8, 12, [(7, 8)]) == 0
    assert tail(raw + of_transaction(11) + marker(12, _ABORT), 8, 13, [(7, 8), (7, 11)]) == 5
    # A transaction of another producer.
    assert tail(of_transaction(8, 9) + raw[len(of_transaction(8)) :], 8, 11, [(7, 9)]) == 2


def test_gaps_of_compaction_are_no_records() -> None:
    empty = write_record_batch(5, [], last_offset_delta=4)
    assert tail(empty, 5, 10) == 5
    # A batch whose last records were removed, and one that begins before the group.
    record = write_record_batch(5, [(0, 0, None, b"x")], last_offset_delta=4)
    assert tail(record, 6, 10) == 4
    assert tail(record, 5, 10) == 4


def test_a_tail_is_read_in_parts() -> None:
    log_tail = LogTail(8, 11)
    log_tail.take(marker(8), [])
    assert (log_tail.next_offset, log_tail.offsets) == (9, None)
    log_tail.take(of_transaction(9), [(7, 9)])
    assert (log_tail.next_offset, log_tail.offsets) == (10, None)
    # An answer may be empty for other reasons.
    log_tail.take_nothing()
    assert log_tail.offsets is None
    log_tail.take_nothing()
    assert log_tail.offsets == 3


def test_the_last_offsets_are_read_first() -> None:
    log_tail = LogTail(1_000, 10_000)
    first = log_tail.next_offset
    assert 9_000 < first < 9_999
    log_tail.take(write_record_batch(first, [(0, 0, None, b"x")]), [])
    log_tail.take(write_record_batch(first + 1, [], last_offset_delta=9_998 - first), [])
    assert log_tail.offsets == 9_999 - first
    # Without a record among them, the offsets before them are read.
    log_tail, begins = LogTail(1_000, 10_000), list[int]()
    for until in (10_000, 9_984, 9_744):
        begin = log_tail.next_offset
        begins.append(begin)
        records = [(0, 0, None, b"x")] if begin == 1_000 else []
        assert log_tail.offsets is None
        log_tail.take(write_record_batch(begin, records, last_offset_delta=until - begin - 1), [])
    assert begins == [9_984, 9_744, 1_000]
    assert log_tail.offsets == 10_000 - 1_001


def test_records_that_are_appended_meanwhile_do_not_count() -> None:
    later = write_record_batch(11, [(0, 0, None, b"x")] * 5)
    assert tail(of_transaction(9) + marker(10) + later, 9, 11) == 1
    assert tail(marker(10) + later, 10, 11) == 1


def test_a_batch_that_does_not_fit_is_fetched_with_more_bytes() -> None:
    log_tail = LogTail(8, 10)
    before = log_tail.fetch_bytes
    log_tail.take(of_transaction(8)[:-1], [(7, 8)])
    assert (log_tail.next_offset, log_tail.fetch_bytes) == (8, 4 * before)


@pytest.mark.parametrize("magic", [0, 1])
def test_messages_from_before_kafka_0_11_are_records(magic: int) -> None:
    message = write_message_set([(8, 1, None, b"x")], magic=magic)
    assert len(message) < len(marker(8))
    assert tail(message, 8, 9) == 0
    assert tail(message[:16], 8, 9) is None
    many = write_message_set([(n, 1, b"k" * 50, b"x") for n in range(8, 12)], magic=magic)
    assert tail(many, 8, 12) == 0


@pytest.mark.parametrize(
    ("position", "damage"),
    [
        (8, (1 << 31).to_bytes(4, "big")),
        (8, bytes(4)),
        (16, b"\x03"),
        (23, b"\xff"),
    ],
)
def test_a_damaged_header_is_an_error_of_its_log(position: int, damage: bytes) -> None:
    damaged = marker(8)[:position] + damage + marker(8)[position + len(damage) :]
    with pytest.raises(DecodeError):
        tail(damaged, 8, 9)
