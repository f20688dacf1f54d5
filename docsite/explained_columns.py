"""Tables of columns in pages that are written by hand: below a heading `Columns of NAME`."""

from __future__ import annotations

import re
from typing import Final

from docsite.markdown import table
from streaming.tables.descriptions import column_description
from streaming.views.definitions import SCHEMAS

_TABLE: Final = re.compile(r"^(## Columns of `(\w+)`\n\n)(?:\|.*\n)+", re.MULTILINE)


def explained_columns(text: str) -> str:
    """The page with the descriptions of `streaming.tables.descriptions` in these tables."""
    return _TABLE.sub(lambda match: f"{match[1]}{_columns(match[2])}\n", text)


def _columns(name: str) -> str:
    rows = [(column, column_description(name, column)) for column in SCHEMAS[name].names]
    return table(["column", "meaning"], rows)
