"""Random logs of `__consumer_offsets`, for the tests that hold something to the reference loader.

A log is a sequence of events in a small world (a few groups, partitions and producers), so that
they meet: commits of every version, tombstones, interleaved transactions, group records, and
records that no loader can read. `segment` writes it as record batches, gaps included.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from hypothesis import strategies as st

from coordinator_state.consumer_protocol import encode_assignment, encode_subscription
from coordinator_state.record_batch import write_control_batch, write_record_batch
from coordinator_state.record_types import RECORD_TYPES
from coordinator_state.serde import encode_key, encode_value

BASE_TIMESTAMP_MS = 1_700_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One batch of the log: a marker when `control_type` is set, else one data record."""

    producer_id: int = -1
    is_transactional: bool = False
    control_type: int | None = None
    key: bytes | None = None
    value: bytes | None = None
    gap: int = 0


def offset_key(group_id: str, topic: str, partition: int, record_type: int = 1) -> bytes:
    """The key of an offset commit."""
    fields = {"group": group_id, "topic": topic, "partition": partition}
    return encode_key(RECORD_TYPES[record_type], fields)


def offset_value(committed_offset: int, version: int = 3, **fields: Any) -> bytes:
    """The value of an offset commit."""
    return encode_value(
        RECORD_TYPES[1],
        version,
        {
            "offset": committed_offset,
            "metadata": "",
            "commitTimestamp": BASE_TIMESTAMP_MS + committed_offset,
            **fields,
        },
    )


def group_value(
    members: Sequence[str] = (),
    *,
    protocol_type: str = "consumer",
    generation: int = 1,
    version: int = 3,
) -> bytes:
    """A GroupMetadata value whose members subscribe to topic `t` and own a partition each."""
    return encode_value(
        RECORD_TYPES[2],
        version,
        {
            "protocolType": protocol_type,
            "generation": generation,
            "protocol": "range" if members else None,
            "leader": members[0] if members else None,
            **({"currentStateTimestamp": BASE_TIMESTAMP_MS} if version >= 2 else {}),
            "members": [
                {
                    "memberId": member,
                    "clientId": f"client of {member}",
                    "clientHost": "/127.0.0.1",
                    **({"rebalanceTimeout": 60_000} if version >= 1 else {}),
                    "sessionTimeout": 10_000,
                    "subscription": encode_subscription({"topics": ["t"], "userData": None}),
                    "assignment": encode_assignment(
                        {
                            "assignedPartitions": [{"topic": "t", "partitions": [number]}],
                            "userData": None,
                        }
                    ),
                }
                for number, member in enumerate(members)
            ],
        },
    )


def _keys(group_prefix: str) -> st.SearchStrategy[tuple[str, str, int]]:
    """Few keys, one of them far more often than the others: rules show where records meet."""
    keys = [("a", "t", 0)] * 5 + [("a", "t", 1), ("a", "u", 0), ("é", "t", 0), ("b", "t", 0)]
    return st.sampled_from([(f"{group_prefix}{group}", topic, p) for group, topic, p in keys])


_PRODUCERS = st.sampled_from([1, 1, 2])
_GAPS = st.sampled_from([0, 0, 0, 0, 1, 5])


@st.composite
def _commits(draw: st.DrawFn, group_prefix: str) -> Event:
    key = draw(_keys(group_prefix))
    version = draw(st.integers(0, 4))
    fields: dict[str, Any] = {"metadata": draw(st.sampled_from(["", "m", "\u2603 \x1b[31m"]))}
    if version == 1:
        fields["expireTimestamp"] = draw(st.sampled_from([-1, BASE_TIMESTAMP_MS]))
    if version >= 3:
        fields["leaderEpoch"] = draw(st.sampled_from([-1, 7]))
    if version >= 4:
        fields["topicId"] = draw(st.sampled_from([UUID(int=0), UUID(int=77)]))
    value = draw(
        st.one_of(st.none(), st.integers(0, 9).map(lambda n: offset_value(n, version, **fields)))
    )
    producer_id, is_transactional = draw(
        st.one_of(
            st.just((-1, False)),
            st.tuples(_PRODUCERS, st.just(True)),
            # An idempotent producer without a transaction: the two loaders disagree about it.
            st.tuples(_PRODUCERS, st.booleans()),
        )
    )
    return Event(
        key=offset_key(*key, record_type=draw(st.sampled_from([0, 1]))),
        value=value,
        producer_id=producer_id,
        is_transactional=is_transactional,
        gap=draw(_GAPS),
    )


@st.composite
def _markers(draw: st.DrawFn) -> Event:
    return Event(
        producer_id=draw(_PRODUCERS),
        is_transactional=True,
        # 2 is a leader change marker: no end of a transaction for the new loader.
        control_type=draw(st.sampled_from([0, 1, 1, 1, 2])),
        gap=draw(_GAPS),
    )


@st.composite
def _group_records(draw: st.DrawFn, group_prefix: str) -> Event:
    group_id, _, _ = draw(_keys(group_prefix))
    value = draw(
        st.one_of(
            st.none(),
            st.builds(
                group_value,
                st.lists(st.sampled_from(["m1", "m2", "m3"]), max_size=3, unique=True),
                protocol_type=st.sampled_from(["", "consumer", "connect"]),
                generation=st.integers(0, 5),
                version=st.integers(0, 4),
            ),
        )
    )
    return Event(key=encode_key(RECORD_TYPES[2], {"group": group_id}), value=value)


@st.composite
def _other_records(draw: st.DrawFn, group_prefix: str) -> Event:
    group_id, _, _ = draw(_keys(group_prefix))
    record_type = draw(st.sampled_from([3, 5, 11, 17]))
    fields = {"groupId": group_id}
    if record_type == 5:
        fields["memberId"] = "m1"
    value = draw(st.sampled_from([None, group_record_value(record_type)]))
    return Event(key=encode_key(RECORD_TYPES[record_type], fields), value=value)


def group_record_value(record_type: int) -> bytes:
    """A value of a consumer, share or streams group record."""
    fields: dict[str, Any] = {"epoch": 5}
    if record_type in (11, 17):
        fields["metadataHash"] = -1
    if record_type == 5:
        fields = {"clientId": "c", "clientHost": "/h", "subscribedTopicNames": ["t"]}
    return encode_value(RECORD_TYPES[record_type], 0, fields)


_UNREADABLE = st.sampled_from(
    [
        Event(key=None, value=b"x"),
        Event(key=b"", value=b"x"),
        Event(key=b"\x03\xe7g", value=b"x"),
        Event(key=b"\x00\x01\x00\x01\xff", value=None),
        Event(key=offset_key("a", "t", 0), value=b"\x00\x09"),
        Event(key=offset_key("a", "t", 0), value=b"\x00\x03\x00"),
        Event(key=encode_key(RECORD_TYPES[2], {"group": "a"}), value=b"\x00\x03\x00"),
        Event(key=encode_key(RECORD_TYPES[3], {"groupId": "a"}), value=b"\x00\x00\x00"),
    ]
)


def logs(group_prefix: str = "", max_size: int = 30) -> st.SearchStrategy[list[Event]]:
    """Random logs; `group_prefix` keeps the groups of several log partitions apart."""
    commits = _commits(group_prefix)
    events = st.one_of(
        commits,
        commits,
        commits,
        _markers(),
        _group_records(group_prefix),
        _other_records(group_prefix),
        _UNREADABLE,
    )
    # Drawn by size first: lists of hypothesis alone are mostly too short for anything to meet.
    return st.integers(0, max_size).flatmap(
        lambda size: st.lists(events, min_size=size, max_size=size)
    )


def segment(events: Sequence[Event]) -> tuple[bytes, int]:
    """The events as record batches, and the offset after the last one."""
    out = bytearray()
    offset = 0
    for event in events:
        offset += event.gap
        if event.control_type is not None:
            out += write_control_batch(
                offset, event.producer_id, 0, event.control_type, timestamp_ms=BASE_TIMESTAMP_MS
            )
        else:
            out += write_record_batch(
                offset,
                [(0, BASE_TIMESTAMP_MS + offset, event.key, event.value)],
                producer_id=event.producer_id,
                producer_epoch=-1 if event.producer_id == -1 else 0,
                is_transactional=event.is_transactional,
            )
        offset += 1
    return bytes(out), offset
