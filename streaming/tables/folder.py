"""The tables folder: opened for writing by one process, made when it is not there."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from deltalake import DeltaTable

from coordinator_state.offsets import Semantics
from streaming.errors import ConfigurationError
from streaming.tables.creation import create_tables, keep_snapshots, set_properties
from streaming.tables.load_progress import LoadProgress
from streaming.tables.reader import TableReader
from streaming.tables.schemas import (
    DEFAULT_OFFSETS_RETENTION_MS,
    DEFAULT_SNAPSHOT_RETENTION,
    FORMAT_VERSION,
    LOAD_PROGRESS,
    PROPERTY_CLUSTER_ID,
    PROPERTY_FORMAT_VERSION,
    PROPERTY_LOG_PARTITIONS,
    PROPERTY_OFFSETS_RETENTION_MS,
    PROPERTY_SEMANTICS,
    PROPERTY_TOPIC_ID,
)

LOCK_FILE = "_coordinator_state.lock"


@contextmanager
def locked(tables: str, lock_file: str = LOCK_FILE) -> Iterator[None]:
    """Hold a folder against another writer on this machine, and make it where it is missing.

    Who writes other tables, or the checkpoint, has another `lock_file`.

    Delta would notice two writers, but only after both did the work.

    Raises:
        ConfigurationError: another process has it, or it cannot be made.
    """
    if "://" in tables:
        yield
        return
    try:
        folder = Path(tables)
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / lock_file).open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise ConfigurationError(
                    f"another run is writing to {tables}: stop it, or name another folder"
                ) from error
            yield
    except OSError as error:
        raise ConfigurationError(f"cannot write to {tables}: {error.strerror or error}") from error


def existing_progress(tables: str, *, cluster_id: str, semantics: Semantics) -> LoadProgress | None:
    """How far the tables of a folder are, None where there are none yet.

    Raises:
        ConfigurationError: they are of another format version, cluster or semantics.
    """
    if not DeltaTable.is_deltatable(LOAD_PROGRESS.path(tables)):
        return None
    reader = TableReader(tables)
    if reader.cluster_id != cluster_id:
        raise ConfigurationError(
            f"{tables} holds the tables of cluster {reader.cluster_id}, but this is {cluster_id}: "
            "name another folder with --tables"
        )
    if reader.semantics != semantics.value:
        raise ConfigurationError(
            f"{tables} was loaded with --semantics {reader.semantics}, now it is "
            f"{semantics.value}: pass --semantics {reader.semantics}, or load into another folder"
        )
    return LoadProgress.from_arrow(
        reader.read(LOAD_PROGRESS.name),
        cluster_id=cluster_id,
        topic_id=reader.topic_id,
        semantics=semantics,
    )


def create(
    tables: str,
    progress: LoadProgress,
    *,
    log_partitions: int,
    offsets_retention_ms: int = DEFAULT_OFFSETS_RETENTION_MS,
    snapshot_retention: timedelta = DEFAULT_SNAPSHOT_RETENTION,
    change_data_feed: bool = False,
) -> None:
    """Create the tables of a folder that has none, and keep what may change up to date.

    A folder that lacks some of its tables is not made whole: they would be empty.

    Raises:
        TablesUnavailable: some table is not there.
    """
    properties = {
        PROPERTY_FORMAT_VERSION: FORMAT_VERSION,
        PROPERTY_CLUSTER_ID: progress.cluster_id,
        PROPERTY_TOPIC_ID: progress.topic_id,
        PROPERTY_LOG_PARTITIONS: str(log_partitions),
        PROPERTY_SEMANTICS: progress.semantics.value,
        PROPERTY_OFFSETS_RETENTION_MS: str(offsets_retention_ms),
    }
    if not DeltaTable.is_deltatable(LOAD_PROGRESS.path(tables)):
        create_tables(
            tables,
            properties,
            snapshot_retention=snapshot_retention,
            change_data_feed=change_data_feed,
        )
    keep_snapshots(tables, snapshot_retention)
    reader = TableReader(tables)
    for name, found, wanted in (
        (PROPERTY_LOG_PARTITIONS, reader.log_partitions, log_partitions),
        (PROPERTY_OFFSETS_RETENTION_MS, reader.offsets_retention_ms, offsets_retention_ms),
    ):
        if found != wanted:
            set_properties(tables, LOAD_PROGRESS, {name: str(wanted)})
