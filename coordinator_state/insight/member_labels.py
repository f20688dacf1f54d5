"""Short names of members, for people: the client id and the end of the member id.

Members on one host often share the client id, and a member id is a client id or an instance id with
36 more characters. `search-consumer-51f4` is short and names one member of its group.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final

SHORTEST: Final = 4
"""The number of characters of the member id that a label has at least."""
MemberKey = tuple[str, str]
"""The group id and the member id."""


def labels_of(rows: Iterable[Mapping[str, Any]]) -> dict[MemberKey, str]:
    """Label the members in rows with `group_id`, `member_id` and `client_id`.

    Rows without a member id are skipped. Labels are unique within a group, so a label depends on
    the other members among the rows.
    """
    groups: dict[str, dict[str, str | None]] = defaultdict(dict)
    for row in rows:
        if row["member_id"] is not None:
            groups[row["group_id"]][row["member_id"]] = row["client_id"]
    return {
        (group_id, member_id): label
        for group_id, members in groups.items()
        for member_id, label in member_labels(members).items()
    }


def member_labels(members: Mapping[str, str | None]) -> dict[str, str]:
    """Label the members of one group: a distinct label for each member id.

    `members` has the client id of each member id. A label has the last four characters of the
    member id, and more where two labels would be equal.

    >>> member_labels({"search-8c1d51f4": "search", "search-77aa0b9e": "search"})
    {'search-8c1d51f4': 'search-51f4', 'search-77aa0b9e': 'search-0b9e'}
    >>> member_labels({"instance-1": "search", "instance-2": None})
    {'instance-1': 'search-ce-1', 'instance-2': 'ce-2'}
    """
    lengths = dict.fromkeys(members, SHORTEST)
    while True:
        labels = {
            member_id: _label(member_id, client_id, lengths[member_id])
            for member_id, client_id in members.items()
        }
        counts = Counter(labels.values())
        doubled = [member_id for member_id, label in labels.items() if counts[label] > 1]
        if not doubled:
            return labels
        for member_id in doubled:
            lengths[member_id] += 1


def _label(member_id: str, client_id: str | None, length: int) -> str:
    own = member_id.removeprefix(f"{client_id}-")
    if length > max(len(own), SHORTEST):
        # No other member has the same whole member id.
        return member_id
    return f"{client_id}-{own[-length:]}" if client_id else own[-length:]
