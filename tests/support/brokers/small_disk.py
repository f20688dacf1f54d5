"""File systems of a few megabytes in memory, to fill them up."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

FILLER = "filler"


@contextmanager
def small_disk(folder: Path, size_mib: int) -> Iterator[Path]:
    """Mount a tmpfs on a folder, which is made; a test is skipped where nobody may mount."""
    folder.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size_mib}m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        # A disk that is really full needs a file system of its own. CI has the rights.
        pytest.skip("mounting a file system takes root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)  # noqa: S607


def fill(disk: Path, left_bytes: int = 0) -> None:
    """Leave so many bytes free."""
    with (disk / FILLER).open("ab") as filler:
        found = os.statvfs(disk)
        size_bytes = found.f_bavail * found.f_frsize - left_bytes
        if size_bytes > 0:
            os.posix_fallocate(filler.fileno(), filler.tell(), size_bytes)


def make_room(disk: Path) -> None:
    """Delete what `fill` wrote."""
    (disk / FILLER).unlink()
