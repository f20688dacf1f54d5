"""Responses of megabytes, read with fewer copies than kafka-python makes of them."""

from __future__ import annotations

from typing import Any

from kafka.protocol.parser import KafkaProtocol


class FrameParser(KafkaProtocol):
    """Cuts frames off what is received, and decodes them, as views.

    Takes the place of a connection's own parser, whose state it shares.
    """

    def receive_bytes(self, data: bytes) -> Any:
        return super().receive_bytes(memoryview(data))

    def _process_response(self, frame: Any) -> Any:
        return super()._process_response(_FrameReader(frame))


class _FrameReader:
    """A frame, read from its beginning: what is read is no copy."""

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
