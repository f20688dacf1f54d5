"""`make test` leaves out the tests with the mark `long`, and still tries everything once."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

AT_LEAST = {
    "a broker with the coordinator of Kafka 4": r"integration/test_model\.py::.*\[.*coordinator",
    "a broker with the coordinator of Kafka 3": r"integration/test_model\.py::.*\[.*scala",
    "a whole query beside the broker": r"bench/test_backfill\.py::.*materialised_equal",
    "the source in Spark": r"integration/test_source\.py::",
    "a page in a browser": r"browser/test_dashboard\.py::",
}


@pytest.fixture(scope="module")
def chosen(repository: Path) -> list[str]:
    """The tests of `make test`, as far as this file looks at them."""
    files = {pattern.partition(r"\.py")[0] + ".py" for pattern in AT_LEAST.values()}
    collect = (sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider")
    done = subprocess.run(
        [*collect, "-m", "not long", "tests/unit", *(f"tests/{name}" for name in sorted(files))],
        cwd=repository,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-2_000:]
    return re.findall(r"^tests/(.+::.+)$", done.stdout, re.MULTILINE)


def test_every_package_is_tested(repository: Path, chosen: list[str]) -> None:
    packages = [
        file.parent.name
        for name in ("coordinator_state", "streaming")
        for file in (repository / name).glob("*/__init__.py")
    ]
    assert packages
    tested = {name.split("/")[1] for name in chosen if name.startswith("unit/")}
    assert set(packages) - tested == set()


@pytest.mark.parametrize("what", AT_LEAST)
def test_what_needs_a_server_is_tried_once(chosen: list[str], what: str) -> None:
    assert [name for name in chosen if re.match(AT_LEAST[what], name)]


def test_the_three_targets_run_all_tests(repository: Path) -> None:
    """A test with the mark `cluster` has the mark `long`, too."""
    makefile = (repository / "Makefile").read_text()
    choices = re.findall(
        r"^\t\$\(PYTEST\)(?: \$\(TWO_FILES\))? -m (.+) \$\(PYTEST_ARGS\)$", makefile, re.M
    )
    assert choices == ['"not long"', '"long and not cluster"', "cluster"]
    for file in (repository / "tests").rglob("test_*.py"):
        text = file.read_text()
        assert "pytest.mark.long" in text or "pytest.mark.cluster" not in text, file


def test_no_long_test_begins_once_its_time_is_over(tmp_path: Path, repository: Path) -> None:
    tests = tmp_path / "test_two.py"
    tests.write_text(
        "import pytest\n"
        "@pytest.mark.long\n"
        "def test_long():\n    pass\n"
        "def test_short():\n    pass\n"
    )
    (tmp_path / "conftest.py").write_text(
        "from tests.conftest import pytest_runtest_setup as pytest_runtest_setup\n"
    )
    found = []
    for until in ("0", "inf"):
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", tests],
            cwd=tmp_path,
            env={
                **os.environ,
                "PYTHONPATH": str(repository),
                "LONG_TESTS_UNTIL": until,
            },
            capture_output=True,
            text=True,
            check=False,
        )
        found += re.findall(r"\d passed(?:, \d skipped)?", done.stdout)
    assert found == ["1 passed, 1 skipped", "2 passed"]
