"""Every error the pure core raises.

A reader of arbitrary bytes raises only `DecodeError`, or one of its children, or
`UnknownRecordType`: never `struct.error`, `IndexError` or `UnicodeDecodeError`.
"""

from __future__ import annotations

MAX_SHOWN_BYTES = 32


class CoordinatorStateError(Exception):
    """Root of every error this package raises on purpose."""


class DecodeError(CoordinatorStateError):
    """Bytes that are not what their record type and version promise.

    Readers of primitives know only the position; the reader of a record adds the record type, the
    version and the field while the error passes through (`within`).
    """

    def __init__(
        self,
        message: str,
        *,
        position: int,
        record_type: str | None = None,
        version: int | None = None,
        field: str | None = None,
        shown: bytes = b"",
    ) -> None:
        super().__init__(message)
        self.message = message
        self.position = position
        self.record_type = record_type
        self.version = version
        self.field = field
        self.shown = bytes(shown[:MAX_SHOWN_BYTES])

    def within(
        self,
        *,
        record_type: str | None = None,
        version: int | None = None,
        field: str | None = None,
    ) -> DecodeError:
        """Add what an outer reader knows; the innermost record type and version stay."""
        self.record_type = self.record_type or record_type
        self.version = version if self.version is None else self.version
        if field is not None:
            if self.field is None:
                self.field = field
            else:
                separator = "" if self.field.startswith("[") else "."
                self.field = f"{field}{separator}{self.field}"
        return self

    def __str__(self) -> str:
        where = [self.record_type or "bytes"]
        if self.version is not None:
            where.append(f"v{self.version}")
        if self.field is not None:
            where.append(f"field {self.field}")
        where.append(f"at byte {self.position}")
        tail = f" (bytes {self.shown.hex()})" if self.shown else ""
        return f"{' '.join(where)}: {self.message}{tail}"


class BufferUnderflow(DecodeError):
    """The bytes end before the field does (Kafka: `BufferUnderflowException`)."""


class UnexpectedNull(DecodeError):
    """A null where the schema allows none."""


class InvalidUtf8(DecodeError):
    """A string that is not UTF-8."""


class InvalidLength(DecodeError):
    """A negative or impossible length."""


class UnsupportedVersion(DecodeError):
    """A value version that this record type never had (Kafka: `UnknownRecordVersionException`)."""


class CorruptRecordBatch(DecodeError):
    """A record batch whose header, checksum or compression does not hold together."""


class UnknownRecordType(CoordinatorStateError):
    """A record type no supported Kafka version writes.

    Not a `DecodeError`: a broker logs a warning and skips such a record, but stops at the others
    (Kafka: `CoordinatorLoader.UnknownRecordTypeException`).
    """

    def __init__(self, record_type: int) -> None:
        super().__init__(f"unknown record type {record_type}")
        self.record_type = record_type


class EncodeError(CoordinatorStateError):
    """A value that does not fit its field or version."""


class ReplayError(CoordinatorStateError):
    """A record a strict broker load would fail on, raised by the strict loader only."""

    def __init__(self, message: str, *, record_offset: int) -> None:
        super().__init__(f"record offset {record_offset}: {message}")
        self.record_offset = record_offset
