"""Errors of the outer layer that a user can act on."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class ConfigurationError(Exception):
    """A usage or configuration error: one line that says what failed, where, and what to do.

    The command line prints it after `Error: ` and exits with status 2, without a stack trace.
    """


class TopicMissing(ConfigurationError):
    """The topic does not exist; a cluster creates an internal topic when it first needs it."""

    def __init__(self, message: str, cluster_id: str) -> None:
        super().__init__(message)
        self.cluster_id = cluster_id


class NotAuthorised(ConfigurationError):
    """The client's principal lacks an ACL."""


class TablesUnavailable(ConfigurationError):
    """Tables cannot be read or written now: the disk is full, or the store is unreachable.

    A query that writes the tables retries later.
    """


class MomentNotRebuilt(ConfigurationError):
    """A past moment cannot be rebuilt exactly: a log partition was reloaded just before it."""


class WriterFenced(ConfigurationError):
    """A newer writer has taken over the tables folder; this process must not write to it again."""

    def __init__(self, tables: str, newer: str) -> None:
        super().__init__(
            f"another writer has taken over {tables} ({newer}): this one ends, because a tables "
            "folder has one writer at a time"
        )


class TablesReplaced(WriterFenced):
    """A table lacks writes of this process, or has foreign ones: another folder is in its place."""

    def __init__(self, path: str) -> None:
        ConfigurationError.__init__(
            self,
            f"{path} is not as this process wrote it: the tables folder was replaced or set back "
            "while it ran. This process ends; start it again, so that it continues from the tables",
        )


class LogChanged(ConfigurationError):
    """The log is not the one that the tables were loaded from: log partitions must be reloaded."""


class LogTruncated(LogChanged):
    """The log no longer has record offsets that the tables need or already hold.

    The rows of the log partition can only be rebuilt from the records that are in the log now.
    """

    def __init__(
        self, *, topic: str, log_partition: int, record_offset: int, log_start: int, log_end: int
    ) -> None:
        lost = (
            f"offsets {record_offset} to {log_start - 1} are lost, the log starts at {log_start}"
            if record_offset < log_start
            else f"offsets {log_end} to {record_offset - 1} are lost, "
            f"the log was truncated to {log_end}"
        )
        super().__init__(
            f"log partition {log_partition} of {topic}: {lost}; its rows must be reloaded"
        )
        self.log_partition = log_partition
        self.record_offset = record_offset
        self.log_start = log_start
        self.log_end = log_end


class SparkError(Exception):
    """A failure in Spark's JVM, with the text of the Java exception."""


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text, or the name of its class if it has no text."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def did_you_mean(name: str, names: Iterable[str], *, ignored: str = "") -> str:
    """The end of an error about an unknown name: up to three similar names, or nothing.

    All names may begin with `ignored`, which does not make them similar.

    >>> did_you_mean("paymets", ["orders", "payments", "payouts"])
    '; did you mean payments?'
    >>> did_you_mean("search", ["orders", "search-eu", "search-us"])
    '; did you mean search-us or search-eu?'
    """
    known = sorted(candidate.removeprefix(ignored) for candidate in names)
    wanted = name.removeprefix(ignored)
    similar = get_close_matches(wanted, known, cutoff=0.75)
    matches = (
        similar
        or [candidate for candidate in known if wanted and wanted.lower() in candidate.lower()][:3]
    )
    matches = [f"{ignored}{candidate}" for candidate in matches]
    return f"; did you mean {' or '.join(matches)}?" if matches else ""
