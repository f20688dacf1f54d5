"""Moments in the arguments of an address."""

from __future__ import annotations

from datetime import datetime

from flask import request

from streaming.errors import ConfigurationError
from streaming.tables.as_of import parse_as_of


def moment_of(argument: str) -> datetime | None:
    """The moment of an argument; None if the argument is empty or absent.

    Raises:
        ConfigurationError: the argument is not a time.
    """
    text = request.args.get(argument, "")
    found = parse_as_of(text) if text else None
    if isinstance(found, int):
        raise ConfigurationError(f"{text[:40]} is not a time such as 2026-11-21T03:14:00Z")
    return found
