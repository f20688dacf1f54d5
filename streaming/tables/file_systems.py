"""Folders on this machine and in stores, as Arrow's file systems."""

from __future__ import annotations

from pathlib import Path

from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import FileSystem, LocalFileSystem, PyFileSystem, SubTreeFileSystem


def file_system(location: str) -> FileSystem:
    """The folder at a path or an address.

    Arrow's own on this machine, delta-rs's for an address. delta-rs's is Python code that Arrow
    calls on threads of its own; one of them may be left when the interpreter ends, which aborts the
    process.
    """
    path = location.removeprefix("file://")
    if "://" in path:
        return PyFileSystem(DeltaStorageHandler(location))
    return SubTreeFileSystem(str(Path(path).absolute()), LocalFileSystem())
