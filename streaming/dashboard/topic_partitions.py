"""The partitions of a topic: those that groups read, and those that nobody reads."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

Row = dict[str, Any]

AT_ONCE: Final = 64
"""The partitions that a page shows."""
_OF_LOG: Final = (
    *("log_start_offset", "log_end_offset", "last_stable_offset", "produce_rate_per_s"),
)


@dataclass(slots=True)
class TopicPartitions:
    """The partitions of a topic.

    Args:
        topic: a row of `topics`.
        rows: the rows of `group_lag` of the topic.
        unread: the rows of `unread_logs`.
    """

    topic: Row
    rows: Sequence[Row]
    unread: pa.Table

    def __len__(self) -> int:
        number: int = self.topic["partitions"]
        return number

    def shown(self, first: str) -> list[Row]:
        """The partitions from a number on, with offsets, produce rate, readers and greatest lag.

        `share` is the part of the records that is produced to the partition. `bar` is its produce
        rate in percent of the greatest one.
        """
        begin = int(first) if first.isdecimal() and len(first) < 10 else 0
        begin = max(min(begin, len(self) - 1), 0) // AT_ONCE * AT_ONCE
        rows = self._by_partition()
        rates = {partition: logs[0]["produce_rate_per_s"] for partition, logs in rows.items()}
        known = [rate for rate in rates.values() if rate]
        return [
            {
                **dict.fromkeys(_OF_LOG),
                **{name: log[name] for log in rows.get(partition, ())[:1] for name in _OF_LOG},
                "partition": partition,
                "share": _part(rates.get(partition), sum(known)),
                "bar": round(100 * (_part(rates.get(partition), max(known, default=0)) or 0)),
                "groups": sum("lag" in log for log in rows.get(partition, ())),
                "max_lag": max(
                    (log["lag"] for log in rows.get(partition, ()) if log.get("lag") is not None),
                    default=None,
                ),
            }
            for partition in range(begin, min(begin + AT_ONCE, len(self)))
        ]

    def _by_partition(self) -> dict[int, list[Row]]:
        """The rows of each partition; those of an unread one have no lag."""
        by_partition: dict[int, list[Row]] = defaultdict(list)
        of_topic = self.unread.filter(pc.equal(self.unread["topic"], self.topic["topic"]))
        for row in (*self.rows, *of_topic.to_pylist()):
            by_partition[row["partition"]].append(row)
        return by_partition


def _part(value: float | None, of: float) -> float | None:
    return value / of if value is not None and of else None
