"""Cursors: the place in a sorted list where the next page of an answer begins.

A cursor holds the sort key of the last row of a page, not a number of rows. Rows that appear or
disappear between two requests therefore neither repeat nor hide others.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from streaming.errors import ConfigurationError

Key: TypeAlias = "tuple[str | int, ...]"
"""The sort key of a row; different rows have different keys."""


class Slice(NamedTuple):
    """The rows of a page, from `start` to `stop`, and the cursor of the next page, if any."""

    start: int
    stop: int
    next_cursor: str | None


def slice_of(keys: Sequence[Key], cursor: str, limit: int) -> Slice:
    """The page behind a cursor in rows with these sorted keys; an empty cursor is the first page.

    >>> first = slice_of([(1,), (2,), (3,)], "", 2)
    >>> first.start, first.stop
    (0, 2)
    >>> slice_of([(1,), (3,)], first.next_cursor, 2)
    Slice(start=1, stop=2, next_cursor=None)

    Raises:
        ConfigurationError: the cursor is not one of these rows.
    """
    start = 0
    if cursor:
        after = read_cursor(cursor, _types(keys))
        start = bisect_right(keys, after) if keys else 0
    stop = min(start + limit, len(keys))
    return Slice(start, stop, write_cursor(keys[stop - 1]) if stop < len(keys) else None)


def page_of(
    rows: Sequence[Any], key: Callable[[Any], Key], cursor: str, limit: int
) -> dict[str, Any]:
    """The fields `items` and `next_cursor` of an answer, from all rows in any order."""
    ordered = sorted(rows, key=key)
    page = slice_of([key(row) for row in ordered], cursor, limit)
    return {"items": ordered[page.start : page.stop], "next_cursor": page.next_cursor}


def write_cursor(key: Key) -> str:
    """A key as URL-safe text."""
    text = json.dumps(key, separators=(",", ":"))
    return urlsafe_b64encode(text.encode()).decode().rstrip("=")


def read_cursor(cursor: str, types: Sequence[type] | None = None) -> Key:
    """The key in a cursor; `types` are those of its parts.

    Raises:
        ConfigurationError: the text is not such a cursor.
    """
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        key = json.loads(urlsafe_b64decode(padded))
    except (ValueError, RecursionError):
        key = None
    is_key = isinstance(key, list) and (
        types is None or [type(part) for part in key] == list(types)
    )
    if not is_key:
        raise ConfigurationError("cursor: this is not the next_cursor of an earlier answer")
    return tuple(key)


def _types(keys: Sequence[Key]) -> Sequence[type] | None:
    return [type(part) for part in keys[0]] if keys else None
