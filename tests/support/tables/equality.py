"""Whether tables hold what was committed, and what the broker answers."""

from __future__ import annotations

import random
from base64 import urlsafe_b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

import pyarrow as pa

from coordinator_state.model.plain_commits import Committed
from coordinator_state.records.record_types import NO_LEADER_EPOCH
from coordinator_state.replay.offsets import OffsetKey
from streaming.tables.reader import TableReader
from streaming.verify.broker_answers import BrokerAnswers
from streaming.verify.table_answers import TableAnswers
from streaming.verify.verification import Verification, compare

_OUTCOMES = ("applied", "superseded", "ignored", "quarantined", "pending")
_COLUMNS = ("committed_offset", "leader_epoch", "metadata", "commit_timestamp", "topic_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class Equality:
    """All committed offsets held against the commits, and those of some groups against the broker.

    `wrong_offsets` maps a key to what was committed last and to what the tables say.
    `records_unaccounted` is the sum over log partitions of the records that `load_progress` counts
    as read but not as anything else, or the other way round.
    """

    offsets: int
    wrong_offsets: Mapping[OffsetKey, tuple[Committed | None, Committed | None]]
    groups_sampled: int
    broker: Verification
    records_read: int
    records_unaccounted: int

    @property
    def is_equal(self) -> bool:
        """Whether nothing differs and every record is accounted for."""
        return not self.wrong_offsets and self.broker.is_equal and not self.records_unaccounted

    @property
    def summary(self) -> str:
        """The verdict in one line."""
        if self.is_equal:
            return (
                f"equal: {self.offsets} committed offsets to what was produced, "
                f"{self.groups_sampled} groups to the broker's answers"
            )
        return (
            f"different: {len(self.wrong_offsets)} committed offsets from what was produced, "
            f"{len(self.broker.differing)} of the broker's answers about {self.groups_sampled} "
            f"groups, {self.records_unaccounted} records unaccounted for"
        )


def check_equality(
    tables: str,
    expected: Mapping[OffsetKey, Committed],
    *,
    bootstrap_servers: str,
    groups_sampled: int,
) -> Equality:
    """Compare the tables with the last commit of each key, and with the broker about some groups.

    The same groups whenever the keys are the same.
    """
    reader = TableReader(tables)
    committed = committed_offsets(reader)
    groups = sorted({key.group_id for key in expected})
    sample = random.Random(0).sample(groups, min(groups_sampled, len(groups)))
    with BrokerAnswers(bootstrap_servers) as broker:
        answers = broker.answers(sample)
    progress = reader.read("load_progress").to_pylist()
    return Equality(
        offsets=len(committed),
        wrong_offsets={
            key: (expected.get(key), committed.get(key))
            for key in sorted(expected.keys() | committed.keys())
            if expected.get(key) != committed.get(key)
        },
        groups_sampled=len(sample),
        broker=compare(answers, TableAnswers(reader).answers(sample), answers),
        records_read=sum(row["records_read"] for row in progress),
        records_unaccounted=sum(
            abs(row["records_read"] - sum(row[f"records_{outcome}"] for outcome in _OUTCOMES))
            for row in progress
        ),
    )


def committed_offsets(reader: TableReader) -> dict[OffsetKey, Committed]:
    """The table `group_offsets` in the words of the commits."""
    rows = reader.read("group_offsets", [*OffsetKey._fields, *_COLUMNS])
    keys = map(OffsetKey, *(rows[name].to_pylist() for name in OffsetKey._fields))
    timestamps_ms = rows["commit_timestamp"].cast(pa.timestamp("ms", "UTC")).cast(pa.int64())
    values = map(
        Committed,
        rows["committed_offset"].to_pylist(),
        rows["leader_epoch"].fill_null(NO_LEADER_EPOCH).to_pylist(),
        rows["metadata"].to_pylist(),
        timestamps_ms.to_pylist(),
        map(_uuid, rows["topic_id"].to_pylist()),
    )
    return dict(zip(keys, values, strict=True))


def _uuid(text: str | None) -> UUID | None:
    return None if text is None else UUID(bytes=urlsafe_b64decode(f"{text}=="))
