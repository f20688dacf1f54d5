"""Requests for reloads: a file for each log partition, in a folder beside the tables.

They are files, not rows, because only the query writes the tables while it runs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from pyarrow.fs import FileSelector

from streaming.errors import ConfigurationError, TablesUnavailable
from streaming.tables.file_systems import file_system
from streaming.tables.reader import TableReader

REQUESTS = "_coordinator_state.reload"


def request_reload(tables: str, log_partitions: Collection[int] | None = None) -> list[int]:
    """Request the reload of log partitions; of all log partitions of the tables if None.

    A running query starts the reload within seconds; otherwise the next run that reads the log
    partition does. Returns all requested log partitions, with those of earlier requests.

    Raises:
        ConfigurationError: there are no tables, they lack a log partition, or the folder cannot be
            written.
    """
    known = TableReader(tables).load_states
    wanted = set(known if log_partitions is None else log_partitions)
    if not known:
        raise ConfigurationError(
            f"{tables} has no rows of any log partition yet, so there is nothing to reload"
        )
    unknown = sorted(wanted - set(known))
    if unknown:
        raise ConfigurationError(
            f"{tables} has no rows of log partition {', '.join(map(str, unknown))}; it has "
            f"{_ranges(known)}"
        )
    with _accessing(tables):
        folder = file_system(tables)
        folder.create_dir(REQUESTS)
        for log_partition in wanted:
            with folder.open_output_stream(_file(log_partition)) as file:
                file.write(b"\n")
    return sorted(requested(tables))


def requested(tables: str) -> set[int]:
    """The log partitions whose reload is requested.

    Raises:
        TablesUnavailable: the folder cannot be read.
    """
    with _accessing(tables):
        entries = file_system(tables).get_file_info(FileSelector(REQUESTS, allow_not_found=True))
        return {int(entry.base_name) for entry in entries if entry.base_name.isdecimal()}


def forget_requests(tables: str, log_partitions: Collection[int]) -> None:
    """Delete the requests of log partitions whose reload has begun.

    Raises:
        TablesUnavailable: the folder cannot be written.
    """
    with _accessing(tables):
        folder = file_system(tables)
        for log_partition in log_partitions:
            folder.delete_file(_file(log_partition))


def _file(log_partition: int) -> str:
    return f"{REQUESTS}/{log_partition}"


@contextmanager
def _accessing(tables: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise TablesUnavailable(
            f"cannot read or write {REQUESTS} in {tables}: {error.strerror or error}"
        ) from error


def _ranges(numbers: Collection[int]) -> str:
    """Numbers as text, with runs as ranges.

    >>> _ranges({0, 1, 2, 7})
    '0 to 2, 7'
    """
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs)
