"""Labels of members in rows, told apart from the current members of their groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from coordinator_state.insight.member_labels import MemberKey, labels_of
from streaming.tables.filters import of_groups
from streaming.tables.reader import TableReader

_KEY = ["group_id", "member_id", "client_id"]


def member_labels(
    reader: TableReader, rows: Iterable[Mapping[str, Any]]
) -> Mapping[MemberKey, str]:
    """Label the members in rows of events or members, and the current members of their groups."""
    named = list(rows)
    members = reader.read("group_members", _KEY, of_groups({row["group_id"] for row in named}))
    return labels_of([*named, *members.to_pylist()])
