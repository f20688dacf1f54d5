"""deploy/dbt/models/sources.yml: the descriptions of tables and columns in it."""

from __future__ import annotations

import json
import re
from typing import Final

from streaming.tables.descriptions import column_description, table_description

_NAME: Final = re.compile(r"^(?P<indent> +)- name: (?P<name>\w+)$")
_DESCRIPTION: Final = re.compile(r"^(?P<indent> +)description: ")
_NOT_PLAIN: Final = re.compile(r"^[\W\d_]|: | #")
_TABLE, _COLUMN = 6, 10
"""Spaces before the dash of a table and of a column."""


def described_sources(text: str) -> str:
    """The file with the descriptions of `streaming.tables.descriptions`."""
    lines = []
    table = column = ""
    for line in text.splitlines():
        named = _NAME.match(line)
        described = _DESCRIPTION.match(line)
        if named and len(named["indent"]) == _TABLE:
            table, column = named["name"], ""
        elif named and len(named["indent"]) == _COLUMN:
            column = named["name"]
        elif described and len(described["indent"]) > _TABLE:
            description = column_description(table, column) if column else table_description(table)
            line = f"{described['indent']}description: {scalar(description)}"
        lines.append(line)
    return "\n".join(lines) + "\n"


def scalar(text: str) -> str:
    """Text as a scalar of YAML; JSON is YAML."""
    return json.dumps(text, ensure_ascii=False) if _NOT_PLAIN.search(text) else text
