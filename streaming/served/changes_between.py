"""Changes of groups and of their committed offsets between two snapshots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa

from streaming.served.snapshot import ServedSnapshot
from streaming.views import lists
from streaming.views.list_query import lines, rank
from streaming.views.query import asking

MOST: Final = 500
_STATE: Final = "group_id, status, group_state, member_count, partitions"
"""The part of a group whose change is shown."""
_GROUPS: Final = lines(
    "SELECT group_id FROM before AS b FULL JOIN after AS a USING (group_id)",
    "WHERE b IS DISTINCT FROM a",
    f"ORDER BY greatest({rank('b.status')}, {rank('a.status')}) DESC, group_id",
)
_OFFSETS: Final = """
WITH moves AS (
  SELECT group_id, topic, b.committed_offset AS was, a.committed_offset AS became,
         became - was AS moved
  FROM before AS b FULL JOIN after AS a USING (group_id, topic, partition)
  WHERE was IS DISTINCT FROM became
)
SELECT group_id, topic,
       CAST(coalesce(sum(moved) FILTER (moved > 0), 0) AS BIGINT) AS forward,
       CAST(coalesce(-sum(moved) FILTER (moved < 0), 0) AS BIGINT) AS back,
       count(*) FILTER (was IS NULL) AS added, count(*) FILTER (became IS NULL) AS removed
FROM moves GROUP BY group_id, topic
ORDER BY back DESC, removed DESC, group_id, topic
"""


class Heaviest(NamedTuple):
    """The rows of a table that matter most, and the number of the others."""

    rows: Sequence[Mapping[str, Any]]
    more: int


def group_changes(
    since: ServedSnapshot, until: ServedSnapshot, group_id: str | None, most: int = MOST
) -> Heaviest:
    """Groups whose status, state, or number of members or partitions changed, worst first.

    A row has the group `before` and `after`; None where the group did not exist.
    """
    sides = [side.listed(lists.groups_at(group_id), _STATE) for side in (since, until)]
    group_ids = _changes(_GROUPS, *sides)["group_id"].to_pylist()
    shown = group_ids[:most]
    before, after = since.groups(shown), until.groups(shown)
    rows = [
        {"group_id": name, "before": before.get(name), "after": after.get(name)} for name in shown
    ]
    return Heaviest(rows, len(group_ids) - len(shown))


def offset_changes(
    since: ServedSnapshot, until: ServedSnapshot, group_id: str | None, most: int = MOST
) -> Heaviest:
    """Changes of the committed offsets per group and topic; groups that went back come first.

    A row has the sums of offsets that went `forward` and `back`, and the numbers of partitions
    whose offset was `added` or `removed`.
    """
    sides = [side.listed(lists.offsets_at(group_id)) for side in (since, until)]
    changes = _changes(_OFFSETS, *sides)
    return Heaviest(changes.slice(0, most).to_pylist(), max(len(changes) - most, 0))


def _changes(sql: str, before: pa.Table, after: pa.Table) -> pa.Table:
    with asking({"before": before, "after": after}) as ask:
        return ask(sql)
