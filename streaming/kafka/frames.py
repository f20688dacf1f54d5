"""Parsing of large responses (megabytes) with fewer copies than kafka-python's own parser."""

from __future__ import annotations

from typing import Any

from kafka.protocol.parser import KafkaProtocol


class FrameParser(KafkaProtocol):
    """Splits received bytes into frames and decodes them, both as views.

    It replaces the class of a connection's parser object, so it shares that object's state.
    """

    def receive_bytes(self, data: bytes) -> Any:
        return super().receive_bytes(memoryview(data))

    def _process_response(self, frame: Any) -> Any:
        return super()._process_response(_FrameReader(frame))


class _FrameReader:
    """A file-like reader of a frame whose `read` returns views, not copies."""

    def __init__(self, frame: bytearray) -> None:
        self._view = memoryview(frame)
        self._position = 0

    def read(self, size_bytes: int | None = None) -> memoryview:
        start = self._position
        end = len(self._view) if size_bytes is None else start + size_bytes
        self._position = min(end, len(self._view))
        return self._view[start:end]

    def seek(self, position: int) -> None:
        self._position = position

    def tell(self) -> int:
        return self._position
