"""What stands in the way of a plan: members, open transactions, clients that Kafka does not see."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from coordinator_state.insight.group_status import count_text
from streaming.tables.reader import TableReader

_SHOWN: Final = 10
"""The number of clients that a warning names."""


class Client(NamedTuple):
    """The client of a member."""

    client_id: str
    client_host: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacles:
    """The facts about a group that a person must deal with before a plan is executed."""

    group_id: str
    members: list[Client]
    pending_producer_ids: list[int]
    is_simple: bool

    @classmethod
    def of(cls, reader: TableReader, group_id: str) -> Obstacles:
        """Find them in a snapshot."""
        members = reader.own("group_members", [*Client._fields], [group_id]).to_pylist()
        pending = reader.own("pending_offsets", ["producer_id"], [group_id])
        groups = reader.own("groups", ["protocol_type"], [group_id])["protocol_type"]
        return cls(
            group_id=group_id,
            members=sorted(Client(row["client_id"], row["client_host"]) for row in members),
            pending_producer_ids=sorted(set(pending["producer_id"].to_pylist())),
            is_simple=groups.to_pylist() == [""],
        )

    @property
    def warnings(self) -> list[str]:
        """A sentence for each of them."""
        sentences = []
        if self.members:
            clients = [f"{member.client_id} at {member.client_host}" for member in self.members]
            count, more = count_text(len(clients), "member"), len(clients) - _SHOWN
            shown = ", ".join(clients[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
            sentences.append(
                f"{self.group_id} has {count}, and Kafka resets only groups without members: "
                f"stop first {shown}"
            )
        sentences += [
            f"{self.group_id} has pending offsets of producer {producer_id}: a commit of its "
            "transaction would overwrite the plan"
            for producer_id in self.pending_producer_ids
        ]
        if self.is_simple:
            sentences.append(
                f"{self.group_id} is a simple group (assign() without joining): make sure that its "
                "clients have stopped, Kafka does not check that"
            )
        return sentences
