"""The two sides that `verify` compares: answers of a broker and of tables."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from streaming.verify.answer import IS_PENDING, AnswerKey, Answers
from streaming.verify.verification import Verification
from streaming.verify.verify import verify

EMPTY = {
    "group_type": "classic",
    "state": "Empty",
    "protocol_type": "consumer",
    "group_epoch": None,
    "assignment_epoch": None,
}


def group(name: str = "g", **fields: Any) -> dict[AnswerKey, Mapping[str, Any]]:
    return {AnswerKey("group", name): EMPTY | fields}


def offset(number: int, name: str = "g", **fields: Any) -> dict[AnswerKey, Mapping[str, Any]]:
    body = {"committed_offset": number, "leader_epoch": -1, "metadata": ""}
    return {AnswerKey("offset", name, "t", 0): body | fields}


def member(name: str = "g", **fields: Any) -> dict[AnswerKey, Mapping[str, Any]]:
    body = {"client_id": "c", "client_host": "/h", "assignment": b""}
    return {AnswerKey("member", name, member_id="m"): body | fields}


def pending(name: str = "g") -> dict[AnswerKey, Mapping[str, Any]]:
    return {AnswerKey("pending", name, "t", 0): IS_PENDING}


class Broker:
    """Answers what it is told to, each time the next thing, the last one for ever."""

    def __init__(self, *answers: Answers, high_watermarks: Mapping[int, int] | None = None) -> None:
        self._answers = list(answers)
        self._high_watermarks = high_watermarks or {}
        self.asked: list[tuple[Collection[str] | None, set[tuple[str, str, int]]]] = []

    def answers(
        self,
        group_ids: Collection[str] | None = None,
        pending: Iterable[tuple[str, str, int]] = (),
    ) -> Answers:
        self.asked.append((group_ids, set(pending)))
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        return {k: v for k, v in answer.items() if group_ids is None or k.group_id in group_ids}

    def high_watermarks(self) -> Mapping[int, int]:
        return self._high_watermarks

    def topic_names(self, topic_ids: Collection[str]) -> Mapping[str, str]:
        return {topic_id: topic_id.lower() for topic_id in topic_ids}


class Tables:
    """One snapshot with fixed answers."""

    def __init__(
        self,
        answers: Answers,
        *,
        next_offsets: Mapping[int, int] | None = None,
        topic_ids: Collection[str] = (),
    ) -> None:
        self._answers = answers
        self.next_offsets = next_offsets or {}
        self._topic_ids = set(topic_ids)
        self.topic_names: list[Mapping[str, str] | None] = []

    def topic_ids(self, _group_ids: Collection[str] | None = None) -> set[str]:
        return self._topic_ids

    def pending(self, group_ids: Collection[str] | None = None) -> set[tuple[str, str, int]]:
        return {
            (key.group_id, key.topic, key.partition)
            for key in self.answers(group_ids)
            if key.kind == "pending"
        }

    def answers(
        self,
        group_ids: Collection[str] | None = None,
        topic_names: Mapping[str, str] | None = None,
    ) -> Answers:
        self.topic_names.append(topic_names)
        return {
            k: v for k, v in self._answers.items() if group_ids is None or k.group_id in group_ids
        }


def counted(**counts: int) -> dict[str, int]:
    return {"group": 0, "member": 0, "offset": 0, "pending": 0} | counts


def verified(broker: Broker, *snapshots: Tables, **options: Any) -> Verification:
    """Verify with these snapshots in turn, the last one for ever."""

    def turns() -> Iterator[Tables]:
        yield from snapshots
        while True:
            yield snapshots[-1]

    turn = turns()
    return verify(broker, lambda: next(turn), timeout_s=0, settle_timeout_s=0, **options)
