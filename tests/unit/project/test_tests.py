"""The imports of tests, the list of Kafka's own cases, and the tests that `make test` runs."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.support.sources import imported_names

CHOICES = {
    "test": '"not long"',
    "test-long": '"long and not cluster and not release"',
    "test-cluster": '"cluster and not release"',
}


def test_a_test_can_be_read_run_and_moved_alone(repository: Path) -> None:
    files = [file for name in ("tests", "bench") for file in (repository / name).rglob("*.py")]
    assert len(files) > 100
    refused = []
    for file in files:
        importer = ".".join(file.relative_to(repository).with_suffix("").parts)
        refused += [(importer, name) for name in imported_names(file) if is_refused(importer, name)]
    assert refused == []


def is_refused(importer: str, imported: str) -> bool:
    """Whether a module imports a test or a conftest.py, a helper more than helpers, or `bench`."""
    if is_in(imported, "bench"):
        return not is_in(importer, "tests.bench", "bench")
    # pytest has imported a conftest.py already, and a second import is a second module.
    is_test = any(part.startswith("test_") or part == "conftest" for part in imported.split("."))
    is_by_helper = is_in(importer, "tests.support", "bench")
    is_of_helper = is_in(imported, "tests.support")
    return is_in(imported, "tests") and (is_test or (is_by_helper and not is_of_helper))


def is_in(module: str, *packages: str) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def test_every_case_of_kafkas_tests_has_its_test(repository: Path) -> None:
    """kafka-cases.md names tests that are there."""
    tests = repository / "tests"
    text = (tests / "kafka-cases.md").read_text()
    rows = [row.strip("| ").split(" | ") for row in text.splitlines() if "::" in row]
    assert len(rows) == text.count("::") > 100
    missing = []
    for _, _, test in rows:
        path, _, name = test.strip("`").partition("::")
        if f"def {name}(" not in (tests / path).read_text():
            missing.append(test)
    assert missing == []
    assert len({(suite, case) for suite, case, _ in rows}) == len(rows)


def test_every_package_has_tests_that_are_not_long(repository: Path) -> None:
    packages = [
        file.parent.name
        for name in ("coordinator_state", "streaming")
        for file in (repository / name).glob("*/__init__.py")
    ]
    assert packages
    for package in packages:
        files = (repository / "tests" / "unit" / package).rglob("test_*.py")
        assert any(has_short_test(ast.parse(file.read_text())) for file in files), package


def has_short_test(module: ast.Module) -> bool:
    if any(
        "pytestmark" in ast.unparse(node) and "long" in ast.unparse(node) for node in module.body
    ):
        return False
    return any(
        node.name.startswith("test_")
        and "pytest.mark.long" not in map(ast.unparse, node.decorator_list)
        for node in ast.walk(module)
        if isinstance(node, ast.FunctionDef)
    )


def test_the_targets_run_all_tests(repository: Path) -> None:
    """A test with the mark `cluster` or `release` has the mark `long`, too."""
    makefile = (repository / "Makefile").read_text()
    for target, choice in CHOICES.items():
        (recipe,) = re.findall(rf"^{target}:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
        assert f" -m {choice} $(PYTEST_ARGS)" in recipe
    for file in (repository / "tests").rglob("test_*.py"):
        text = file.read_text()
        is_long = re.search(r"mark\.long|SPARK_ENGINE\.marks", text)
        assert is_long or not re.search(r"mark\.(cluster|release)", text), file
