"""A folder for the compiled loops of the kernel where the usual ones cannot be written.

An executor may have no home and a program that it cannot write beside. Each of its Python workers
would then compile for itself.
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
    """Name a temporary folder in `NUMBA_CACHE_DIR` if neither that nor the user's cache will do.

    Call it before the kernel is imported. Where nothing can be written, the process compiles for
    itself.
    """
    named = os.environ.get(_VARIABLE)
    user_cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    folder = Path(named) if named else Path(os.path.expanduser(user_cache), "numba")  # noqa: PTH111
    # The home folder of a user id without a name is not known.
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
    """One for all processes of this user; nobody else may write there, because loops are code."""
    folder = Path(tempfile.gettempdir(), f"coordinator-state-kernel-{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    is_ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
    if is_ours and not stat.S_IMODE(found.st_mode) & 0o077:
        return folder
    return Path(tempfile.mkdtemp(prefix="coordinator-state-kernel-"))
