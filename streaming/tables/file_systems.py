"""Folders on this machine and in stores, as Arrow's file systems."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import FileSystem, LocalFileSystem, PyFileSystem, SubTreeFileSystem


class _Store(DeltaStorageHandler):
    """delta-rs's, which (1.6) cannot write what Arrow hands it: buffers, not bytes."""

    def open_output_stream(
        self, path: str, metadata: dict[str, str] | None = None
    ) -> pa.PythonFile:
        return pa.PythonFile(_Bytes(self._handler.open_output_stream(path, metadata)), mode="w")


class _Bytes(io.RawIOBase):
    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        taken = bytes(data)
        self._stream.write(taken)
        return len(taken)

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
        super().close()


def local_path(location: str) -> Path | None:
    """The folder on this machine that a path or a `file:` address names; None for a store.

    >>> local_path("file:///data/my%20tables"), local_path("file:/data/t"), local_path("s3://b/t")
    (PosixPath('/data/my tables'), PosixPath('/data/t'), None)
    """
    if location.startswith("file:"):
        return Path(unquote(urlsplit(location).path))
    return None if "://" in location else Path(location).absolute()


def file_system(location: str) -> FileSystem:
    """The folder at a path or an address.

    Arrow's own on this machine, delta-rs's for a store. delta-rs's is Python code that Arrow calls
    on threads of its own; one of them may be left when the interpreter ends, which aborts the
    process.
    """
    path = local_path(location)
    if path is None:
        return PyFileSystem(_Store(location))
    return SubTreeFileSystem(str(path), LocalFileSystem())
