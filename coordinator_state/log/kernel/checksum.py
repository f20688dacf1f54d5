"""CRC-32C in a compiled loop: for small batches, a library call each would be too slow.

It processes eight bytes at a time: with the instruction of x86 processors (SSE 4.2), elsewhere with
eight tables ("slicing-by-8") of the reflected polynomial.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

import numpy as np
from llvmlite import binding, ir
from numba.core import config, types
from numba.extending import intrinsic

from coordinator_state.log.kernel.numbers import Bytes, Integers, inlined, uint8, word

_POLYNOMIAL: Final = 0x82F63B78
_OTHER_PROCESSORS: Final = ("CPU_NAME", "CPU_FEATURES")
"""Numba settings that make it compile for another processor than this machine's."""
_INSTRUCTION: Final = "llvm.x86.sse42.crc32.64.64"


def crc32c_tables() -> Integers:
    """Return the tables, indexed [number of following bytes, byte]."""
    table = np.arange(256, dtype=np.int64)
    for _ in range(8):
        table = (table >> 1) ^ (table & 1) * _POLYNOMIAL
    tables = [table]
    for _ in range(7):
        tables.append((tables[-1] >> 8) ^ table[tables[-1] & 0xFF])
    return np.stack(tables)


def has_instruction() -> bool:
    """Whether Numba compiles for this machine's processor and it has the instruction."""
    is_for_another = any(getattr(config, name) is not None for name in _OTHER_PROCESSORS)
    return not is_for_another and bool(binding.get_host_cpu_features().get("sse4.2"))


@inlined
def after_word_by_tables(crc: int, bits: int, tables: Integers) -> int:
    """Return the checksum after eight more bytes, given as `bits` in little-endian order."""
    crc ^= bits & 0xFFFFFFFF
    return int(
        tables[7, np.uint64(crc & 0xFF)]
        ^ tables[6, np.uint64(crc >> 8 & 0xFF)]
        ^ tables[5, np.uint64(crc >> 16 & 0xFF)]
        ^ tables[4, np.uint64(crc >> 24)]
        ^ tables[3, np.uint64(bits >> 32 & 0xFF)]
        ^ tables[2, np.uint64(bits >> 40 & 0xFF)]
        ^ tables[1, np.uint64(bits >> 48 & 0xFF)]
        ^ tables[0, np.uint64(bits >> 56 & 0xFF)]
    )


def _after_word_by_instruction(_context: Any, crc: Any, bits: Any, tables: Any) -> Any:
    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        integer = ir.IntType(64)
        kind = ir.FunctionType(integer, [integer, integer])
        instruction = builder.module.globals.get(_INSTRUCTION) or ir.Function(
            builder.module, kind, _INSTRUCTION
        )
        return builder.call(instruction, arguments[:2])

    return types.int64(crc, bits, tables), generate


after_word_by_instruction = cast(
    "Callable[[int, int, Integers], int]", intrinsic(_after_word_by_instruction)
)
_after_word = after_word_by_instruction if has_instruction() else after_word_by_tables


@inlined
def crc32c(data: Bytes, start: int, end: int, tables: Integers) -> int:
    """Return the checksum of the bytes from `start` up to, not including, `end`."""
    crc = 0xFFFFFFFF
    position = start
    while end - position >= 8:
        crc = _after_word(crc, word(data, position), tables)
        position += 8
    while position < end:
        crc = crc >> 8 ^ tables[0, np.uint64((crc ^ uint8(data, position)) & 0xFF)]
        position += 1
    return crc ^ 0xFFFFFFFF
