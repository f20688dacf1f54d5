"""The imports of tests, the list of Kafka's own cases, and the tests that `make test` runs."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.sources import imported_names

AT_LEAST = {
    "a broker": "differential/test_rounds.py",
    "the coordinator shard in Kafka's own jars": "integration/test_shard_oracle.py",
    "a whole query beside the broker": "bench/test_backfill.py",
    "the source in Spark": "integration/test_source.py",
    "a page in a browser": "browser/test_dashboard.py",
}
CHOICES = {
    "test": '"not long"',
    "test-long": '"long and not cluster and not release"',
    "test-cluster": '"cluster and not release"',
}


class Import(NamedTuple):
    """The name of a module below `tests` or `bench`, and a name that it imports."""

    importer: str
    imported: str


@pytest.fixture(scope="module")
def imports(repository: Path) -> list[Import]:
    files = [file for name in ("tests", "bench") for file in (repository / name).rglob("*.py")]
    assert len(files) > 100
    return [
        Import(".".join(file.relative_to(repository).with_suffix("").parts), imported)
        for file in sorted(files)
        for imported in imported_names(file)
    ]


# --- a test can be read, run and moved alone -----------------------------------------------------


def is_in(module: str, *packages: str) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def test_only_its_own_tests_import_bench(imports: list[Import]) -> None:
    imports_of_bench = [each for each in imports if is_in(each.imported, "bench")]
    assert [
        each for each in imports_of_bench if not is_in(each.importer, "tests.bench", "bench")
    ] == []


def test_no_test_is_imported(imports: list[Import]) -> None:
    """Nor a conftest.py: pytest has imported it already, and a second import is a second module."""
    imports_of_tests = [each for each in imports if is_in(each.imported, "tests")]
    assert [each for each in imports_of_tests if is_test_module(each.imported)] == []


def is_test_module(imported: str) -> bool:
    return any(part.startswith("test_") or part == "conftest" for part in imported.split("."))


def test_helpers_import_helpers_only(imports: list[Import]) -> None:
    imports_by_helpers = [
        each for each in imports if is_in(each.importer, "tests.support", "bench")
    ]
    tests = [each for each in imports_by_helpers if is_in(each.imported, "tests")]
    assert [each for each in tests if not is_in(each.imported, "tests.support")] == []


# --- Kafka's cases -------------------------------------------------------------------------------


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


# --- the mark `long` -----------------------------------------------------------------------------


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


@pytest.mark.parametrize("name", AT_LEAST.values(), ids=AT_LEAST)
def test_each_kind_of_server_is_used_by_a_short_test(repository: Path, name: str) -> None:
    module = ast.parse((repository / "tests" / name).read_text())
    assert has_short_test(module)
    if "rounds" in name:
        assert "params=[KAFKA_VERSION, SCALA_VERSION]" in ast.unparse(module)


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


def test_no_long_test_begins_once_its_time_is_over(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = request.config.rootpath / "tests" / "conftest.py"
    conftest = request.config.pluginmanager.get_plugin(str(name))
    assert conftest is not None
    monkeypatch.setattr(conftest, "_LONG_TESTS_UNTIL", 0.0)
    conftest.pytest_runtest_setup(request.node)
    request.node.add_marker("long")
    with pytest.raises(pytest.skip.Exception, match="LONG_TESTS_UNTIL"):
        conftest.pytest_runtest_setup(request.node)
