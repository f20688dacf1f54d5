"""Cursors: rows that come and go between two pages neither repeat nor hide others."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streaming.api.cursors import read_cursor, slice_of, write_cursor

KEYS = st.tuples(st.text(max_size=3), st.integers(-(2**40), 2**40))


@given(KEYS)
def test_a_cursor_is_its_key(key: tuple[str, int]) -> None:
    assert read_cursor(write_cursor(key), [str, int]) == key


@given(st.sets(KEYS, max_size=20), st.lists(st.sets(KEYS, max_size=3)), st.integers(1, 5))
def test_what_stays_is_seen_once(
    stays: set[tuple[str, int]], comes_and_goes: list[set[tuple[str, int]]], limit: int
) -> None:
    seen: list[tuple[str | int, ...]] = []
    cursor: str | None = ""
    others = iter(comes_and_goes)
    while cursor is not None:
        keys = sorted(stays | next(others, set()))
        page = slice_of(keys, cursor, limit)
        seen += keys[page.start : page.stop]
        cursor = page.next_cursor
    assert len(seen) == len(set(seen))
    assert stays <= set(seen)
