"""Output on stderr: log records, and notes and errors of commands, as text or JSON."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import click
from pythonjsonlogger.json import JsonFormatter

from streaming.views.text import dated, json_value, printable


def write_error(message: str) -> None:
    """Write the error of a failed command to stderr, as its last line."""
    if not _logged(logging.ERROR, message):
        click.echo(f"Error: {printable(message)}", err=True)


def write_warning(message: str) -> None:
    """Write a line to stderr about an answer that may not be the wanted one."""
    if not _logged(logging.WARNING, message):
        click.echo(f"Warning: {printable(message)}", err=True)


def write_note(message: str) -> None:
    """Write a line to stderr; the data goes to stdout."""
    if not _logged(logging.INFO, message):
        click.echo(printable(message), err=True)


def write_dated_note(message: str) -> None:
    """Write a line with the time to stderr, from a command that runs for days."""
    if not _logged(logging.INFO, message):
        click.echo(dated(printable(message)), err=True)


def is_live() -> bool:
    """Return whether stderr is a terminal that can show a changing line."""
    return sys.stderr.isatty() and log_format() == "text"


class _PrintableFormatter(logging.Formatter):
    """Escapes the message, which may have names from clients; a trace keeps its lines."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = printable(record.message)
        return super().formatMessage(record)


class _FieldsFormatter(JsonFormatter):
    """One JSON object per line: time, level, logger, message, and each value of the message."""

    def __init__(self) -> None:
        super().__init__(
            ["levelname", "name", "message"],
            rename_fields={"levelname": "level", "name": "logger"},
            timestamp="time",
            json_default=_logged_value,
        )

    def add_fields(
        self, log_data: dict[str, Any], record: logging.LogRecord, message_dict: dict[str, Any]
    ) -> None:
        super().add_fields(log_data, record, message_dict)
        first = {name: log_data[name] for name in ("time", "level", "logger", "message")}
        named = record.args if isinstance(record.args, Mapping) else {}
        others = {**named, **log_data}
        log_data.clear()
        log_data.update({**first, **others, **first})


LOG_FORMATS: Mapping[str, Callable[[], logging.Formatter]] = {
    "text": lambda: _PrintableFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"),
    "json": _FieldsFormatter,
}


class StderrHandler(logging.Handler):
    """Writes log records to the current `sys.stderr`, which a live progress line replaces."""

    def __init__(self, log_format: str = "text") -> None:
        super().__init__()
        self.log_format = log_format
        self.setFormatter(LOG_FORMATS[log_format]())

    def emit(self, record: logging.LogRecord) -> None:
        click.echo(self.format(record), err=True)


@contextmanager
def warnings_only() -> Iterator[None]:
    """Log warnings only: in virtual time a `run` has a line for each micro-batch at once."""
    logger = logging.getLogger("streaming")
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)


def log_format() -> str:
    """Return the log format of this process, by default `text`."""
    return next((handler.log_format for handler in _stderr_handlers()), "text")


def _stderr_handlers() -> Iterator[StderrHandler]:
    handlers = logging.getLogger().handlers
    return (handler for handler in handlers if isinstance(handler, StderrHandler))


def _logged(level: int, message: str) -> bool:
    """Write a line as a log record if the log format is not text; return whether it was written."""
    handlers = [handler for handler in _stderr_handlers() if handler.log_format != "text"]
    for handler in handlers:
        handler.handle(logging.LogRecord("streaming", level, "", 0, message, None, None))
    return bool(handlers)


def _logged_value(value: Any) -> Any:
    """Convert a value for JSON; a value without a conversion becomes its `str`."""
    try:
        return json_value(value)
    except TypeError:
        return str(value)
