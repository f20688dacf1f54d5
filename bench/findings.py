"""What a bench found, by name, in a file that `bench.report` reads."""

from __future__ import annotations

import json
from pathlib import Path

import click

findings_option = click.option(
    "--findings",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write what was measured into this file, as JSON.",
)


def write_findings(file: Path | None, **figures: float | None) -> None:
    """Write the figures, None for what was not measured; no file, nothing."""
    if file is not None:
        file.write_text(json.dumps(figures, indent=2) + "\n")
