"""The inputs of a micro-batch besides its rows: the state before it and the context."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from coordinator_state.apply.collected import GroupId
from coordinator_state.apply.committed import COMMITTED_SCHEMA
from coordinator_state.apply.rows import PENDING_OFFSET_ROW
from coordinator_state.replay.group_replay import GroupState
from coordinator_state.replay.offsets import Semantics
from coordinator_state.replay.releases import Release


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyState:
    """The state of the micro-batch's log partitions before it.

    State of other log partitions is ignored.

    Attributes:
        committed: the committed offsets (`COMMITTED_SCHEMA`), at least of the groups in the
            micro-batch. It may be empty without history under `coordinator` semantics.
        pending: all pending offsets (`PENDING_OFFSET_ROW`).
        groups: at least the groups in the micro-batch and the groups with pending offsets.
        tombstones: the record offset of each GroupMetadata tombstone with no later value. Only
            needed under `scala` semantics, for groups with pending offsets.
    """

    committed: pa.Table = field(default_factory=COMMITTED_SCHEMA.empty_table)
    pending: pa.Table = field(default_factory=PENDING_OFFSET_ROW.empty_table)
    groups: Mapping[GroupId, GroupState] = field(default_factory=dict)
    tombstones: Mapping[GroupId, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyContext:
    """The rules of a micro-batch.

    Attributes:
        semantics: the loader's rules.
        release: the rules of group records under `coordinator` semantics.
        with_history: false for the history mode `off`.
        offsets_retention_ms: the brokers' `offsets.retention.minutes`, in milliseconds. Events use
            it to tell expired offsets from deleted ones.
        topic_names: the known topic names by topic id.
    """

    semantics: Semantics
    release: Release
    with_history: bool
    offsets_retention_ms: int
    topic_names: Mapping[str, str] = field(default_factory=dict)
