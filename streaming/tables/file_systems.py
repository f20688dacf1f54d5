"""Local folders and object stores as Arrow file systems."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import FileSystem, LocalFileSystem, PyFileSystem, SubTreeFileSystem

from streaming.tables.locations import local_path


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
