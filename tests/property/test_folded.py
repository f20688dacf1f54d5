"""Names in any case: Arrow's fast path folds as Python does."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from streaming.served.folded import folded
from streaming.served.group_filter import having_part

NAMES = st.lists(st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=9))


@example(["STRASSE", "Straße", "İ", None, ""])
@given(NAMES)
def test_names_are_folded_as_python_does(names: list[str | None]) -> None:
    wanted = [None if name is None else name.casefold() for name in names]
    for column in (
        pa.array(names, pa.string()),
        pa.chunked_array([names[:2], names[2:]], pa.string()),
    ):
        assert folded(column).to_pylist() == wanted


@given(
    NAMES.map(lambda names: [name for name in names if name is not None]),
    st.text("aAßsİi", max_size=2),
)
def test_a_part_is_found_in_any_case(names: list[str], part: str) -> None:
    wanted = [part.casefold() in name.casefold() for name in names]
    assert having_part(pa.array(names, pa.string()), part).tolist() == wanted
