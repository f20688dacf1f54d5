"""Names for a comparison in any case."""

from __future__ import annotations

from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

Names: TypeAlias = "pa.Array | pa.ChunkedArray"


def folded(names: Names) -> pa.Array:
    """`str.casefold` of each name; null stays null.

    Arrow folds names in ASCII. The others go through Python, because Arrow has no case folding:
    its `utf8_lower` leaves the `ß` that `casefold` makes `ss`.
    """
    if isinstance(names, pa.ChunkedArray):
        names = names.combine_chunks()
    found = pc.ascii_lower(names)
    is_other = pc.invert(pc.string_is_ascii(names)).fill_null(False)
    others = names.filter(is_other).to_pylist()
    if not others:
        return found
    return pc.replace_with_mask(found, is_other, pa.array([one.casefold() for one in others]))
