"""All errors that the pure core raises.

Readers of arbitrary bytes raise only `DecodeError`, its subclasses and `UnknownRecordType`. They
never raise `struct.error`, `IndexError` or `UnicodeDecodeError`.
"""

from __future__ import annotations

MAX_SHOWN_BYTES = 32


class CoordinatorStateError(Exception):
    """Base class of all errors that this package raises."""


class DecodeError(CoordinatorStateError):
    """Bytes that do not match the layout of their record type and version.

    Readers of primitives know only the position. Outer readers catch the error and add the record
    type, the version and the field (`within`).
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
        """Add context of an outer reader; an existing record type or version is kept."""
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
    """A null in a field that is not nullable."""


class InvalidUtf8(DecodeError):
    """A string that is not UTF-8."""


class InvalidLength(DecodeError):
    """A negative or impossible length."""


class UnsupportedVersion(DecodeError):
    """An unknown version of a value (Kafka: `UnknownRecordVersionException`)."""


class CorruptRecordBatch(DecodeError):
    """A record batch with an invalid header, checksum or compression."""


class UnknownRecordType(CoordinatorStateError):
    """A record type that no supported Kafka version writes.

    It is not a `DecodeError`: a broker logs a warning and skips such a record, but fails at records
    that it cannot decode (Kafka: `CoordinatorLoader.UnknownRecordTypeException`).
    """

    def __init__(self, record_type: int) -> None:
        super().__init__(f"unknown record type {record_type}")
        self.record_type = record_type


class UnknownTransactionState(CoordinatorStateError):
    """A number of a transaction's state that no supported Kafka version writes."""

    def __init__(self, number: int) -> None:
        super().__init__(f"TransactionLogValue: unknown transactionStatus {number}")
        self.number = number


class EncodeError(CoordinatorStateError):
    """A value that does not fit into its field or version."""


class ReplayError(CoordinatorStateError):
    """A record at which a broker's load fails; only the strict loader raises it."""

    def __init__(self, message: str, *, record_offset: int) -> None:
        super().__init__(f"record offset {record_offset}: {message}")
        self.record_offset = record_offset
