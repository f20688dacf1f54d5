"""deploy/dbt/models/views/: the views that are a SELECT over the tables, as models of dbt."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from textwrap import dedent
from typing import Final

from docsite.dbt_sources import scalar
from streaming.tables.descriptions import column_description, table_description
from streaming.tables.schemas import ALL_TABLES
from streaming.views.definitions import SELECTS, VIEWS

_FOLDER: Final = "deploy/dbt/models/views"
_NAMES: Final = "|".join(table.name for table in ALL_TABLES)
_RELATION: Final = re.compile(rf"\b(FROM|JOIN) ({_NAMES})\b")
_MACRO: Final = re.compile(r"\b(moment|offsets_retention)\(\)")


def dbt_views() -> Mapping[str, Callable[[], str]]:
    """The files by path, and the text of each."""
    models = {f"{_FOLDER}/{view}.sql": partial(_model, select) for view, select in SELECTS.items()}
    return {**models, f"{_FOLDER}/views.yml": _descriptions}


def _model(select: str) -> str:
    text = _RELATION.sub(r"\1 {{ source('coordinator_state', '\2') }}", dedent(select).strip())
    return _MACRO.sub(r"{{ \1() }}", text) + "\n"


def _descriptions() -> str:
    lines = ["models:"]
    for view in SELECTS:
        lines += [f"  - name: {view}", f"    description: {scalar(table_description(view))}"]
        lines.append("    columns:")
        for column in VIEWS[view].names:
            description = scalar(column_description(view, column))
            lines += [f"      - name: {column}", f"        description: {description}"]
    return "\n".join(lines) + "\n"
