"""The location of a tables folder: a path, a `file:` address, or the address of a store.

The command `run` also takes the name of a schema in a Spark catalog.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from streaming.errors import ConfigurationError

_UNUSABLE = re.compile(r"[\[\]^|\\\x00-\x1f]|%[0-9A-Fa-f]{2}")
_SCHEMA_NAME = re.compile(r"[a-z_]\w*\.[a-z_]\w*", re.ASCII | re.IGNORECASE)


def local_path(location: str) -> Path | None:
    """The local folder of a path or a `file:` address; None for a store.

    >>> local_path("file:///data/my%20tables"), local_path("file:/data/t"), local_path("s3://b/t")
    (PosixPath('/data/my tables'), PosixPath('/data/t'), None)
    """
    if location.startswith("file:"):
        return Path(unquote(urlsplit(location).path))
    return None if "://" in location else Path(location).absolute()


def require_usable(location: str) -> None:
    """Refuse a local folder that delta-rs would take for another one, or not open.

    delta-rs (1.6) writes the log of a table below `a%20b` into `a b`, and its data into `a%20b`.

    Raises:
        ConfigurationError: the path has such characters.
    """
    path = local_path(location)
    unusable = None if path is None else _UNUSABLE.search(str(path))
    if unusable is not None:
        raise ConfigurationError(
            f"Delta tables cannot be in {path}, because of {unusable[0]}: name a folder without it"
        )


def is_schema_name(tables: str) -> bool:
    """Whether a text is the name of a schema, `CATALOG.SCHEMA`, instead of a location.

    A name is two identifiers joined by a dot, unless there is a folder of that name: `./a.b` is
    always a path.

    >>> is_schema_name("spark_catalog.kafka"), is_schema_name("./a.b"), is_schema_name("tables")
    (True, False, False)
    """
    return _SCHEMA_NAME.fullmatch(tables) is not None and not Path(tables).exists()


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
