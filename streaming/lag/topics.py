"""The view `topics`: all topics that the tables know, with the values of their readers.

A topic is known if a group reads it, or if it is sampled (`run --lag-topics all`). A partition is
read if it has a committed offset or a member.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.apply.columns import columns_of, nullable, schema_of
from coordinator_state.insight.lag import GONE, UNKNOWN, Int64s
from coordinator_state.replay.groups import SHARE
from streaming.lag.partition_statuses import STATUS_NAMES, ranks_of
from streaming.lag.rows import TopicRow

Row = dict[str, Any]
_SILENT: Final = pa.schema(
    [("group_id", pa.string()), ("topic", pa.string()), ("partition", pa.int32())]
)
OF_LAGS: Final = (
    *(*_SILENT.names, "topic_state", "produce_rate_per_s", "lag", "time_lag_ms"),
    *("time_lag_at_least_ms", "retention_margin_ms", "status"),
    *("committed_offset", "member_id", "group_type"),
)
"""The columns of `group_lag` that it needs."""
TOPICS: Final = nullable(schema_of(TopicRow))
_COUNT: Final = pa.int64()
_SLOWEST: Final = {
    "lag": "lag_sum",
    "max_time_lag_ms": "time_lag_ms_max",
    "max_time_lag_at_least_ms": "time_lag_at_least_ms_max",
}
"""Columns of the slowest reader, and their names among the pairs of topic and group."""


def topics_of(
    lags: pa.Table,
    unread: pa.Table,
    silent: Mapping[str, Sequence[Row]],
) -> pa.Table:
    """The rows of `topics`, in the order of the names.

    Args:
        lags: the rows of `group_lag`, in any order.
        unread: the rows of `unread_logs`.
        silent: the assigned partitions of each group that are not in `lags`.
    """
    rows = _rows(lags, unread, silent)
    names = pc.unique(rows["topic"].combine_chunks())
    rows = rows.set_column(
        rows.schema.get_field_index("topic"), "topic", pc.index_in(rows["topic"], names)
    )
    logs = _aggregated(
        rows,
        ["topic", "partition"],
        [("produce_rate_per_s", "max"), ("is_read", "max"), ("topic_state", "max")],
    )
    topics = _aggregated(
        logs,
        ["topic"],
        [
            *(("partition", "max"), ("is_read_max", "sum"), ("produce_rate_per_s_max", "sum")),
            ("topic_state_max", "max"),
        ],
    )
    pairs = _aggregated(
        rows.filter(pc.is_valid(rows["group_id"])),
        ["topic", "group_id"],
        [
            *(("lag", "sum"), ("time_lag_ms", "max"), ("time_lag_at_least_ms", "max")),
            ("retention_margin_ms", "min"),
        ],
    )
    # A client may commit for any partition number, also for negative ones alone.
    highest = pc.cast(topics["partition_max"], pa.int64())
    partitions = pc.max_element_wise(pc.add(highest, 1), 0)
    is_gone = pc.equal(topics["topic_state_max_max"], GONE).fill_null(False)
    unread_partitions = pc.subtract(partitions, topics["is_read_max_sum"].fill_null(0))
    worst = _or_null(_last_of_topics(rows, len(names), ["rank", "lag"], rows["rank"]))
    slowest = pairs.take(
        _or_null(_last_of_topics(pairs, len(names), ["time_lag_at_least_ms_max", "lag_sum"]))
    )
    margins = pairs.group_by("topic").aggregate([("retention_margin_ms_min", "min")])
    table = pa.table(
        {
            "topic": names,
            "topic_state": topics["topic_state_max_max"],
            "status": STATUS_NAMES.take(rows["rank"].take(worst).combine_chunks()),
            "worst_group_id": rows["group_id"].take(worst),
            "readers": np.bincount(pairs["topic"].to_numpy(), minlength=len(names)),
            "slowest_group_id": slowest["group_id"],
            **{name: slowest[of_pairs] for name, of_pairs in _SLOWEST.items()},
            "min_retention_margin_ms": margins["retention_margin_ms_min_min"].take(
                pc.index_in(pa.array(np.arange(len(names)), pa.int32()), margins["topic"])
            ),
            "produce_rate_per_s": topics["produce_rate_per_s_max_sum"],
            "partitions": partitions,
            "partitions_unread": pc.if_else(is_gone, None, unread_partitions),
        }
    )
    return columns_of(table, TOPICS).sort_by("topic")


def _rows(
    lags: pa.Table,
    unread: pa.Table,
    silent: Mapping[str, Sequence[Row]],
) -> pa.Table:
    """The rows of `lags` come first; a row without a group is a partition of a topic."""
    ranks = pa.array(ranks_of(lags["status"]))
    is_read = pc.or_(
        pc.or_(pc.is_valid(lags["committed_offset"]), pc.is_valid(lags["member_id"])),
        pc.equal(lags["group_type"], SHARE),
    )
    ranked = lags.select(OF_LAGS).drop_columns(["status", "committed_offset", "group_type"])
    ranked = ranked.append_column("rank", ranks).append_column("is_read", pc.cast(is_read, _COUNT))
    assigned = [{"group_id": group} | row for group, rows in silent.items() for row in rows]
    of_silent = pa.Table.from_pylist(assigned, _SILENT)
    of_silent = of_silent.append_column("is_read", pa.repeat(pa.scalar(1, _COUNT), len(assigned)))
    rows = pa.concat_tables([ranked, of_silent], promote_options="default")
    others = unread.select(["topic", "partition", "produce_rate_per_s"])
    others = others.append_column("topic_state", unread["state"])
    return pa.concat_tables([rows, others], promote_options="default").combine_chunks()


def _aggregated(rows: pa.Table, key: list[str], of: list[tuple[str, str]]) -> pa.Table:
    return rows.group_by(key, use_threads=False).aggregate(of).sort_by([(key[0], "ascending")])


def _last_of_topics(
    rows: pa.Table, topics: int, by: Sequence[str], wanted: pa.ChunkedArray | None = None
) -> Int64s:
    """The number of the greatest row of each topic; `UNKNOWN` without one.

    Rows whose value of `wanted` is null do not count.
    """
    keys = [rows[name].fill_null(UNKNOWN).to_numpy() for name in reversed(by)]
    # Of equal groups, the last by name: rows are in any order.
    keys = [_places(rows["group_id"]), *keys]
    topic = rows["topic"].to_numpy()
    order = np.lexsort([*keys, topic])
    if wanted is not None:
        order = order[pc.is_valid(wanted).to_numpy()[order]]
    numbers = np.full(topics, UNKNOWN)
    numbers[topic[order]] = order
    return numbers


def _places(names: pa.ChunkedArray) -> Int64s:
    """The place of each name in their order; 0 for null."""
    encoded = names.combine_chunks().dictionary_encode()
    places = np.zeros(len(encoded.dictionary) + 1, np.int64)
    places[pc.sort_indices(encoded.dictionary).to_numpy()] = np.arange(len(encoded.dictionary))
    place_of_each: Int64s = places[encoded.indices.fill_null(len(encoded.dictionary)).to_numpy()]
    return place_of_each


def _or_null(numbers: Int64s) -> pa.Array:
    return pa.array(numbers, mask=numbers == UNKNOWN)
