"""What a coordinator answered to a script, with names in place of the ids that it drew.

Ids are named after the client that got them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

from coordinator_state.model.requests import (
    JoinGroupRequest,
    JoinGroupResponse,
    MemberIdentity,
    OffsetCommitRequest,
    OffsetToCommit,
    Reply,
    SyncGroupRequest,
)
from coordinator_state.records.consumer_protocol import encode_assignment, encode_subscription
from tests.support.clients.coordinator_clients import Coordinator

CLIENT_HOST = "/127.0.0.1"


@dataclass(kw_only=True)
class Names:
    """What a coordinator called whom: a member id's client."""

    groups: set[str] = field(default_factory=set)
    """What the script is about: members of another one's groups may time out meanwhile."""

    names: dict[str, str] = field(default_factory=dict)

    def named(self, value: Any) -> Any:
        """A value with names in place of ids, and without the order of what has none."""
        if isinstance(value, str):
            return self.names.get(value, value)
        if is_dataclass(value) and not isinstance(value, type):
            return {f.name: self.named(getattr(value, f.name)) for f in fields(value)}
        if isinstance(value, dict):
            return {self.named(key): self.named(item) for key, item in value.items()}
        if isinstance(value, tuple) and value and isinstance(value[0], tuple):
            return tuple(sorted(map(self.named, value), key=repr))
        if isinstance(value, list | tuple):
            return tuple(map(self.named, value))
        return value


@dataclass
class Told(Names):
    """The answers of a coordinator, one after the other."""

    coordinator: Coordinator
    answers: list[tuple[str, Any]] = field(default_factory=list)

    def note(self, what: str, answer: Any) -> Any:
        self.answers.append((what, self.named(answer)))
        return answer

    # --- what scripts do often

    def begin_join(
        self, client: str, group_id: str, member_id: str = "", **request: Any
    ) -> Reply[JoinGroupResponse]:
        self.groups.add(group_id)
        return self.coordinator.join(
            client,
            JoinGroupRequest(
                group_id=group_id,
                member_id=member_id,
                client_id=client,
                client_host=CLIENT_HOST,
                **{
                    "protocols": (("range", subscription("t")),),
                    "session_timeout_ms": 30_000,
                    "rebalance_timeout_ms": 6_000,
                    **request,
                },
            ),
        )

    def joined(self, *waiting: tuple[str, Reply[JoinGroupResponse]]) -> list[JoinGroupResponse]:
        """Wait for joins, and note their answers under the names of their clients."""
        self.coordinator.settle(*(reply for _, reply in waiting))
        answers = [reply.get() for _, reply in waiting]
        for (client, _), answer in zip(waiting, answers, strict=True):
            if answer.member_id and answer.member_id not in self.names:
                times = sum(name.startswith(f"{client}#") for name in self.names.values())
                self.names[answer.member_id] = f"{client}#{times + 1}"
        for (client, _), answer in zip(waiting, answers, strict=True):
            self.note(f"join {client}", answer)
        return answers

    def join(self, client: str, group_id: str, member_id: str = "", **request: Any) -> Any:
        """A join that is answered without anybody else."""
        (answer,) = self.joined((client, self.begin_join(client, group_id, member_id, **request)))
        return answer

    def sync(self, client: str, group_id: str, member_id: str, generation: int, **rest: Any) -> Any:
        self.groups.add(group_id)
        reply = self.coordinator.sync(
            client,
            SyncGroupRequest(
                group_id=group_id,
                member_id=member_id,
                generation_id=generation,
                **{"protocol_type": "consumer", "protocol_name": "range", **rest},
            ),
        )
        self.coordinator.settle(reply)
        return self.note(f"sync {client}", reply.get())

    def heartbeat(self, group_id: str, member_id: str, generation: int, **rest: Any) -> None:
        self.groups.add(group_id)
        self.note(
            f"heartbeat {self.named(member_id)}",
            self.coordinator.heartbeat(group_id, member_id, generation, **rest),
        )

    def commit(
        self, group_id: str, *offsets: OffsetToCommit, transactional_id: str = "", **rest: Any
    ) -> None:
        self.groups.add(group_id)
        request = OffsetCommitRequest(
            group_id=group_id, offsets=offsets or (offset(1),), **{"version": 8, **rest}
        )
        if transactional_id:
            self.coordinator.begin_transaction(transactional_id)
            found = self.coordinator.commit_in_transaction(transactional_id, request)
        else:
            found = self.coordinator.commit(request)
        self.note("commit", found)

    def leave(self, group_id: str, *members: MemberIdentity) -> None:
        self.groups.add(group_id)
        self.note("leave", self.coordinator.leave(group_id, members))


def subscription(*topics: str) -> bytes:
    return encode_subscription({"topics": list(topics), "userData": None}, 0)


def assignment(*partitions: int) -> bytes:
    topics = [{"topic": "t", "partitions": list(partitions)}]
    return encode_assignment({"assignedPartitions": topics, "userData": None}, 0)


def offset(committed_offset: int, topic: str = "t", partition: int = 0, **rest: Any) -> Any:
    return OffsetToCommit(
        topic=topic, partition=partition, committed_offset=committed_offset, **rest
    )
