"""What was asked to be loaded again: a file in the tables folder, which the next start takes up.

It is a file and no row, for only the query writes the tables while it runs.
"""

from __future__ import annotations

import json
from collections.abc import Collection

from pyarrow.fs import FileSystem, FileType

from streaming.errors import ConfigurationError
from streaming.tables.file_systems import file_system
from streaming.tables.reader import TableReader

REQUEST_FILE = "_coordinator_state.reload"


def request_reload(tables: str, log_partitions: Collection[int] | None = None) -> list[int]:
    """Ask for log partitions to be loaded again, for all of the tables where None.

    A query that runs takes it up within seconds, else the next one does. Returns what is asked for
    now, by earlier requests too.

    Raises:
        ConfigurationError: there are no tables, they have no such log partition, or the folder
            cannot be written.
    """
    known = TableReader(tables).load_states
    wanted = set(known if log_partitions is None else log_partitions)
    unknown = sorted(wanted - set(known))
    if unknown:
        raise ConfigurationError(
            f"{tables} has no rows of log partition {', '.join(map(str, unknown))}; it has "
            f"{_ranges(known)}"
        )
    wanted |= requested(tables)
    try:
        with file_system(tables).open_output_stream(REQUEST_FILE) as file:
            file.write(json.dumps({"log_partitions": sorted(wanted)}).encode())
    except OSError as error:
        raise ConfigurationError(f"cannot write to {tables}: {error}") from error
    return sorted(wanted)


def requested(tables: str) -> set[int]:
    """The log partitions that are asked for.

    Raises:
        ConfigurationError: the file holds something else.
    """
    folder = file_system(tables)
    if not _is_there(folder):
        return set()
    try:
        with folder.open_input_file(REQUEST_FILE) as file:
            return {int(number) for number in json.loads(file.read())["log_partitions"]}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigurationError(
            f"{REQUEST_FILE} in {tables} is no request to load again ({error}): delete it"
        ) from error


def forget_requests(tables: str) -> None:
    """They are taken up."""
    folder = file_system(tables)
    if _is_there(folder):
        folder.delete_file(REQUEST_FILE)


def _is_there(folder: FileSystem) -> bool:
    (found,) = folder.get_file_info([REQUEST_FILE])
    return bool(found.type is FileType.File)


def _ranges(numbers: Collection[int]) -> str:
    """Numbers in words, runs of them as ranges.

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
