"""Cursors: the place in a list where the next page of an answer begins.

A cursor holds the key of the last row of a page, not a number of rows. Rows that appear or
disappear between two requests therefore neither repeat nor hide others.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from streaming.errors import ConfigurationError
from streaming.served.snapshot import ServedSnapshot
from streaming.views.list_query import Key, ListQuery


def page_of(snapshot: ServedSnapshot, query: ListQuery, cursor: str, limit: int) -> dict[str, Any]:
    """The fields `items` and `next_cursor` of an answer that selects from a list.

    Raises:
        ConfigurationError: the cursor is not one of this list.
    """
    page = snapshot.behind(query, read_cursor(cursor, query.key.values()), limit)
    next_cursor = write_cursor(page.keys[-1]) if page.has_more else None
    return {"items": page.rows, "next_cursor": next_cursor}


def page_of_rows(
    rows: Iterable[Any], key: Callable[[Any], Key], types: Iterable[type], cursor: str, limit: int
) -> dict[str, Any]:
    """The same fields, from all rows in any order."""
    last = read_cursor(cursor, types)
    behind = sorted((row for row in rows if last is None or key(row) > last), key=key)
    items = behind[:limit]
    next_cursor = write_cursor(key(items[-1])) if len(behind) > limit else None
    return {"items": items, "next_cursor": next_cursor}


def write_cursor(key: Key) -> str:
    """A key as URL-safe text."""
    text = json.dumps(key, separators=(",", ":"))
    return urlsafe_b64encode(text.encode()).decode().rstrip("=")


def read_cursor(cursor: str, types: Iterable[type]) -> Key | None:
    """The key in a cursor; None for the first page, whose cursor is empty.

    Args:
        cursor: the text.
        types: those of the parts of the key; integers have 64 bits.

    Raises:
        ConfigurationError: the text is not such a cursor.
    """
    if not cursor:
        return None
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        key = json.loads(urlsafe_b64decode(padded))
    except (ValueError, RecursionError):
        key = None
    if not isinstance(key, list) or not _is_key(key, [*types]):
        raise ConfigurationError("cursor: this is not the next_cursor of an earlier answer")
    return tuple(key)


def _is_key(parts: Sequence[Any], types: Sequence[type]) -> bool:
    has_types = [type(part) for part in parts] == types
    return has_types and all(abs(part) < 1 << 63 for part in parts if isinstance(part, int))
