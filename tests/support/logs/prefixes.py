"""Every vector runs three ways: whole, cut at every byte, and with a byte behind it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest

from coordinator_state.errors import BufferUnderflow, DecodeError

T = TypeVar("T")


def assert_no_prefix_is_enough(
    decode: Callable[[bytes], T], raw: bytes, error: type[DecodeError] = BufferUnderflow
) -> None:
    """A decoder refuses every strict prefix of what it accepts."""
    for length in range(len(raw)):
        with pytest.raises(error):
            decode(raw[:length])
