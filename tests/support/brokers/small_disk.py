"""File systems of a few megabytes in memory, to fill them up."""

from __future__ import annotations

import errno
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
    """Leave so many bytes free, also while another process writes to the disk."""
    with (disk / FILLER).open("ab") as filler:
        while (size_bytes := _free_bytes(disk) - left_bytes) > 0:
            try:
                os.posix_fallocate(filler.fileno(), filler.tell(), size_bytes)
            except OSError as error:
                # The other process took some of it first: fill the rest.
                if error.errno != errno.ENOSPC:
                    raise
            filler.seek(0, os.SEEK_END)


def _free_bytes(disk: Path) -> int:
    usage = os.statvfs(disk)
    return usage.f_bavail * usage.f_frsize


def make_room(disk: Path) -> None:
    """Delete what `fill` wrote."""
    (disk / FILLER).unlink()
