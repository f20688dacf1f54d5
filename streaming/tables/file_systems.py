"""Local folders and object stores as Arrow file systems."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import FileSystem, LocalFileSystem, PyFileSystem, SubTreeFileSystem


class _Store(DeltaStorageHandler):
    """delta-rs's handler, with a fix: delta-rs 1.6 cannot write buffers, which Arrow passes."""

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
    """The local folder of a path or a `file:` address; None for a store.

    >>> local_path("file:///data/my%20tables"), local_path("file:/data/t"), local_path("s3://b/t")
    (PosixPath('/data/my tables'), PosixPath('/data/t'), None)
    """
    if location.startswith("file:"):
        return Path(unquote(urlsplit(location).path))
    return None if "://" in location else Path(location).absolute()


def file_system(location: str) -> FileSystem:
    """The Arrow file system of a folder, given by a path or an address.

    It is Arrow's own for a local folder, and delta-rs's for a store. delta-rs's is Python code that
    Arrow calls on its own threads. If such a thread still runs when the interpreter exits, the
    process aborts.
    """
    path = local_path(location)
    if path is None:
        return PyFileSystem(_Store(location))
    return SubTreeFileSystem(str(path), LocalFileSystem())
