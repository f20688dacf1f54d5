"""The answers of the tables, in the form of `broker_answers`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property
from typing import Any

from coordinator_state.records.record_types import NO_LEADER_EPOCH
from coordinator_state.replay.groups import SHARE
from streaming.tables.reader import TableReader
from streaming.tables.schemas import GROUP_MEMBERS, GROUPS
from streaming.verify.answer import (
    IS_PENDING,
    AnswerKey,
    Answers,
    Fields,
    group_fields,
    member_fields,
    topic_ids,
)

_GROUP_COLUMNS = [name for name in GROUPS.schema.names if name != "log_partition"]
_MEMBER_COLUMNS = [name for name in GROUP_MEMBERS.schema.names if name != "log_partition"]


class TableAnswers:
    """The answers of a coordinator that has the rows of one snapshot.

    Only rows in a group's own log partition count: if partitions were added to
    `__consumer_offsets`, old rows of a group stay in its earlier log partition. Like a coordinator,
    this leaves out committed and pending offsets of a group without a row in `groups`, and
    committed offsets of a share group.
    """

    def __init__(self, reader: TableReader) -> None:
        self._reader = reader

    @property
    def next_offsets(self) -> dict[int, int]:
        """The next offset of each log partition; 0 during a reload."""
        return {
            at: 0 if state.is_reloading else state.next_offset
            for at, state in self._reader.load_states.items()
        }

    @property
    def group_ids(self) -> set[str]:
        """Every group with a row in its own log partition."""
        return set(self._group_types)

    def topic_ids(self, group_ids: Collection[str] | None = None) -> set[str]:
        """The topic ids in assignments of members of these groups, or of all groups."""
        columns = ["group_id", "assignment", "target_assignment"]
        rows = self._own("group_members", group_ids, columns)
        return {topic_id for row in rows for topic_id in topic_ids(row)}

    @cached_property
    def _group_types(self) -> dict[str, str]:
        """The type by group id of every group with a row in its own log partition."""
        rows = self._own("groups", None, ["group_id", "group_type"])
        return {row["group_id"]: row["group_type"] for row in rows}

    def pending(self, group_ids: Collection[str] | None = None) -> set[tuple[str, str, int]]:
        """The (group, topic, partition)s with a pending commit."""
        columns = ["group_id", "topic", "partition"]
        rows = self._own("pending_offsets", group_ids, columns)
        return {(row["group_id"], row["topic"], row["partition"]) for row in rows}

    def answers(
        self,
        group_ids: Collection[str] | None = None,
        topic_names: Mapping[str, str] | None = None,
    ) -> Answers:
        """The answers for these groups or for all of them.

        `topic_names` are the cluster's topics by topic id: a coordinator leaves other topics out
        of its members' assignments.
        """
        fields_by_key: dict[AnswerKey, Fields] = {}
        for row in self._own("groups", group_ids, _GROUP_COLUMNS):
            fields_by_key[AnswerKey("group", row["group_id"])] = group_fields(row)
        for row in self._own("group_members", group_ids, _MEMBER_COLUMNS):
            fields_by_key[AnswerKey("member", row["group_id"], member_id=row["member_id"])] = (
                member_fields(self._group_types[row["group_id"]], row, topic_names or {})
            )
        columns = ["group_id", "topic", "partition", "committed_offset", "leader_epoch", "metadata"]
        for row in self._own("group_offsets", group_ids, columns):
            if self._group_types.get(row["group_id"], SHARE) != SHARE:
                epoch = row["leader_epoch"]
                key = AnswerKey("offset", row["group_id"], row["topic"], row["partition"])
                fields_by_key[key] = {
                    "committed_offset": row["committed_offset"],
                    "leader_epoch": NO_LEADER_EPOCH if epoch is None else epoch,
                    "metadata": row["metadata"],
                }
        for group, topic, partition in self.pending(group_ids):
            if group in self._group_types:
                fields_by_key[AnswerKey("pending", group, topic, partition)] = IS_PENDING
        return fields_by_key

    def _own(
        self, name: str, group_ids: Collection[str] | None, columns: list[str]
    ) -> list[dict[str, Any]]:
        """The rows of these groups in their own log partition."""
        rows: list[dict[str, Any]] = self._reader.own(name, columns, group_ids).to_pylist()
        return rows
