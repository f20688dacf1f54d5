"""`make test` leaves out the tests with the mark `long`, and still tests everything once."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

AT_LEAST = {
    "a broker with the coordinator of Kafka 4": r"differential/test_rounds\.py::.*\[4\.",
    "a broker with the coordinator of Kafka 3": r"differential/test_rounds\.py::.*\[3\.",
    "the coordinator shard of Kafka": r"integration/test_shard_oracle\.py::",
    "a whole query beside the broker": r"bench/test_backfill\.py::.*materialised_equal",
    "the source in Spark": r"integration/test_source\.py::",
    "a page in a browser": r"browser/test_dashboard\.py::",
}
CHOICES = {
    "test": '"not long"',
    "test-long": '"long and not cluster"',
    "test-cluster": "cluster",
}


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


def test_each_kind_of_server_is_used_once(repository: Path) -> None:
    files = sorted({f"tests/{pattern.partition('::')[0]}" for pattern in AT_LEAST.values()})
    files = [file.replace("\\", "") for file in files]
    collect = (sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider")
    done = subprocess.run(
        [*collect, "-m", "not long", *files],
        cwd=repository,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-2_000:]
    collected = re.findall(r"^tests/(.+::.+)$", done.stdout, re.MULTILINE)
    for server, pattern in AT_LEAST.items():
        assert any(re.match(pattern, name) for name in collected), server


def test_the_targets_run_all_tests(repository: Path) -> None:
    """A test with the mark `cluster` has the mark `long`, too."""
    makefile = (repository / "Makefile").read_text()
    for target, choice in CHOICES.items():
        (recipe,) = re.findall(rf"^{target}:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
        assert f" -m {choice} $(PYTEST_ARGS)" in recipe
    for file in (repository / "tests").rglob("test_*.py"):
        text = file.read_text()
        assert "pytest.mark.long" in text or "pytest.mark.cluster" not in text, file


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
