"""`python -m tests.every_python`: unit tests on the other Pythons that this machine has.

The oldest and the newest run a choice of them: the codec, the loader rules, and the code that
depends on the version of Python. mypy compares all code with the standard library of the oldest
one. Long tests run on one Python only, except those of packaging and of the kernel cache, which
differ by Python.

Each Python has its own virtual environment, `.cache/python3.N`, installed from
requirements/dev.lock the first time and when a lock file has changed. `--all` runs all unit tests
and doctests, long ones too, on every Python. Further arguments go to pytest.

No Python begins within 15 minutes of LONG_TESTS_UNTIL, a Unix time that CI sets.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

MINORS: Final = range(10, 15)
"""Of Python 3: from the oldest that pyproject.toml names to the newest that is released."""

_LONG_TESTS_UNTIL: Final = float(os.environ.get("LONG_TESTS_UNTIL", "inf"))
_LONGEST_S: Final = 15 * 60.0
"""Of the tests on one Python, on a slow machine."""

_REPOSITORY: Final = Path(__file__).parents[2]
_CACHE: Final = _REPOSITORY / ".cache"
_WHEELHOUSE: Final = _CACHE / "wheelhouse"
_UV: Final = Path(sys.executable).with_name("uv")
_TESTS: Final = ("coordinator_state", "streaming", "tests/unit", "tests/bench")
_SMOKE_TESTS: Final = (
    *("coordinator_state", "tests/unit/log", "tests/unit/records", "tests/unit/replay"),
    *("tests/unit/wire", "tests/unit/engine", "tests/unit/project/test_packaging.py"),
    *("tests/unit/cli", "tests/unit/kafka", "tests/unit/run"),
)
"""The codec and rules, the engine, the wheel, and what calls the operating system."""
_CHOICE: Final = "not integration and (not long or python_version)"
_ALL: Final = "not integration"
_INPUTS: Final = ("pyproject.toml", "requirements/core.lock", "requirements/dev.lock")
# A name on the PATH may be a shim of pyenv's that starts nothing, or another version.
_IS_THAT_PYTHON: Final = """
import ensurepip, sys, venv
sys.exit(sys.version_info[:2] != (3, {minor}))
"""


def main(arguments: list[str]) -> int:
    """Print a line about each Python; 1 if tests failed on one, else 0."""
    is_all = "--all" in arguments
    pytest_arguments = [argument for argument in arguments if argument != "--all"]
    results = []
    others = {
        n: python for n in MINORS if n != sys.version_info.minor and (python := find_python(n))
    }
    for minor in MINORS:
        name = f"Python 3.{minor}"
        if minor == sys.version_info.minor:
            results.append(f"{name}: left out, `make test` runs on it")
        elif minor not in others:
            results.append(f"{name}: left out, this machine does not have it")
        elif not is_all and minor not in (min(others), max(others)):
            results.append(f"{name}: left out, `make test-all` runs on it")
        elif time.time() + _LONGEST_S > _LONG_TESTS_UNTIL:
            results.append(f"{name}: left out, no time is left (LONG_TESTS_UNTIL)")
        else:
            say(f"{name}: {others[minor]}")
            tests = (*_TESTS, "-m", _ALL) if is_all else (*_SMOKE_TESTS, "-m", _CHOICE)
            python = environment_of(others[minor], minor)
            status = run_tests(python, [*tests, *pytest_arguments])
            outcome = "passed" if status == 0 else f"FAILED ({status})"
            results.append(f"{name}: {outcome}{'' if is_all else ' (a choice of tests)'}")
    say(*results)
    return any("FAILED" in result for result in results)


def find_python(minor: int) -> Path | None:
    """An interpreter of Python 3.<minor> that can make virtual environments, None without one."""
    return next((python for python in _candidates(minor) if _is_that_python(python, minor)), None)


def _candidates(minor: int) -> Iterator[Path]:
    for folder in os.get_exec_path():
        yield Path(folder, f"python3.{minor}")
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from sorted(pyenv.glob(f"versions/3.{minor}.*/bin/python"), reverse=True)


def _is_that_python(python: Path, minor: int) -> bool:
    question = (python, "-c", _IS_THAT_PYTHON.format(minor=minor))
    try:
        return subprocess.run(question, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def environment_of(python: Path, minor: int) -> Path:
    """The interpreter of a virtual environment with everything in it, made where it is not."""
    folder = _CACHE / f"python3.{minor}"
    own, installed = folder / "bin" / "python", folder / ".installed"
    wanted = "".join((_REPOSITORY / name).read_text() for name in _INPUTS)
    if not installed.exists() or installed.read_text() != wanted:
        run(python, "-m", "venv", "--clear", folder)
        install = (_UV, "pip", "install", "--quiet", "--python", own)
        run(*install, "--require-hashes", "-r", "requirements/dev.lock")
        run(*install, "--no-deps", "--no-build-isolation", "--editable", ".")
        # test_packaging.py installs our wheel alone without network.
        wheels = (own, "-m", "pip", "--disable-pip-version-check", "--quiet", "wheel")
        run(*wheels, "--require-hashes", "-r", "requirements/core.lock", "-w", _WHEELHOUSE)
        # Otherwise both test processes compile the loops, each for itself.
        run(own, "-m", "streaming.run.loop_compilation")
        installed.write_text(wanted)
    return own


def run_tests(python: Path, arguments: list[str]) -> int:
    """Pytest's exit status; two files at once, and nothing of it in the cache of the others."""
    command = (python, "-m", "pytest", "-n", "2", "--dist", "loadfile", "-p", "no:cacheprovider")
    return subprocess.run([*command, *arguments], cwd=_REPOSITORY, check=False).returncode


def run(*command: str | Path) -> None:
    """Run a command; its output goes where this program's output goes."""
    status = subprocess.run(command, cwd=_REPOSITORY, check=False).returncode
    if status != 0:
        sys.exit(f"Error: {' '.join(map(str, command))}: exit status {status}")


def say(*lines: str) -> None:
    """Print lines at once: pytest writes to the same place."""
    sys.stdout.write("\n".join(("", *lines, "")))
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
