"""Where `python -m tests.every_python` looks for the other Pythons."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from tests.every_python import __main__ as every_python
from tests.every_python.__main__ import find_python

MINOR = sys.version_info.minor
NAME = f"python3.{MINOR}"
# As a shim of pyenv's does where its version is not selected.
SHIM = "#!/bin/sh\necho 'pyenv: command not found' >&2\nexit 127\n"


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder of the PATH; pyenv has no versions."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    return tmp_path / "bin"


def this_python(path: Path) -> Path:
    return program(path, f'#!/bin/sh\nexec "{os.path.realpath(sys.executable)}" "$@"\n')


def test_an_interpreter_on_the_path_is_found(path: Path) -> None:
    assert find_python(MINOR) is None
    own = this_python(path / NAME)
    assert find_python(MINOR) == own


def test_a_shim_that_starts_nothing_gives_way_to_the_folder_of_pyenv(path: Path) -> None:
    program(path / NAME, SHIM)
    assert find_python(MINOR) is None
    versions = path.parent / "pyenv" / "versions"
    own = this_python(versions / f"3.{MINOR}.1" / "bin" / "python")
    assert find_python(MINOR) == own


def test_another_version_of_that_name_is_not_taken(path: Path) -> None:
    this_python(path / f"python3.{MINOR + 1}")
    assert find_python(MINOR + 1) is None


def test_no_python_begins_when_no_time_is_left(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(every_python, "MINORS", range(MINOR + 1, MINOR + 2))
    monkeypatch.setattr(every_python, "find_python", lambda _minor: path / NAME)
    monkeypatch.setattr(every_python, "_LONG_TESTS_UNTIL", time.time() + 60)
    assert every_python.main([]) == 0
    assert f"3.{MINOR + 1}: left out, no time is left (LONG_TESTS_UNTIL)" in capsys.readouterr().out
