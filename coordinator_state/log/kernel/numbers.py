"""Integers and varints in byte arrays, for the compiled loops of this package.

Positions are int64, and `uint8` reads bytes. The functions here are inlined into loops of other
files. Cached in `__pycache__`, such a loop becomes stale if only this file changes: Numba checks
only the loop's own file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

import numba
import numpy as np
import numpy.typing as npt

from coordinator_state.log.kernel.loop_cache import use_cache

Function = TypeVar("Function", bound=Callable[..., Any])
Bytes = npt.NDArray[np.uint8]
Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

LOOPS: Final[list[Any]] = []
"""The loops of the imported modules, in the order of their definition."""


def compiled(function: Function) -> Function:
    """Compile a loop that Python calls, and cache the result between processes (`use_cache`).

    If no cache folder is writable, every process compiles the loop itself.
    """
    loop: Any = numba.njit(nogil=True)(function)
    use_cache(loop)
    LOOPS.append(loop)
    return cast("Function", loop)


def inlined(function: Function) -> Function:
    """Compile a function that is inlined into other loops.

    A call would cost more than its work: arrays are passed in eight parts and reference-counted.
    """
    return cast("Function", numba.njit(nogil=True, forceinline=True)(function))


def read_only(array: npt.NDArray[np.uint8]) -> Bytes:
    """Make an array read-only: Numba would compile a second variant for writable arrays."""
    array.flags.writeable = False
    return array


@inlined
def uint8(data: Bytes, position: int) -> int:
    """Read a byte at an unsigned position: Numba's check for negative indexes costs more time."""
    return int(np.int64(data[np.uint64(position)]))


@inlined
def int16(data: Bytes, position: int) -> int:
    """Read two bytes, signed, big-endian."""
    return int(np.int64(np.int8(data[np.uint64(position)]))) << 8 | uint8(data, position + 1)


@inlined
def int32(data: Bytes, position: int) -> int:
    """Read four bytes, signed, big-endian."""
    return int16(data, position) << 16 | uint8(data, position + 2) << 8 | uint8(data, position + 3)


@inlined
def int64(data: Bytes, position: int) -> int:
    """Read eight bytes, signed, big-endian."""
    return int32(data, position) << 32 | (int32(data, position + 4) & 0xFFFFFFFF)


@inlined
def word(data: Bytes, position: int) -> int:
    """Read eight bytes, little-endian, which a processor loads with one instruction."""
    return (
        uint8(data, position)
        | uint8(data, position + 1) << 8
        | uint8(data, position + 2) << 16
        | uint8(data, position + 3) << 24
        | uint8(data, position + 4) << 32
        | uint8(data, position + 5) << 40
        | uint8(data, position + 6) << 48
        | uint8(data, position + 7) << 56
    )


@inlined
def varint_bits(data: Bytes, position: int, end: int, most_bytes: int) -> tuple[int, int]:
    """Read the bits of a varint and the position after it; -1 if it is incomplete or too long."""
    bits = 0
    for shift in range(0, 7 * most_bytes, 7):
        if position >= end:
            return 0, -1
        byte = uint8(data, position)
        position += 1
        bits |= (byte & 0x7F) << shift
        if byte < 0x80:
            return bits, position
    return 0, -1


@inlined
def unsigned_varint(data: Bytes, position: int, end: int) -> tuple[int, int]:
    """Read at most five bytes, modulo 2^32."""
    bits, position = varint_bits(data, position, end, 5)
    return bits & 0xFFFFFFFF, position


@inlined
def varint(data: Bytes, position: int, end: int) -> tuple[int, int]:
    """Read a zigzag int32."""
    bits, position = unsigned_varint(data, position, end)
    return (bits >> 1) ^ -(bits & 1), position


@inlined
def varlong(data: Bytes, position: int, end: int) -> tuple[int, int]:
    """Read a zigzag int64."""
    bits, position = varint_bits(data, position, end, 10)
    return ((bits >> 1) & 0x7FFFFFFFFFFFFFFF) ^ -(bits & 1), position


@inlined
def copy_bytes(data: Bytes, position: int, length: int, out: Bytes, target: int) -> int:
    """Copy bytes; return the position after the copy."""
    for index in range(length):
        out[np.uint64(target + index)] = data[np.uint64(position + index)]
    return target + length
