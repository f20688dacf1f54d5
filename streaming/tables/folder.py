"""The tables folder: its local lock, its checks and its creation."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta

from deltalake import DeltaTable

from coordinator_state.insight.group_status import StatusRules
from streaming.errors import ConfigurationError
from streaming.tables import delta
from streaming.tables.base_maintenance import delete_bases
from streaming.tables.creation import create_tables, keep_snapshots, set_properties
from streaming.tables.damage import cut_damaged_logs
from streaming.tables.format_version import require_migratable
from streaming.tables.load_progress import LoadProgress
from streaming.tables.locations import local_path, require_usable
from streaming.tables.reader import TableReader
from streaming.tables.schemas import (
    DEFAULT_OFFSETS_RETENTION_MS,
    DEFAULT_SNAPSHOT_RETENTION,
    FORMAT_VERSION,
    HISTORY_OFF,
    LOAD_PROGRESS,
    PROPERTY_CLUSTER_ID,
    PROPERTY_EXTERNAL,
    PROPERTY_FORMAT_VERSION,
    PROPERTY_HISTORY,
    PROPERTY_HISTORY_RESOLUTION,
    PROPERTY_KAFKA_RELEASE,
    PROPERTY_LOG_PARTITIONS,
    PROPERTY_OFFSETS_RETENTION_MS,
    PROPERTY_SEMANTICS,
    PROPERTY_STATUS_RULES,
    PROPERTY_TOPIC_ID,
)
from streaming.tables.status_rules import status_rules_text
from streaming.tables.writer_epoch import WriterEpoch

LOCK_FILE = "_coordinator_state.lock"


@contextmanager
def locked(
    tables: str,
    lock_file: str = LOCK_FILE,
    writer: str = "run",
    advice: str = "stop it, or name another folder with --tables",
) -> Iterator[None]:
    """Lock a local folder against a second writer; create the folder if it is missing.

    A store has no lock: there the writer epoch (`writer_epoch`) fences the older writer. Writers of
    other tables use another `lock_file`, and `writer` names their command. `advice` ends the error
    if another writer holds the lock. The lock makes the caller the only writer, so it also repairs
    damage by a power loss (`damage`).

    Raises:
        ConfigurationError: another process holds the lock, the folder cannot be created, or its
            tables are damaged.
    """
    require_usable(tables)
    folder = local_path(tables)
    if folder is None:
        yield
        return
    with ExitStack() as held:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock = held.enter_context((folder / lock_file).open("w"))
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if lock_file == LOCK_FILE:
                cut_damaged_logs(tables)
        except BlockingIOError as error:
            raise ConfigurationError(
                f"another {writer} is writing to {tables}: {advice}"
            ) from error
        except OSError as error:
            raise ConfigurationError(
                f"cannot write to {tables}: {error.strerror or error}"
            ) from error
        yield


def has_tables(tables: str) -> bool:
    """Whether a folder has tables; `load_progress` is created last.

    Raises:
        TablesUnavailable: the folder cannot be read.
    """
    with delta.reading(tables):
        return DeltaTable.is_deltatable(LOAD_PROGRESS.path(tables))


def require_same_source(tables: str, *, cluster_id: str, semantics: str) -> None:
    """Refuse a folder whose tables have another cluster or other semantics.

    With `auto` the tables may have any semantics: an upgrade of the cluster may have changed them.

    Raises:
        ConfigurationError: the cluster or the semantics differ, or the tables cannot be migrated.
    """
    reader = TableReader(tables, any_format=True)
    require_migratable(tables, reader.format_version)
    if reader.cluster_id != cluster_id:
        raise ConfigurationError(
            f"{tables} has the tables of cluster {reader.cluster_id}, but the brokers belong to "
            f"cluster {cluster_id}: name another folder with --tables"
        )
    if semantics not in ("auto", reader.semantics):
        raise ConfigurationError(
            f"{tables} was loaded with --semantics {reader.semantics}, not {semantics}: "
            "leave out --semantics, and `run` reloads the tables by the rules of the cluster; or "
            "name another folder with --tables"
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
    """Create the tables of a folder without tables; `progress` has cluster, topic and semantics.

    Two processes may do this at the same time; each table is created once.

    Raises:
        TablesUnavailable: a table cannot be created.
    """
    create_tables(
        tables,
        {
            PROPERTY_FORMAT_VERSION: FORMAT_VERSION,
            PROPERTY_CLUSTER_ID: progress.cluster_id,
            PROPERTY_TOPIC_ID: progress.topic_id,
            PROPERTY_LOG_PARTITIONS: str(log_partitions),
            PROPERTY_SEMANTICS: progress.semantics.value,
            PROPERTY_KAFKA_RELEASE: str(progress.release),
            PROPERTY_OFFSETS_RETENTION_MS: str(offsets_retention_ms),
        },
        snapshot_retention=snapshot_retention,
        change_data_feed=change_data_feed,
    )


def keep_up_to_date(
    epoch: WriterEpoch,
    *,
    log_partitions: int,
    offsets_retention_ms: int,
    snapshot_retention: timedelta,
    history: str,
    history_resolution: str,
    status_rules: StatusRules,
    has_external: bool = False,
) -> None:
    """Set the table properties that may differ between two runs.

    Raises:
        TablesUnavailable: a table is missing, or cannot be written.
    """
    keep_snapshots(epoch, snapshot_retention)
    reader = TableReader(epoch.tables)
    if history == HISTORY_OFF != reader.history_mode:
        # Without the history after them, bases would give wrong tables later.
        delete_bases(epoch, kept_since=None)
    wanted = {
        PROPERTY_LOG_PARTITIONS: str(log_partitions),
        PROPERTY_OFFSETS_RETENTION_MS: str(offsets_retention_ms),
        PROPERTY_HISTORY: history,
        PROPERTY_HISTORY_RESOLUTION: history_resolution,
    }
    if has_external:
        wanted[PROPERTY_EXTERNAL] = "true"
    if status_rules != reader.status_rules:
        wanted[PROPERTY_STATUS_RULES] = status_rules_text(status_rules)
    set_properties(epoch, LOAD_PROGRESS, wanted)
