"""Clients that ask a coordinator what a script says, and note its answers.

Ids that a coordinator drew are named after the client that got them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, is_dataclass
from typing import TYPE_CHECKING, Any

from coordinator_state.model.group_coordinator import GroupCoordinator
from coordinator_state.model.log import Producer
from coordinator_state.model.requests import (
    JoinGroupRequest,
    JoinGroupResponse,
    MemberIdentity,
    OffsetCommitRequest,
    OffsetToCommit,
    Reply,
    SyncGroupRequest,
    SyncGroupResponse,
)
from coordinator_state.records.consumer_protocol import encode_assignment, encode_subscription

if TYPE_CHECKING:
    from coordinator_state.model.offset_manager import Partition
    from tests.support.clients.broker_clients import BrokerClients

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
class ScriptedClients(Names):
    """Clients of a coordinator, with its answers one after the other."""

    coordinator: BrokerClients | ModelClients
    answers: list[tuple[str, Any]] = field(default_factory=list)

    def note(self, request: str, answer: Any) -> Any:
        self.answers.append((request, self.named(answer)))
        return answer

    # --- members

    def begin_join(
        self, client: str, group_id: str, member_id: str = "", **request: Any
    ) -> Reply[JoinGroupResponse]:
        self.groups.add(group_id)
        settings = {
            "protocols": (("range", subscription("t")),),
            # No member times out, however busy the machine is.
            "session_timeout_ms": 120_000,
            "rebalance_timeout_ms": 120_000,
            **request,
        }
        return self.coordinator.join_group(
            JoinGroupRequest(
                group_id=group_id,
                member_id=member_id,
                client_id=client,
                client_host=CLIENT_HOST,
                **settings,
            )
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

    def begin_sync(
        self, group_id: str, member_id: str, generation: int, **request: Any
    ) -> Reply[SyncGroupResponse]:
        self.groups.add(group_id)
        settings = {"protocol_type": "consumer", "protocol_name": "range", **request}
        return self.coordinator.sync_group(
            SyncGroupRequest(
                group_id=group_id, member_id=member_id, generation_id=generation, **settings
            )
        )

    def sync(self, group_id: str, member_id: str, generation: int, **request: Any) -> None:
        reply = self.begin_sync(group_id, member_id, generation, **request)
        self.coordinator.settle(reply)
        self.note(f"sync {self.named(member_id)}", reply.get())

    def heartbeat(self, group_id: str, member_id: str, generation: int, *instance: str) -> None:
        self.groups.add(group_id)
        self.note(
            f"heartbeat {self.named(member_id)}",
            self.coordinator.heartbeat(group_id, member_id, generation, *instance),
        )

    def leave(self, group_id: str, *members: str | MemberIdentity) -> None:
        """Members leave, each by its member id or its identity."""
        identities = [
            MemberIdentity(member_id=member) if isinstance(member, str) else member
            for member in members
        ]
        self.groups.add(group_id)
        self.note("leave", self.coordinator.leave_group(group_id, identities))

    # --- offsets and groups

    def commit(
        self, group_id: str, *offsets: OffsetToCommit, transactional_id: str = "", **request: Any
    ) -> None:
        self.groups.add(group_id)
        commit = OffsetCommitRequest(
            group_id=group_id, offsets=offsets or (offset(1),), **{"version": 8, **request}
        )
        producer = self.coordinator.producer(transactional_id) if transactional_id else None
        self.note("commit", self.coordinator.commit_offsets(commit, producer))

    def end_transaction(self, transactional_id: str, *, is_commit: bool) -> None:
        producer = self.coordinator.producer(transactional_id)
        self.coordinator.end_transaction(producer, is_commit=is_commit)

    def fetch(self, group_id: str, *partitions: Partition, require_stable: bool = False) -> None:
        """Without partitions, of all offsets of the group."""
        answer = self.coordinator.fetch_offsets(
            group_id, partitions or None, require_stable=require_stable
        )
        self.note("fetch", answer)

    def delete_offsets(self, group_id: str, *partitions: Partition) -> None:
        self.note("delete offsets", self.coordinator.delete_offsets(group_id, partitions))

    def delete_groups(self, *group_ids: str) -> None:
        self.note("delete groups", self.coordinator.delete_groups(group_ids))


def subscription(*topics: str) -> bytes:
    return encode_subscription({"topics": list(topics), "userData": None}, 0)


def assignment(*partitions: int) -> bytes:
    topics = [{"topic": "t", "partitions": list(partitions)}]
    return encode_assignment({"assignedPartitions": topics, "userData": None}, 0)


def offset(committed_offset: int, topic: str = "t", partition: int = 0, **rest: Any) -> Any:
    return OffsetToCommit(
        topic=topic, partition=partition, committed_offset=committed_offset, **rest
    )


class ModelClients(GroupCoordinator):
    """The model; time goes by where somebody waits."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.advance(1)
        self._producers: dict[str, Producer] = {}

    def settle(self, *replies: Reply[Any]) -> None:
        """Let time pass until there are answers."""
        while not all(reply.is_done for reply in replies):
            due_ms = self.shard.timers.next_due_ms
            assert due_ms is not None, "nothing will ever answer"
            self.advance(due_ms)

    def producer(self, transactional_id: str) -> Producer:
        """The producer of a transactional id."""
        return self._producers.setdefault(transactional_id, Producer(len(self._producers), 0))
