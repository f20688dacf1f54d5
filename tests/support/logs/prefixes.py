"""Every vector runs three ways: whole, cut at every byte, and with a byte behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest

from coordinator_state.errors import BufferUnderflow, DecodeError

T = TypeVar("T")


def strict_prefixes(raw: bytes) -> Iterator[bytes]:
    """The beginnings of `raw`, from nothing to all but its last byte."""
    return (raw[:length] for length in range(len(raw)))


def assert_no_prefix_is_enough(
    decode: Callable[[bytes], T], raw: bytes, error: type[DecodeError] = BufferUnderflow
) -> None:
    """A decoder refuses every strict prefix of what it accepts."""
    for prefix in strict_prefixes(raw):
        with pytest.raises(error):
            decode(prefix)
