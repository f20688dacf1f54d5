"""A test can be read, run and moved alone: it imports no other test, and not the benches."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path


def test_only_its_own_tests_import_bench(repository: Path) -> None:
    wrong = [
        f"{importer}: {imported}"
        for importer, imported in imports_of(repository, "tests")
        if is_in(imported, "bench") and not is_in(importer, "tests.bench")
    ]
    assert not wrong


def test_no_test_is_imported(repository: Path) -> None:
    """Nor a conftest.py: pytest has imported it already, and a second import is a second module."""
    wrong = [
        f"{importer}: {imported}"
        for package in ("tests", "bench")
        for importer, imported in imports_of(repository, package)
        if is_in(imported, "tests") and is_test_module(imported)
    ]
    assert not wrong


def test_helpers_import_helpers_only(repository: Path) -> None:
    wrong = [
        f"{importer}: {imported}"
        for package in ("tests.support", "bench")
        for importer, imported in imports_of(repository, package)
        if is_in(imported, "tests") and not is_in(imported, "tests.support")
    ]
    assert not wrong


def imports_of(repository: Path, package: str) -> Iterator[tuple[str, str]]:
    """The name of each module below a package, and the name of each module that it imports.

    `from a import b` counts as `a.b`, which may be a module.
    """
    files = sorted((repository / package.replace(".", "/")).rglob("*.py"))
    assert files
    for file in files:
        importer = ".".join(file.relative_to(repository).with_suffix("").parts)
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                yield from ((importer, name.name) for name in node.names)
            elif isinstance(node, ast.ImportFrom):
                yield from ((importer, f"{node.module}.{name.name}") for name in node.names)


def is_in(module: str, *packages: str) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def is_test_module(imported: str) -> bool:
    return any(part.startswith("test_") or part == "conftest" for part in imported.split("."))
