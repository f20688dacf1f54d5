"""A cache folder for the compiled loops of the kernel, if the default folders are not writable.

An executor may have no home folder and a read-only installation. Each of its Python workers would
then compile the loops again.
"""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

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
    found = folder.lstat()
    is_ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
    if is_ours and not stat.S_IMODE(found.st_mode) & 0o077:
        return folder
    return Path(tempfile.mkdtemp(prefix="coordinator-state-kernel-"))
