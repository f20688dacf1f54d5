"""The client of each pending offset: the application behind an open transaction.

A commit record has no client, and no broker answers with one. The client of a new pending offset
is the member with the partition in its assignment, in the group after the micro-batch that reads
the commit. Otherwise it is unknown. A pending offset keeps its client, also after the member has
left.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import pyarrow as pa

from coordinator_state.apply.collected import GroupId, distinct_groups
from coordinator_state.apply.columns import NOWHERE, positions, with_columns
from coordinator_state.apply.groups import GroupChange
from coordinator_state.apply.rows import OFFSET_KEY, PENDING_OFFSET_ROW
from coordinator_state.apply.state import ApplyState
from coordinator_state.insight.group_events import owners
from coordinator_state.replay.group_replay import described

_RECORD_ID: Final = ["log_partition", "record_offset"]
_KEY: Final = list(OFFSET_KEY)
_CLIENT: Final = ["client_id", "client_host"]
_OWNED: Final = pa.schema([PENDING_OFFSET_ROW.field(name) for name in (*_KEY, *_CLIENT)])


def with_clients(
    pending: pa.Table,
    before: ApplyState,
    changes: Mapping[GroupId, GroupChange],
    topic_names: Mapping[str, str],
) -> pa.Table:
    """Pending offsets with their clients.

    Args:
        pending: the pending offsets after the micro-batch (`PENDING_OFFSET_ROW`).
        before: the state before it.
        changes: the groups that it changed.
        topic_names: the known topic names by topic id.
    """
    if not pending.num_rows:
        return pending
    rows = positions(pending.select(_RECORD_ID), before.pending.select(_RECORD_ID))
    is_new = rows == NOWHERE
    new = pending.filter(pa.array(is_new))
    groups = distinct_groups(new)
    states = [changes[g].group if g in changes else before.groups.get(g) for g in groups]
    owned = [
        (*group, topic, partition, member.client_id, member.client_host)
        for group, state in zip(groups, states, strict=True)
        if state is not None
        for (topic, partition), member in owners(described(state, topic_names)).items()
        if topic is not None
    ]
    columns = zip(*owned, strict=True) if owned else [[]] * len(_OWNED)
    clients = pa.table(list(map(pa.array, columns, _OWNED.types)), schema=_OWNED)
    owner = positions(new.select(_KEY), clients.select(_KEY))
    rows[is_new] = np.where(owner == NOWHERE, NOWHERE, before.pending.num_rows + owner)
    known = pa.concat_tables([before.pending.select(_CLIENT), clients.select(_CLIENT)])
    taken = known.take(pa.array(rows, mask=rows == NOWHERE))
    return with_columns(pending, dict(zip(_CLIENT, taken.columns, strict=True)))
