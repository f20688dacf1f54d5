"""The log of the `run` of a scenario, which has a line for each micro-batch in virtual time."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

_LOGGER = logging.getLogger("streaming")


@contextmanager
def quiet_run() -> Iterator[None]:
    """Log warnings only."""
    level = _LOGGER.level
    _LOGGER.setLevel(logging.WARNING)
    try:
        yield
    finally:
        _LOGGER.setLevel(level)
