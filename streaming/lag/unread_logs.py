"""The sampled partitions that no group reads: those of `run --lag-topics all`, and a few others.

The others are partitions of topics of which groups read only a part.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.insight.lag import GONE, UNKNOWN, LogHistories
from coordinator_state.records.internal_topics import INTERNAL_TOPICS
from streaming.lag.group_lag import RATE_WINDOWS
from streaming.lag.last_writes import newest_sample
from streaming.lag.offset_samples import Logs, null_if_unknown
from streaming.lag.sample_runs import MAX_SAMPLE_AGE
from streaming.tables.reader import TableReader
from streaming.tables.schemas import LOG_OFFSETS

_OFFSETS: Final = ("log_start_offset", "last_stable_offset", "log_end_offset")
UNREAD_LOGS: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("state", pa.string()),
        *((name, pa.int64()) for name in _OFFSETS),
        ("produce_rate_per_s", pa.float64()),
    ]
)
"""The columns are those of `group_lag`; `state` is that of the newest sample."""


def unread_logs(reader: TableReader, at: datetime, lags: pa.Table) -> pa.Table:
    """The partitions of the last samples that have no row in `lags`, without internal topics.

    Args:
        reader: the snapshot.
        at: the time up to which samples count.
        lags: all rows of `group_lag`.
    """
    newest = newest_sample(reader, at)
    if newest is None:
        return UNREAD_LOGS.empty_table()
    rows = _sampled_since(reader, newest - MAX_SAMPLE_AGE, newest)
    is_internal = pc.is_in(rows["topic"], pa.array(INTERNAL_TOPICS))
    is_unread = Logs.of(lags).numbers(rows) == UNKNOWN
    rows = rows.filter(pc.and_not(pa.array(is_unread), is_internal.combine_chunks()))
    if not rows.num_rows:
        return UNREAD_LOGS.empty_table()
    logs = Logs.of(rows)
    histories = logs.histories(reader, since=newest - MAX_SAMPLE_AGE, until=newest, of_all=False)
    topics, partitions = logs.keys
    columns = {
        **{"topic": topics, "partition": partitions},
        "state": pa.array(histories.state, pa.string()),
        **{name: null_if_unknown(getattr(histories.newest, name)) for name in _OFFSETS},
        "produce_rate_per_s": _produce_rates(reader, newest, logs, histories),
    }
    table = pa.table([columns[name] for name in UNREAD_LOGS.names], schema=UNREAD_LOGS)
    return table.filter(pc.not_equal(table["state"], GONE))


def _sampled_since(reader: TableReader, since: datetime, until: datetime) -> pa.Table:
    during = [("sampled_at", ">=", since), ("sampled_at", "<=", until)]
    days = [("day", ">=", since.date()), ("day", "<=", until.date())]
    return reader.read(LOG_OFFSETS.name, ["topic", "partition"], [*days, *during])


def _produce_rates(
    reader: TableReader, newest: datetime, logs: Logs, histories: LogHistories
) -> pa.Array:
    """The growth of each log end over the longest window that its samples reach back to."""
    rates = np.full(len(logs), np.nan)
    for window in RATE_WINDOWS:
        before = newest - window
        then = logs.histories(reader, since=before - MAX_SAMPLE_AGE, until=before, of_all=False)
        is_known = histories.is_known & then.is_known
        grown = histories.newest.log_end_offset - then.newest.log_end_offset
        took_ms = histories.newest.sampled_at_ms - then.newest.sampled_at_ms
        is_known &= (grown >= 0) & (took_ms > 0) & np.isnan(rates)
        rates[is_known] = 1000 * grown[is_known] / took_ms[is_known]
    return pa.array(rates, from_pandas=True)
