"""The location of a tables folder: a path, a `file:` address, or the address of a store."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import unquote, urlsplit


def local_path(location: str) -> Path | None:
    """The local folder of a path or a `file:` address; None for a store.

    >>> local_path("file:///data/my%20tables"), local_path("file:/data/t"), local_path("s3://b/t")
    (PosixPath('/data/my tables'), PosixPath('/data/t'), None)
    """
    if location.startswith("file:"):
        return Path(unquote(urlsplit(location).path))
    return None if "://" in location else Path(location).absolute()


def sync_file(file: Path) -> None:
    """Sync a file or folder to the disk.

    Raises:
        OSError: the disk failed.
    """
    opened = os.open(file, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
