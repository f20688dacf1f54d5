"""CRC-32C in a compiled loop: batches may be too small for a call into a library each.

Eight bytes at a time by eight tables ("slicing-by-8"), the polynomial reflected.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from coordinator_state.kernel.numbers import Bytes, Integers, inlined, uint8

_POLYNOMIAL: Final = 0x82F63B78


def crc32c_tables() -> Integers:
    """The tables, [how many bytes further on, byte]."""
    table = np.arange(256, dtype=np.int64)
    for _ in range(8):
        table = (table >> 1) ^ (table & 1) * _POLYNOMIAL
    tables = [table]
    for _ in range(7):
        tables.append((tables[-1] >> 8) ^ table[tables[-1] & 0xFF])
    return np.stack(tables)


@inlined
def crc32c(data: Bytes, start: int, end: int, tables: Integers) -> int:
    """The checksum of the bytes from `start` to before `end`."""
    crc = 0xFFFFFFFF
    position = start
    while end - position >= 8:
        crc ^= (
            uint8(data, position)
            | uint8(data, position + 1) << 8
            | uint8(data, position + 2) << 16
            | uint8(data, position + 3) << 24
        )
        crc = (
            tables[7, np.uint64(crc & 0xFF)]
            ^ tables[6, np.uint64(crc >> 8 & 0xFF)]
            ^ tables[5, np.uint64(crc >> 16 & 0xFF)]
            ^ tables[4, np.uint64(crc >> 24)]
            ^ tables[3, np.uint64(uint8(data, position + 4))]
            ^ tables[2, np.uint64(uint8(data, position + 5))]
            ^ tables[1, np.uint64(uint8(data, position + 6))]
            ^ tables[0, np.uint64(uint8(data, position + 7))]
        )
        position += 8
    while position < end:
        crc = crc >> 8 ^ tables[0, np.uint64((crc ^ uint8(data, position)) & 0xFF)]
        position += 1
    return crc ^ 0xFFFFFFFF
