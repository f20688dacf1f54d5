"""The iteration order of a Java HashMap. Some decisions of a coordinator depend on it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeVar
from uuid import UUID

from coordinator_state.replay.partitioner import java_hash_code

_LEAST_BUCKETS: Final = 16
_MASK: Final = 0xFFFFFFFF

K = TypeVar("K", str, UUID, int)


def in_hash_order(keys: Iterable[K]) -> list[K]:
    """Sort keys by their bucket in a map of just these keys. Keys of one bucket keep their order.

    The number of buckets is that of a map that grew key by key. Before JDK 19, the copy of a set of
    exactly 12, 24, 48, ... elements has twice as many buckets.
    """
    known = list(keys)
    buckets = _LEAST_BUCKETS
    while len(known) > buckets * 3 // 4:
        buckets *= 2
    return sorted(known, key=lambda key: _spread(key) % buckets)


def _spread(key: str | UUID | int) -> int:
    if isinstance(key, str):
        hashed = java_hash_code(key) & _MASK
    elif isinstance(key, int):
        hashed = key
    else:
        folded = (key.int >> 64) ^ (key.int & ((1 << 64) - 1))
        hashed = (folded >> 32) ^ (folded & _MASK)
    return hashed ^ hashed >> 16
