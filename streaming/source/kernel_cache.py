"""The cache folder of the compiled loops of the kernel (`coordinator_state.log.kernel.loop_cache`).

An executor may have no home folder and a read-only installation. Each of its Python workers would
then compile the loops again, so they use a temporary folder.

A mark in the folder says that all loops are there. The mark is found without the import of Numba,
which takes about a second.
"""

from __future__ import annotations

import hashlib
import os
import platform
import stat
import sys
import tempfile
from contextlib import suppress
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import platformdirs

from coordinator_state.log.kernel_sources import kernel_sources, loops_folder

_PROCESSOR: Final = ("model name", "flags", "Features", "CPU part")
"""The lines of /proc/cpuinfo on which compiled code depends: on x86, and on ARM."""
_VARIABLE: Final = "NUMBA_CACHE_DIR"


def ensure_kernel_cache() -> None:
    """Set `NUMBA_CACHE_DIR` to a temporary folder if the configured cache is not writable.

    Call it before the kernel is imported. If no folder is writable, the process compiles the loops
    itself.
    """
    named = os.environ.get(_VARIABLE)
    user_cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    folder = Path(named) if named else Path(os.path.expanduser(user_cache), "numba")  # noqa: PTH111
    # A user id without a name has no known home folder.
    if folder.parts[:1] == ("~",) or not _is_writable(folder):
        with suppress(OSError):
            os.environ[_VARIABLE] = str(_temporary_folder())


def has_compiled_loops() -> bool:
    """Whether all loops were compiled for this program, Python and processor.

    Call it after `ensure_kernel_cache`.
    """
    return (_folder() / _mark()).exists()


def mark_loops_compiled(folder: Path) -> None:
    """Note that all loops are in the folder that Numba uses.

    Raises:
        OSError: the folder is not writable.
    """
    (folder / _mark()).touch()


def _folder() -> Path:
    """Return the folder that Numba uses, as `loop_cache` describes it."""
    if named := os.environ.get(_VARIABLE):
        return Path(named, loops_folder())
    package = find_spec("coordinator_state.log")
    beside = Path(str(package and package.origin)).parent / "kernel" / "__pycache__"
    if os.access(beside, os.W_OK):
        return beside
    return platformdirs.user_cache_path("numba", appauthor=False) / loops_folder()


def _mark() -> str:
    made_for = (kernel_sources(), version("numba"), sys.version_info[:2], _processor())
    return f"compiled-{hashlib.sha256(repr(made_for).encode()).hexdigest()[:16]}"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().partition("\n\n")[0].splitlines()
    except OSError:
        return platform.processor()
    return "\n".join(line for line in lines if line.startswith(_PROCESSOR))


def _is_writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True


def _temporary_folder() -> Path:
    """One folder for all processes of this user; others must not write there: it has code."""
    folder = Path(tempfile.gettempdir(), f"coordinator-state-kernel-{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    is_ours = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()
    if is_ours and not stat.S_IMODE(status.st_mode) & 0o077:
        return folder
    return Path(tempfile.mkdtemp(prefix="coordinator-state-kernel-"))
