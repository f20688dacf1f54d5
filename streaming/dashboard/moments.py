"""Moments in the arguments of an address."""

from __future__ import annotations

from datetime import datetime

from flask import request

from streaming.tables.as_of import parse_time


def moment_of(argument: str) -> datetime | None:
    """The moment of an argument; None if the argument is empty or absent.

    Raises:
        ConfigurationError: the argument is not a time.
    """
    text = request.args.get(argument, "")
    return parse_time(text) if text else None


def moment_text(at: datetime, timespec: str = "auto") -> str:
    """A moment in UTC for an address, with a Z: a plus sign would be a space there."""
    return at.isoformat(timespec=timespec).replace("+00:00", "Z")
