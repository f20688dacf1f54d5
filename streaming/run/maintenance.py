"""Maintenance of a tables folder, beside `run` and as `coordinator-state maintain`."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import asdict
from datetime import timedelta
from typing import Final

from streaming.errors import ConfigurationError, WriterFenced
from streaming.tables import folder
from streaming.tables.clock import utc_now
from streaming.tables.creation import keep_snapshots
from streaming.tables.maintenance import TableMaintenance, maintain_tables
from streaming.tables.opening import open_for_writing
from streaming.tables.reader import TableReader
from streaming.tables.schemas import FORMAT_VERSION
from streaming.tables.writer_epoch import WriterEpoch

_BESIDE_RUN: Final = (
    "it maintains the tables itself, unless it has --upkeep-interval off; stop it to maintain them "
    "now"
)

logger = logging.getLogger(__name__)


def maintain(
    tables: str,
    *,
    history_retention: timedelta,
    snapshot_retention: timedelta | None = None,
) -> Iterator[TableMaintenance]:
    """Maintain a folder that no `run` on this machine is writing to, table by table.

    A folder of an earlier release is migrated first.

    Args:
        tables: the folder, or an address that delta-rs can open.
        history_retention: how long days of history are kept.
        snapshot_retention: how long snapshots are kept from now on; None keeps the current value.

    Raises:
        ConfigurationError: there are no tables, a `run` on this machine is writing to them, or a
            table's maintenance failed; the other tables are still maintained.
        WriterFenced: a newer writer has taken over.
    """
    # Refuses a folder without tables; the lock would create it.
    reader = TableReader(tables, any_format=True)
    with folder.locked(tables, advice=_BESIDE_RUN):
        # Does not fence a `run` that writes to a store; only a migration takes the folder over.
        if reader.format_version == FORMAT_VERSION:
            epoch = WriterEpoch.current(tables)
        else:
            epoch = open_for_writing(tables, "maintain").epoch
        if snapshot_retention is not None:
            keep_snapshots(epoch, snapshot_retention)
        errors = []
        for done in maintain_tables(epoch, history_retention, now=utc_now()):
            yield done
            errors += [done.error] if done.error else []
    if errors:
        raise ConfigurationError("; ".join(errors))


def maintain_beside_query(epoch: WriterEpoch, history_retention: timedelta) -> bool:
    """Maintain a folder beside the query that writes it; return whether all tables succeeded.

    Failures are logged and retried in the next round.

    Raises:
        WriterFenced: a newer writer has taken over.
    """
    is_complete = True
    try:
        for done in maintain_tables(epoch, history_retention, now=utc_now()):
            if done.error:
                logger.warning("%(error)s; retrying later", {"error": done.error})
                is_complete = False
            if not done.is_nothing:
                logger.info(
                    "maintenance of %(table)s: %(days_deleted)s days of history and "
                    "%(files_deleted)s files deleted, %(files_compacted)s files compacted",
                    asdict(done),
                )
    except WriterFenced:
        raise
    except ConfigurationError as error:
        logger.warning("%(error)s; retrying later", {"error": error})
        return False
    return is_complete
