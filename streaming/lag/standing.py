"""The times since which groups have their status, from the changes that `run` recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.apply.columns import distinct_keys
from coordinator_state.insight.group_status import Status
from streaming.lag.offset_samples import to_ms
from streaming.tables.reader import TableReader
from streaming.tables.schemas import STATUS_CHANGES

UNKNOWN_STATUS: Final = Status.UNKNOWN.value
_COLUMNS = ["group_id", "topic", "changed_at", "status_before", "status_after"]
_MOST_NAMED = 1_000
"""For more groups, the changes of all groups are read."""


def standing(changes: pa.Table, key: Sequence[str]) -> pa.Table:
    """The last known status of each key: `status`, `status_since` and `is_status_older`.

    Times with the status `UNKNOWN` in between do not end a status. A status may be older than its
    first change if it was the first of the key, or came after `UNKNOWN`.

    Args:
        changes: the key, `changed_at`, `status_before` and `status_after`.
        key: the columns of the key.
    """
    rows = changes.filter(pc.not_equal(changes["status_after"], UNKNOWN_STATUS).fill_null(True))
    ids = distinct_keys(rows.select(key))
    order = np.lexsort((to_ms(rows["changed_at"]).to_numpy(), ids))
    rows, ids = rows.take(pa.array(order)), ids[order]
    codes = rows["status_after"].combine_chunks().dictionary_encode("encode").indices.to_numpy()
    is_begin = np.ones(ids.size, np.bool_)
    is_begin[1:] = (ids[1:] != ids[:-1]) | (codes[1:] != codes[:-1])
    begins = np.flatnonzero(is_begin)
    is_last = np.append(ids[begins][1:] != ids[begins][:-1], True)[: begins.size]
    first = rows.take(pa.array(begins[is_last]))
    before = first["status_before"]
    is_older = pc.or_(pc.is_null(before), pc.equal(before, UNKNOWN_STATUS).fill_null(False))
    columns = [*(first[name] for name in key), first["status_after"], first["changed_at"], is_older]
    return pa.table(columns, names=[*key, "status", "status_since", "is_status_older"])


def standing_since(reader: TableReader, statuses: pa.Table, at: datetime) -> Mapping[str, datetime]:
    """The time since which each group has its status, if the last recorded change was one to it.

    Times with the status `UNKNOWN` in between do not count.

    Args:
        reader: the snapshot.
        statuses: `group_id` and `status` of the groups.
        at: the moment of the statuses; later changes do not count.
    """
    wanted: list[tuple[str, str, Any]] = [("day", "<=", at.date()), ("changed_at", "<=", at)]
    if statuses.num_rows <= _MOST_NAMED:
        wanted.append(("group_id", "in", statuses["group_id"].to_pylist()))
    changes = reader.read(STATUS_CHANGES.name, _COLUMNS, wanted)
    changes = changes.filter(pc.is_null(changes["topic"])).sort_by("changed_at")
    last = changes.group_by("group_id", use_threads=False).aggregate(
        # A deletion is a change to null.
        [
            ("status_after", "last", pc.ScalarAggregateOptions(skip_nulls=False)),
            ("changed_at", "last"),
        ]
    )
    last = last.rename_columns(["group_id", "status", "status_since"])
    is_unknown = pc.equal(last["status"], UNKNOWN_STATUS).fill_null(False)
    unknown = last.filter(is_unknown)
    known = standing(changes, ["group_id"]).select(last.column_names)
    is_now_unknown = pc.is_in(known["group_id"], unknown["group_id"].combine_chunks())
    standings = pa.concat_tables(
        [known.filter(pc.invert(is_now_unknown)), unknown], promote_options="permissive"
    )
    current = statuses.select(["group_id", "status"])
    rows = current.join(standings, ["group_id", "status"], join_type="inner")
    columns = rows["group_id"].to_pylist(), rows["status_since"].to_pylist()
    return dict(zip(*columns, strict=True))
