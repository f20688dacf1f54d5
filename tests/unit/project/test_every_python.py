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
# As a shim of pyenv's does where its version is not selected.
SHIM = "#!/bin/sh\necho 'pyenv: command not found' >&2\nexit 127\n"
THIS_PYTHON = f'#!/bin/sh\nexec "{os.path.realpath(sys.executable)}" "$@"\n'


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_an_interpreter_that_starts_is_taken_from_the_path_or_pyenv(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    assert find_python(MINOR) is None
    program(tmp_path / "bin" / f"python3.{MINOR}", SHIM)
    assert find_python(MINOR) is None
    versions = tmp_path / "pyenv" / "versions"
    of_pyenv = program(versions / f"3.{MINOR}.1" / "bin" / "python", THIS_PYTHON)
    assert find_python(MINOR) == of_pyenv
    on_path = program(tmp_path / "bin" / f"python3.{MINOR}", THIS_PYTHON)
    assert find_python(MINOR) == on_path
    # Another version of that name.
    program(tmp_path / "bin" / f"python3.{MINOR + 1}", THIS_PYTHON)
    assert find_python(MINOR + 1) is None


def test_no_python_begins_when_no_time_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(every_python, "MINORS", range(MINOR + 1, MINOR + 2))
    monkeypatch.setattr(every_python, "find_python", lambda _minor: tmp_path / "python")
    monkeypatch.setattr(every_python, "_LONG_TESTS_UNTIL", time.time() + 60)
    assert every_python.main([]) == 0
    assert f"3.{MINOR + 1}: left out, no time is left (LONG_TESTS_UNTIL)" in capsys.readouterr().out
