"""The coordinators' side of `verify`: their answers about groups, members and offsets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import asdict
from types import TracebackType
from typing import Any

from coordinator_state.replay.groups import CLASSIC, STABLE
from streaming.errors import ConfigurationError
from streaming.kafka.fetch import LogClient
from streaming.kafka.group_admin import GroupAdmin, ListedGroup
from streaming.kafka.leaders import LogDescription
from streaming.kafka.offset_fetch import UNSTABLE_OFFSET_COMMIT, OffsetFetchAnswer
from streaming.verify.answer import (
    IS_PENDING,
    AnswerKey,
    Answers,
    Fields,
    Kind,
    described_members,
    group_fields,
    offset_fields,
)


class BrokerAnswers:
    """Asks the coordinators of a cluster; a context manager that closes its connections.

    Args:
        bootstrap_servers: HOST:PORT, separated by commas.
        kafka_config: keyword arguments for kafka-python, see `kafka_client_config`.
    """

    def __init__(
        self, bootstrap_servers: str, kafka_config: Mapping[str, Any] | None = None
    ) -> None:
        with ExitStack() as opened:
            self._log = opened.enter_context(LogClient(bootstrap_servers, kafka_config))
            self._admin = opened.enter_context(GroupAdmin(bootstrap_servers, kafka_config))
            self._opened = opened.pop_all()

    def __enter__(self) -> BrokerAnswers:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._opened.close()

    def describe_log(self) -> LogDescription:
        """The cluster id and the description of `__consumer_offsets`."""
        return self._log.describe()

    def high_watermarks(self) -> Mapping[int, int]:
        """The high watermark of every log partition."""
        return self._log.high_watermarks()

    def group_ids(self) -> set[str]:
        """All group ids; waits until each coordinator has loaded its log partitions."""
        self._admin.await_coordinators(len(self.describe_log().leaders))
        return set(self._admin.list_groups())

    def answers(
        self,
        group_ids: Collection[str] | None = None,
        pending: Iterable[tuple[str, str, int]] = (),
        *,
        is_loaded: bool = False,
    ) -> Answers:
        """All answers that `verify` compares, of these groups or of every group.

        Args:
            group_ids: the groups; None for every group.
            pending: (group, topic, partition)s to name in the request for stable offsets. A
                request for all offsets of a group leaves out a partition that has a pending
                commit but no committed offset.
            is_loaded: skips the wait until every coordinator has loaded its log partitions.
        """
        if not is_loaded:
            self._admin.await_coordinators(len(self.describe_log().leaders))
        listed = self._admin.list_groups()
        if group_ids is not None:
            listed = {group: listed[group] for group in group_ids if group in listed}
        fields_by_key = self._groups(listed)
        committed = self._admin.offset_fetch(dict.fromkeys(listed))
        for group_id, answers in committed.items():
            for answer in answers:
                fields_by_key[_key("offset", group_id, answer)] = offset_fields(answer)
        named = _with_committed(pending, committed)
        for group_id, answers in self._admin.offset_fetch(named, require_stable=True).items():
            for answer in answers:
                if answer.error == UNSTABLE_OFFSET_COMMIT:
                    fields_by_key[_key("pending", group_id, answer)] = IS_PENDING
        return fields_by_key

    def topic_names(self, topic_ids: Collection[str]) -> dict[str, str]:
        """The names by topic id of the topics that exist in the cluster."""
        return self._admin.topic_names(topic_ids) if topic_ids else {}

    def require_authorised(self, topics: Collection[str]) -> None:
        """Check that this client may describe the topics; brokers hide offsets of other topics.

        Raises:
            ConfigurationError: this client may not describe one of them.
        """
        hidden = sorted(self._admin.unauthorised_topics(topics)) if topics else []
        if hidden:
            raise ConfigurationError(
                f"the broker hides the offsets of {len(hidden)} topics, such as {hidden[0]}: this "
                f"client's principal needs the ACL Describe on topic {hidden[0]}"
            )

    def _groups(self, listed: Mapping[str, ListedGroup]) -> dict[AnswerKey, Fields]:
        """The answers about groups and their members."""
        fields_by_key: dict[AnswerKey, Fields] = {}
        by_type: dict[str, list[str]] = defaultdict(list)
        for group_id, group in listed.items():
            group_type = group.group_type or CLASSIC
            fields_by_key[AnswerKey("group", group_id)] = group_fields(
                {**asdict(group), "group_epoch": None, "assignment_epoch": None}
            )
            if group_type != CLASSIC or group.state == STABLE:
                by_type[group_type].append(group_id)
        for group_id, members in self._admin.describe_members(by_type.pop(CLASSIC, [])).items():
            for member_id, member in members.items():
                fields_by_key[AnswerKey("member", group_id, member_id=member_id)] = asdict(member)
        for group_type, group_ids in by_type.items():
            for group_id, described in self._admin.describe_groups(group_type, group_ids).items():
                fields_by_key[AnswerKey("group", group_id)] = {
                    **fields_by_key[AnswerKey("group", group_id)],
                    "state": described.group_state,
                    "group_epoch": described.group_epoch,
                    "assignment_epoch": described.assignment_epoch,
                }
                for member_id, fields in described_members(group_type, described).items():
                    fields_by_key[AnswerKey("member", group_id, member_id=member_id)] = fields
        return fields_by_key


def _with_committed(
    pending: Iterable[tuple[str, str, int]],
    committed: Mapping[str, Collection[OffsetFetchAnswer]],
) -> dict[str, Collection[tuple[str, int]] | None]:
    """The partitions per group to ask for stable offsets.

    None asks for all partitions. A group with candidates for pending commits names its partitions.
    """
    candidates: dict[str, set[tuple[str, int]]] = defaultdict(set)
    for group_id, topic, partition in pending:
        candidates[group_id].add((topic, partition))
    return {
        group_id: candidates[group_id] | {answer.topic_partition for answer in answers}
        if group_id in candidates
        else None
        for group_id, answers in committed.items()
    }


def _key(kind: Kind, group_id: str, answer: OffsetFetchAnswer) -> AnswerKey:
    topic, partition = answer.topic_partition
    return AnswerKey(kind, group_id, topic, partition)
