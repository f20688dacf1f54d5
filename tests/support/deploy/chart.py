"""The Helm chart in deploy/helm, its user, and the command lines of its containers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click

from tests.support.clients.command_line import COMMANDS

CHART: Final = Path(__file__).parents[3] / "deploy" / "helm"
USER: Final = 1000
"""The user of the image and of the pods."""


def parameters(command: Sequence[str]) -> dict[str, Any]:
    """The parameters of a container's command line, as the program's own parser reads them."""
    name, *words = command
    if isinstance(COMMANDS[name], click.Group):
        name = f"{name} {words.pop(0)}"
    with COMMANDS[name].make_context(name, words) as context:
        return context.params
