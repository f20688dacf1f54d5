"""The input of a micro-batch besides its rows: the state before it, and its context."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from coordinator_state.apply.collected import GroupId
from coordinator_state.apply.committed import COMMITTED_SCHEMA
from coordinator_state.apply.schemas import PENDING_OFFSET_ROW
from coordinator_state.replay.group_replay import GroupState
from coordinator_state.replay.offsets import Semantics


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyState:
    """The state before a micro-batch, of the log partitions in it; state of others is ignored.

    `committed` (`COMMITTED_SCHEMA`) has at least the offsets of the groups in the micro-batch. It
    may be empty without history under `coordinator` semantics. `pending` (`PENDING_OFFSET_ROW`) has
    all pending offsets. `groups` has at least the groups in the micro-batch and those with pending
    offsets. `tombstones`, needed under `scala` semantics for groups with pending offsets, has the
    record offset of each GroupMetadata tombstone that no value followed.
    """

    committed: pa.Table = field(default_factory=COMMITTED_SCHEMA.empty_table)
    pending: pa.Table = field(default_factory=PENDING_OFFSET_ROW.empty_table)
    groups: Mapping[GroupId, GroupState] = field(default_factory=dict)
    tombstones: Mapping[GroupId, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyContext:
    """The rules of a micro-batch.

    `with_history` is false for the history mode `off`. `offsets_retention_ms` is the brokers'
    `offsets.retention.minutes`: by it an event says that an offset expired. `topic_names` has names
    by topic id, as far as they are known.
    """

    semantics: Semantics
    with_history: bool
    offsets_retention_ms: int
    topic_names: Mapping[str, str] = field(default_factory=dict)
