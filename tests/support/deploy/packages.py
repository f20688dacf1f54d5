"""The Python packages that only the tests of deploy/ use, in a virtual environment of their own.

dbt needs older releases of packages that requirements/dev.lock pins. requirements/deploy.lock pins
these packages with their hashes, at the project's own releases of deltalake and DuckDB.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from streaming.jvm.jars import cache_folder, locked

_LOCK_FILE: Final = Path(__file__).parents[3] / "requirements" / "deploy.lock"
_UV: Final = Path(sys.executable).with_name("uv")
_DONE: Final = ".installed"


def deploy_packages() -> Path:
    """Return the folder with the commands of the packages; they are installed once."""
    wanted = hashlib.sha256(f"{sys.version} {_LOCK_FILE.read_text()}".encode()).hexdigest()
    folder = cache_folder() / f"deploy-packages-{wanted[:16]}"
    if not (folder / _DONE).exists():
        with locked(folder):
            # Another process may have installed them while this one waited for the lock.
            if not (folder / _DONE).exists():
                _install(folder)
    return folder / "bin"


def _install(folder: Path) -> None:
    # The commands name this folder, so it cannot be made elsewhere and renamed.
    shutil.rmtree(folder, ignore_errors=True)
    _run("venv", "--quiet", "--python", sys.executable, str(folder))
    install = ("pip", "install", "--quiet", "--require-hashes", "--python", str(folder))
    _run(*install, "--requirement", str(_LOCK_FILE))
    (folder / _DONE).touch()


def _run(*arguments: str) -> None:
    done = subprocess.run(
        [_UV, *arguments], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr[-2_000:]
