"""The generated pages by path, and the comparison with the files of a checkout."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from docsite.api_reference import api_reference
from docsite.command_line import command_line
from docsite.dbt import dbt_views, described_sources
from docsite.metrics_reference import metrics_reference
from docsite.options import options
from docsite.record_types import record_types
from docsite.scenario_format import scenario_keys, scenario_schema
from docsite.tables import explained_columns, tables

REPOSITORY: Final = Path(__file__).resolve().parents[1]
PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "docs/tables.md": tables,
    "docs/command-line.md": command_line,
    "docs/options.md": options,
    "docs/api-reference.md": api_reference,
    "docs/metrics-reference.md": metrics_reference,
    "docs/record-types.md": record_types,
    "docs/scenario.schema.json": scenario_schema,
    **dbt_views(),
}
"""Pages and files that are generated as a whole."""
PARTS: Final[Mapping[str, Callable[[str], str]]] = {
    "docs/lag.md": explained_columns,
    "docs/alerts.md": explained_columns,
    "docs/scenarios.md": scenario_keys,
    "deploy/dbt/models/sources.yml": described_sources,
}
"""Files with generated parts: a function of their text."""


def generated(path: str, repository: Path = REPOSITORY) -> str:
    """The text that a page or a file must have."""
    if path in PAGES:
        return PAGES[path]()
    return PARTS[path]((repository / path).read_text(encoding="utf-8"))


def differing_pages(repository: Path) -> dict[str, str]:
    """The right text of each page that differs or is missing."""
    text_by_path = {}
    for path in (*PAGES, *PARTS):
        text = generated(path, repository)
        file = repository / path
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            text_by_path[path] = text
    return text_by_path
