"""What the tables say to the questions that `broker_answers` asks the coordinators."""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.partitioner import partition_for
from coordinator_state.record_types import GROUP_METADATA_TYPE, NO_LEADER_EPOCH
from streaming.answers.answer import IS_PENDING, AnswerKey, Answers
from streaming.tables.reader import TableReader


class TableAnswers:
    """One snapshot of the tables, as a coordinator that holds them would answer.

    Only rows in a group's own log partition count: after the topic was expanded, a group leaves
    an orphan in its old one. Offsets and pending offsets of a group without a row in `groups` are
    left out as a coordinator leaves them out, unless the group is known not to be classic: those
    groups are not replayed into `groups`, and their offsets are.
    """

    def __init__(self, reader: TableReader) -> None:
        self._reader = reader

    @property
    def next_offsets(self) -> dict[int, int]:
        """Up to where each log partition is applied."""
        return {at: state.next_offset for at, state in self._reader.load_states.items()}

    @cached_property
    def group_ids(self) -> set[str]:
        """Every group with a row in its own log partition."""
        return {row["group_id"] for row in self._own("groups", None, ["group_id"])}

    @cached_property
    def modern_group_ids(self) -> set[str]:
        """Groups with records of the consumer, share or streams protocol, tombstones included."""
        records = self._reader.read(
            "coordinator_records",
            ["group_id"],
            [("record_type", ">", GROUP_METADATA_TYPE)],
        )
        return set(records["group_id"].to_pylist())

    def pending(self, group_ids: Collection[str] | None = None) -> set[tuple[str, str, int]]:
        """The (group, topic, partition)s with a pending offset."""
        columns = ["group_id", "topic", "partition"]
        rows = self._own("pending_offsets", group_ids, columns)
        return {(row["group_id"], row["topic"], row["partition"]) for row in rows}

    def answers(
        self, group_ids: Collection[str] | None = None, *, not_classic: Collection[str] = ()
    ) -> Answers:
        """The answers for these groups or for all of them."""
        found: dict[AnswerKey, dict[str, Any]] = {}
        fields = ["group_type", "state", "protocol_type"]
        for row in self._own("groups", group_ids, ["group_id", *fields]):
            found[AnswerKey("group", row["group_id"])] = {field: row[field] for field in fields}
        answering = self.group_ids | set(not_classic)
        fields = ["client_id", "client_host", "assignment_bytes"]
        for row in self._own("group_members", group_ids, ["group_id", "member_id", *fields]):
            found[AnswerKey("member", row["group_id"], member_id=row["member_id"])] = {
                "client_id": row["client_id"],
                "client_host": row["client_host"],
                "assignment": row["assignment_bytes"] or b"",
            }
        fields = ["committed_offset", "leader_epoch", "metadata"]
        of_key = ["group_id", "topic", "partition"]
        for row in self._own("group_offsets", group_ids, [*of_key, *fields]):
            if row["group_id"] in answering:
                epoch = row["leader_epoch"]
                key = AnswerKey("offset", row["group_id"], row["topic"], row["partition"])
                found[key] = {
                    "committed_offset": row["committed_offset"],
                    "leader_epoch": NO_LEADER_EPOCH if epoch is None else epoch,
                    "metadata": row["metadata"],
                }
        for group, topic, partition in self.pending(group_ids):
            if group in answering:
                found[AnswerKey("pending", group, topic, partition)] = IS_PENDING
        return found

    def _own(
        self, name: str, group_ids: Collection[str] | None, columns: list[str]
    ) -> list[dict[str, Any]]:
        """Rows of the groups asked for, in their own log partition."""
        condition = None
        if group_ids is not None:
            wanted = pa.array(sorted(group_ids), pa.string())
            condition = pc.field("group_id").isin(wanted)
        found = self._reader.read(name, [*columns, "log_partition"], condition)
        log_partitions = self._reader.log_partitions
        own: dict[str, int] = {}
        rows = []
        for row in found.to_pylist():
            group = row["group_id"]
            if group not in own:
                own[group] = partition_for(group, log_partitions)
            if row["log_partition"] == own[group]:
                rows.append(row)
        return rows
