"""Logs as files: what `decode --file` and Kafka's own `kafka-dump-log.sh` read.

The latter takes a name that is a number, the base offset, and `.log`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path

from coordinator_state.replay.partitioner import OFFSETS_TOPIC
from streaming.errors import ConfigurationError

_SEGMENT = f"{0:020d}.log"


def require_new(file: Path) -> None:
    """Refuse to write over anything, and what cannot be written.

    Raises:
        ConfigurationError: it is there already, or its folder cannot be made.
    """
    try:
        if file.exists():
            raise ConfigurationError(f"{file} is there already: remove it, or name another")
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"cannot write {file}: {error.strerror or error}") from error


def write_log_files(file: Path, logs: Iterable[tuple[int, bytes]], *, log_partitions: int) -> int:
    """Write the log of the only log partition as one file, those of several as a broker's folder.

    In the folder each log partition has one of its own, as below a broker's `log.dirs`, with one
    segment. It is there when all of it is. Returns how many bytes were written.

    Raises:
        ConfigurationError: it is there already, or cannot be written.
    """
    require_new(file)
    size_bytes = 0
    try:
        with tempfile.TemporaryDirectory(dir=file.parent, prefix=f".{file.name}-") as folder:
            beside = Path(folder, file.name)
            for log_partition, log in logs:
                segment = beside
                if log_partitions > 1:
                    segment = beside / f"{OFFSETS_TOPIC}-{log_partition}" / _SEGMENT
                    segment.parent.mkdir(parents=True)
                segment.write_bytes(log)
                size_bytes += len(log)
            beside.rename(file)
    except OSError as error:
        raise ConfigurationError(f"cannot write {file}: {error.strerror or error}") from error
    return size_bytes
