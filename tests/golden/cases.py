"""What the golden files hold: messages as the JSON that Kafka's own converters read.

A message has all the fields it ever had; Kafka leaves out those that the version at hand lacks.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]

MAX_INT32 = 2**31 - 1
MIN_INT32 = -(2**31)
MAX_INT64 = 2**63 - 1
MIN_INT64 = -(2**63)

VERSIONS = range(5)
PROTOCOL_VERSIONS = range(4)

ZERO_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAA"
TOPIC_ID = "Uj5wn_FqTXirEASvVZRY1w"
TOPIC_ID_OF_ONES = "_____________________w"

LONG_BYTES = b64encode(bytes(range(256)) * 2).decode("ascii")
# One byte more than 127 makes the length of a flexible string a varint of two bytes.
LONG_METADATA = "m" * 126 + "\u2603"
UNICODE = '\u0433\u0440\u0443\u043f\u043f\u0430 \U0001f600 \x00\x1b[31m"\\'


def offset_commit_key(group: str = "g", topic: str = "t", partition: int = 3) -> Json:
    """The key of an offset commit."""
    return {"group": group, "topic": topic, "partition": partition}


OFFSET_COMMIT_KEYS: dict[str, Json] = {
    "plain": offset_commit_key(),
    "empty": offset_commit_key("", "", 0),
    "unicode": offset_commit_key(UNICODE, "t\u00f6pic", MAX_INT32),
    "negative partition": offset_commit_key(partition=-1),
    "long": offset_commit_key("g" * 300, "t" * 249, 1),
}


def offset_commit(**fields: Any) -> Json:
    """The value of an offset commit, of every version at once."""
    return {
        "offset": 100,
        "leaderEpoch": 5,
        "metadata": "m",
        "commitTimestamp": 1234,
        "expireTimestamp": -1,
        "topicId": ZERO_TOPIC_ID,
        **fields,
    }


OFFSET_COMMITS: dict[str, Json] = {
    "plain": offset_commit(),
    "topic id": offset_commit(topicId=TOPIC_ID),
    "topic id of ones": offset_commit(topicId=TOPIC_ID_OF_ONES),
    "no leader epoch": offset_commit(leaderEpoch=-1),
    "expiry": offset_commit(expireTimestamp=12345),
    "empty metadata": offset_commit(metadata=""),
    "metadata of 126 bytes": offset_commit(metadata="m" * 126),
    "metadata of 127 bytes": offset_commit(metadata="m" * 127),
    "long metadata": offset_commit(metadata=LONG_METADATA, topicId=TOPIC_ID),
    "unicode metadata": offset_commit(metadata=UNICODE),
    "greatest numbers": offset_commit(
        offset=MAX_INT64,
        leaderEpoch=MAX_INT32,
        commitTimestamp=MAX_INT64,
        expireTimestamp=MAX_INT64,
    ),
    "least numbers": offset_commit(
        offset=MIN_INT64,
        leaderEpoch=MIN_INT32,
        commitTimestamp=MIN_INT64,
        expireTimestamp=MIN_INT64,
    ),
}


def group_member(number: int, **fields: Any) -> Json:
    """A member of a classic group, of every version at once; bytes are base64."""
    return {
        "memberId": f"member-{number}",
        "groupInstanceId": None,
        "clientId": f"client-{number}",
        "clientHost": f"/127.0.0.{number}",
        "rebalanceTimeout": 60000,
        "sessionTimeout": 10000,
        "subscription": "AAE=",
        "assignment": "AQI=",
        **fields,
    }


def group_metadata(*members: Json, **fields: Any) -> Json:
    """The value of a classic group."""
    return {
        "protocolType": "consumer",
        "generation": 1,
        "protocol": "range",
        "leader": "member-1",
        "currentStateTimestamp": 1234,
        "members": list(members),
        **fields,
    }


GROUP_METADATA: dict[str, Json] = {
    "one member": group_metadata(group_member(1)),
    "three members": group_metadata(
        group_member(1, groupInstanceId="instance-1"),
        group_member(2, groupInstanceId=""),
        group_member(3),
    ),
    "empty": group_metadata(protocol=None, leader=None),
    "simple": group_metadata(
        protocolType="", generation=0, protocol=None, leader=None, currentStateTimestamp=-1
    ),
    "empty strings": group_metadata(
        group_member(0, memberId="", clientId="", clientHost="", subscription="", assignment=""),
        protocolType="",
        protocol="",
        leader="",
    ),
    "unicode": group_metadata(
        group_member(1, memberId=UNICODE, groupInstanceId=UNICODE, clientId=UNICODE),
        protocol=UNICODE,
    ),
    "long bytes": group_metadata(group_member(1, subscription=LONG_BYTES, assignment=LONG_BYTES)),
    "great numbers": group_metadata(
        group_member(1, rebalanceTimeout=MAX_INT32, sessionTimeout=MIN_INT32),
        group_member(2, rebalanceTimeout=-1, sessionTimeout=0),
        generation=MAX_INT32,
        currentStateTimestamp=MAX_INT64,
    ),
    "negative generation": group_metadata(generation=-1, currentStateTimestamp=MIN_INT64),
}

# Every record type that Kafka 4.2 knows, types 0 to 2 included.
KEYS: list[tuple[int, Json]] = [
    *((record_type, offset_commit_key()) for record_type in (0, 1)),
    (2, {"group": UNICODE}),
    *((t, {"groupId": UNICODE}) for t in (3, 4, 6, 11, 12, 15, 17, 20, 23)),
    *((t, {"groupId": "g", "memberId": UNICODE}) for t in (5, 7, 8, 10, 13, 14, 19, 21, 22)),
    (16, {"groupId": "g", "regularExpression": "^a.*\u00e9$"}),
]


def subscription(**fields: Any) -> Json:
    """A member's subscription, of every version at once."""
    return {
        "topics": ["t"],
        "userData": None,
        "ownedPartitions": [],
        "generationId": -1,
        "rackId": None,
        **fields,
    }


PROTOCOL_MESSAGES: dict[str, dict[str, Json]] = {
    "subscription": {
        "plain": subscription(),
        "owned partition": subscription(
            userData="aA==",
            ownedPartitions=[{"topic": "t", "partitions": [3]}],
            generationId=4,
            rackId="r1",
        ),
        "no topics": subscription(topics=[]),
        "everything": subscription(
            topics=["t", "", UNICODE],
            userData="aGVsbG8=",
            ownedPartitions=[
                {"topic": "t", "partitions": [3, 0, MAX_INT32]},
                {"topic": UNICODE, "partitions": []},
            ],
            generationId=MAX_INT32,
            rackId="r1",
        ),
        "empty user data and rack": subscription(userData="", rackId=""),
    },
    "assignment": {
        "plain": {
            "assignedPartitions": [{"topic": "t", "partitions": [3]}],
            "userData": None,
        },
        "nothing": {"assignedPartitions": [], "userData": None},
        "everything": {
            "assignedPartitions": [
                {"topic": "t", "partitions": [0, 1, MAX_INT32]},
                {"topic": UNICODE, "partitions": []},
            ],
            "userData": LONG_BYTES,
        },
    },
}

# Short ones, for what becomes of them when any of their bytes changes.
MUTATED_OFFSET_COMMITS: list[tuple[int, Json]] = [
    (1, offset_commit()),
    (3, offset_commit()),
    (4, offset_commit(topicId=TOPIC_ID)),
]
_SHORT_GROUP = group_metadata(
    group_member(1, memberId="m", clientId="c", clientHost="h"), protocolType="p", leader="m"
)
MUTATED_GROUP_METADATA: list[tuple[int, Json]] = [(version, _SHORT_GROUP) for version in (0, 4)]
MUTATED_PROTOCOL_MESSAGES = [("subscription", "owned partition"), ("assignment", "plain")]

_REPLACEMENTS = (
    *(bytes([byte]) for byte in (0x00, 0x01, 0x7F, 0x80, 0xFF)),
    bytes.fromhex("ffffffff0f"),  # the unsigned varint of -1
    bytes.fromhex("8080808010"),  # of 0, written long
    bytes.fromhex("808080808001"),  # longer than any may be
)


def mutations(raw: bytes) -> Iterator[bytes]:
    """Every strict prefix, every byte replaced by something telling, and one byte too many."""
    for end in range(len(raw)):
        yield raw[:end]
    for position in range(len(raw)):
        for replacement in _REPLACEMENTS:
            if raw[position : position + 1] != replacement:
                yield raw[:position] + replacement + raw[position + 1 :]
    yield raw + b"\x00"
