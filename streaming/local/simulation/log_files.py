"""Logs as files that `decode --file` and Kafka's own `kafka-dump-log.sh` can read.

`kafka-dump-log.sh` needs a file name that consists of the base offset and `.log`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path

from coordinator_state.replay.partitioner import OFFSETS_TOPIC
from streaming.errors import ConfigurationError

_SEGMENT = f"{0:020d}.log"


def require_new(file: Path) -> None:
    """Check that the file does not exist, and create its folder.

    Raises:
        ConfigurationError: the file exists, or its folder cannot be created.
    """
    try:
        if file.exists():
            raise ConfigurationError(f"{file} already exists: remove it, or name another file")
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"cannot write {file}: {error.strerror or error}") from error


def write_log_files(file: Path, logs: Iterable[tuple[int, bytes]], *, log_partitions: int) -> int:
    """Write one log partition as a file, or several as a folder; return the size in bytes.

    In the folder each log partition has its own folder with one segment, as in a broker's
    `log.dirs`. The file or folder appears only when it is complete.

    Raises:
        ConfigurationError: the file or folder exists, or cannot be written.
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
