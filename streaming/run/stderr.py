"""Everything on stderr: log records, and notes and errors of commands, as text or as JSON."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import click
from pythonjsonlogger.json import JsonFormatter

from streaming.views.text import json_value, printable


def write_error(message: str) -> None:
    """One line on stderr, the last word of a command that failed."""
    if not _logged(logging.ERROR, message):
        click.echo(f"Error: {printable(message)}", err=True)


def write_note(message: str) -> None:
    """One line on stderr beside the data."""
    if not _logged(logging.INFO, message):
        click.echo(printable(message), err=True)


def is_live() -> bool:
    """Whether stderr is a screen on which a line may change."""
    return sys.stderr.isatty() and log_format() == "text"


class _PrintableFormatter(logging.Formatter):
    """What names come from clients is escaped, a trace keeps its lines."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = printable(record.message)
        return super().formatMessage(record)


class _FieldsFormatter(JsonFormatter):
    """One JSON object a line: when, how bad, who, what, and each value that the message names."""

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
    """Log records as lines on stderr, whatever stands for it while a progress line is shown."""

    def __init__(self, log_format: str = "text") -> None:
        super().__init__()
        self.log_format = log_format
        self.setFormatter(LOG_FORMATS[log_format]())

    def emit(self, record: logging.LogRecord) -> None:
        click.echo(self.format(record), err=True)


def log_format() -> str:
    """How this process logs: `text` unless it was told otherwise."""
    return next((handler.log_format for handler in _stderr_handlers()), "text")


def _stderr_handlers() -> Iterator[StderrHandler]:
    return (one for one in logging.getLogger().handlers if isinstance(one, StderrHandler))


def _logged(level: int, message: str) -> bool:
    """Write a line as a log record where nothing but those may be on stderr."""
    handlers = [handler for handler in _stderr_handlers() if handler.log_format != "text"]
    for handler in handlers:
        handler.handle(logging.LogRecord("streaming", level, "", 0, message, None, None))
    return bool(handlers)


def _logged_value(value: Any) -> Any:
    """No log line fails of a value."""
    try:
        return json_value(value)
    except TypeError:
        return str(value)
