"""The generated files and parts of pages, and their comparison with the files of a checkout.

A page is written by hand. Its generated parts stand between two comments; see `with_parts`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from docsite.api_reference import API_REFERENCE
from docsite.command_line import COMMAND_LINE
from docsite.dbt import dbt_views, described_sources
from docsite.markdown import Parts, with_parts
from docsite.metrics_reference import METRICS_REFERENCE
from docsite.options import OPTIONS
from docsite.record_types import RECORD_TYPE_PARTS
from docsite.scenario_format import SCENARIOS, scenario_schema
from docsite.tables import ALERT, LAG, TABLES
from docsite.words import CAUSES, EVENTS, STATUSES

REPOSITORY: Final = Path(__file__).resolve().parents[1]
FILES: Final[Mapping[str, Callable[[], str]]] = {
    "docs/scenario.schema.json": scenario_schema,
    **dbt_views(),
}
"""Files that are generated as a whole."""
PAGES: Final[Mapping[str, Parts]] = {
    "docs/tables.md": TABLES,
    "docs/command-line.md": COMMAND_LINE,
    "docs/options.md": OPTIONS,
    "docs/api-reference.md": API_REFERENCE,
    "docs/metrics-reference.md": METRICS_REFERENCE,
    "docs/record-types.md": RECORD_TYPE_PARTS,
    "docs/lag.md": LAG,
    "docs/alerts.md": ALERT,
    "docs/scenarios.md": SCENARIOS,
    "docs/status.md": STATUSES,
    "docs/explain.md": CAUSES,
    "docs/events.md": EVENTS,
}
SOURCES: Final = "deploy/dbt/models/sources.yml"


def generated(path: str, repository: Path = REPOSITORY) -> str:
    """The text that a page or a file must have."""
    if path in FILES:
        return FILES[path]()
    text = (repository / path).read_text(encoding="utf-8")
    return described_sources(text) if path == SOURCES else with_parts(text, PAGES[path])


def differing_pages(repository: Path) -> dict[str, str]:
    """The right text of each page or file that differs, or of a file that is missing."""
    text_by_path = {}
    for path in (*FILES, *PAGES, SOURCES):
        text = generated(path, repository)
        file = repository / path
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            text_by_path[path] = text
    return text_by_path
