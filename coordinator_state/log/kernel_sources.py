"""A hash of the sources of the compiled loops.

It is not in the package `kernel`, whose import compiles or loads the loops with Numba and takes
about a second.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import lru_cache
from importlib.resources import files
from typing import Any, Final

_PACKAGES: Final = ("wire", "records", "log")
"""The packages whose functions and constants are compiled into loops."""


@lru_cache(maxsize=1)
def kernel_sources() -> str:
    """Return a hash of all source files: loops include code and constants of other files, too."""
    digest = hashlib.sha256()
    for package in _PACKAGES:
        for source in _files_of(files("coordinator_state") / package):
            digest.update(source)
    return digest.hexdigest()


def loops_folder() -> str:
    """Return the name of the folder of this version's loops in a cache of several releases."""
    return f"coordinator-state-{kernel_sources()[:16]}"


def _files_of(folder: Any) -> Iterator[bytes]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from _files_of(entry)
        elif entry.name.endswith(".py"):
            yield entry.name.encode() + b"\0" + entry.read_bytes()
