"""What source files import."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path


@cache
def imported_names(file: Path) -> tuple[str, ...]:
    """The dotted names that a file imports; `from a import b` is `a.b`, which may be a module."""
    names: list[str] = []
    for node in ast.walk(ast.parse(file.read_text(), file)):
        if isinstance(node, ast.Import):
            names += [name.name for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            names += [f"{node.module}.{name.name}" for name in node.names]
    return tuple(names)
