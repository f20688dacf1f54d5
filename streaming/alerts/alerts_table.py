"""The table `alerts`: the alerts of `alert run`, which a restart continues from."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from streaming.alerts.alert import Alert, AlertKey, Alerts, AlertState, Sent
from streaming.tables.creation import create_table
from streaming.tables.damage import cut_damaged_log
from streaming.tables.maintenance import clean_log
from streaming.tables.migration import add_columns_of
from streaming.tables.reader import TableReader
from streaming.tables.schemas import ALERTS
from streaming.tables.writer import Writer
from streaming.tables.writer_epoch import WriterEpoch

KEPT_HOURS = 7 * 24
"""How long old versions of the table can be read."""


def read_alerts(reader: TableReader) -> dict[AlertKey, Alert]:
    """The alerts of a tables folder; empty if `alert run` never ran on it."""
    rows = reader.read(ALERTS.name).to_pylist()
    return {alert.key: alert for alert in map(_alert, rows)}


def open_alerts(tables: str) -> Writer:
    """Create the table if it is missing, and become its writer.

    The table has its own writer epoch: an older `alert run` on this folder is fenced.

    Raises:
        TablesUnavailable: the table cannot be written.
    """
    cut_damaged_log(tables, ALERTS)
    kept = f"interval {KEPT_HOURS} hours"
    create_table(
        tables,
        ALERTS,
        {"delta.logRetentionDuration": kept, "delta.deletedFileRetentionDuration": kept},
    )
    epoch = WriterEpoch.take(tables, "alert run", ALERTS)
    # An earlier release may have created it.
    add_columns_of(epoch, ALERTS)
    return Writer.of(epoch)


def write_alerts(writer: Writer, alerts: Alerts) -> None:
    """Replace the rows of the table.

    Raises:
        WriterFenced: a newer `alert run` has taken over.
        TablesUnavailable: the table cannot be written.
    """
    rows = [_row(alerts[key]) for key in sorted(alerts, key=_order)]
    writer.overwrite(ALERTS, pa.Table.from_pylist(rows, schema=ALERTS.schema))


def clean_up_alerts(tables: str) -> None:
    """Remove old versions of the table: each change of an alert writes one."""
    path = ALERTS.path(tables)
    if DeltaTable.is_deltatable(path):
        opened = DeltaTable(path)
        opened.create_checkpoint()
        opened.vacuum(dry_run=False)
        clean_log(path, opened)


def _order(key: AlertKey) -> tuple[Any, ...]:
    return tuple((part is not None, part) for part in key)


def _alert(row: dict[str, Any]) -> Alert:
    own = {field.name: row[field.name] for field in fields(Alert) if field.name != "key"}
    return Alert(
        **{
            **own,
            "key": AlertKey(*(row[name] for name in ALERTS.key)),
            "state": AlertState(row["state"]),
            "sent": tuple(
                Sent(sent["sink"], AlertState(sent["state"]), sent["sent_at"])
                for sent in row["sent"] or ()
            ),
        }
    )


def _row(alert: Alert) -> dict[str, Any]:
    return {**alert.key._asdict(), **asdict(alert)}
