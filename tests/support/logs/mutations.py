"""Damaged records: bits flipped, cut off, filled with pieces of others, lengths made huge."""

from __future__ import annotations

import random
from functools import cache

from coordinator_state.log.record_batch_writer import write_record_batch
from tests.support.logs.random_logs import RandomEvents

_SAMPLES = 500
_HUGE = tuple(map(bytes.fromhex, ("7fffffff", "ffffffff", "7fff", "ffffffff0f", "8080808080")))

Bytes = bytes | None


@cache
def _samples() -> list[tuple[Bytes, Bytes]]:
    """Keys and values of sound records of every type."""
    draws, choose = RandomEvents(), random.Random(1)
    drawn = (draws.draw(choose.randrange(1 << 32)) for _ in range(_SAMPLES))
    events = [event for events in drawn for event in events]
    return [(event.key, event.value) for event in events if event.control_type is None]


class Mutations:
    """Draws damaged records."""

    def __init__(self, seed: int) -> None:
        self._choose = random.Random(seed)
        self._samples = _samples()
        self._pieces = [raw for sample in self._samples for raw in sample if raw]

    def record(self) -> tuple[Bytes, Bytes]:
        """A key and a value, one of them damaged, or both."""
        key, value = self._choose.choice(self._samples)
        which = self._choose.randrange(4)
        if which in (0, 3):
            key = self.damaged(key)
        if which in (1, 2, 3):
            value = self.damaged(value)
        return key, value

    def batch(self, first: int, records: int) -> bytes:
        """A sound record batch of damaged records."""
        numbered = [(n, 1_700_000_000_000 + n, *self.record()) for n in range(records)]
        return write_record_batch(first, numbered)

    def damaged(self, raw: Bytes) -> Bytes:
        if not raw:
            return self._choose.choice([None, b"", b"\x00"])
        for _ in range(self._choose.choice([1, 1, 1, 2, 5])):
            raw = self._damaged_once(raw)
        return raw

    def _damaged_once(self, raw: bytes) -> bytes:
        choose = self._choose
        at = choose.randrange(len(raw) + 1)
        kind = choose.randrange(4)
        if kind == 0:
            position = min(at, len(raw) - 1)
            if position < 0:
                return raw
            flipped = bytearray(raw)
            flipped[position] ^= 1 << choose.randrange(8)
            return bytes(flipped)
        if kind == 1:
            return raw[:at]
        if kind == 2:
            piece = choose.choice(self._pieces)
            start = choose.randrange(len(piece) + 1)
            end = choose.randrange(start, len(piece) + 1)
            return raw[:at] + piece[start:end] + raw[at + choose.choice([0, end - start]) :]
        huge = choose.choice(_HUGE)
        return raw[:at] + huge + raw[at + len(huge) :]
