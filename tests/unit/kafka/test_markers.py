"""The transaction markers at the end of a log, counted in the bytes of its last batches."""

from __future__ import annotations

import pytest

from coordinator_state.errors import DecodeError
from coordinator_state.log.message_set import write_message_set
from coordinator_state.log.record_batch_writer import write_control_batch, write_record_batch
from streaming.kafka.log_offsets import _markers


def test_markers_that_are_cut_short_are_not_known() -> None:
    marker = write_control_batch(8, 7, 0, 1)
    two = marker + write_control_batch(9, 7, 0, 1)
    assert _markers(two, 8, 10) == 2
    assert _markers(two[:-1], 8, 10) == 2
    assert _markers(marker + two[len(marker) :][:50], 8, 10) is None
    assert _markers(b"", 8, 10) is None
    record = write_record_batch(9, [(0, 0, None, b"x")])
    assert _markers(marker + record, 8, 10) == 0


@pytest.mark.parametrize("magic", [0, 1])
def test_messages_from_before_kafka_0_11_are_no_markers(magic: int) -> None:
    message = write_message_set([(8, 1, None, b"x")], magic=magic)
    assert len(message) < len(write_control_batch(8, 7, 0, 1))
    assert _markers(message, 8, 9) == 0
    assert _markers(message[:16], 8, 9) is None
    many = write_message_set([(n, 1, b"k" * 50, b"x") for n in range(8, 12)], magic=magic)
    assert _markers(many, 8, 12) == 0


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
    marker = write_control_batch(8, 7, 0, 1)
    damaged = marker[:position] + damage + marker[position + len(damage) :]
    with pytest.raises(DecodeError):
        _markers(damaged, 8, 9)
