"""The limit of answers that read much history: pages and API share it."""

from __future__ import annotations

from typing import Final

from streaming.views.sql.slots import Slots

COSTLY_AT_ONCE: Final = 2
MAX_WAITING: Final = 4
_WAIT_S: Final = 10.0


def costly_slots() -> Slots:
    """Slots for answers of past moments, of events and of causes."""
    return Slots("costly answers", COSTLY_AT_ONCE, waiting=MAX_WAITING, wait_s=_WAIT_S)
