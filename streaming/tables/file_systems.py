"""Folders on this machine and in stores, as Arrow's file systems."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

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


def file_system(location: str) -> FileSystem:
    """The folder at a path or an address.

    Arrow's own on this machine, delta-rs's for an address. delta-rs's is Python code that Arrow
    calls on threads of its own; one of them may be left when the interpreter ends, which aborts the
    process.
    """
    path = location.removeprefix("file://")
    if "://" in path:
        return PyFileSystem(_Store(location))
    return SubTreeFileSystem(str(Path(path).absolute()), LocalFileSystem())
