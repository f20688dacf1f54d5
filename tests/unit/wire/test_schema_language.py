"""What no modelled type has yet, but Kafka's schemas have.

A nullable struct, uint16, tags with and without a default, a nullable array. The schemas are those
of record types 17 and 19, the bytes what Kafka 4.2.0's own classes wrote.
"""

from __future__ import annotations

from typing import Any

import pytest

from coordinator_state.records.message_formatter import value_json
from coordinator_state.records.serde import decode_versioned, encode_versioned
from coordinator_state.wire.schema import Field, Schema
from tests.support.logs.prefixes import assert_no_prefix_is_enough

KEY_VALUE = (Field(name="key", type="string"), Field(name="value", type="string"))
STREAMS_GROUP_METADATA = Schema(
    name="StreamsGroupMetadataValue",
    versions=(0, 0),
    first_flexible=0,
    fields=(
        Field(name="epoch", type="int32"),
        Field(name="metadataHash", type="int64"),
        Field(name="validatedTopologyEpoch", type="int32", tag=0, default=-1),
        Field(
            name="lastAssignmentConfigs",
            type="struct",
            is_array=True,
            is_nullable=True,
            tag=1,
            default=[],
            fields=KEY_VALUE,
        ),
    ),
)
STREAMS_GROUP_MEMBER_METADATA = Schema(
    name="StreamsGroupMemberMetadataValue",
    versions=(0, 0),
    first_flexible=0,
    fields=(
        Field(name="instanceId", type="string", is_nullable=True),
        Field(name="rackId", type="string", is_nullable=True),
        Field(name="clientId", type="string"),
        Field(name="clientHost", type="string"),
        Field(name="rebalanceTimeoutMs", type="int32", default=-1),
        Field(name="topologyEpoch", type="int32"),
        Field(name="processId", type="string"),
        Field(
            name="userEndpoint",
            type="struct",
            is_nullable=True,
            fields=(Field(name="host", type="string"), Field(name="port", type="uint16")),
        ),
        Field(name="clientTags", type="struct", is_array=True, fields=KEY_VALUE),
    ),
)
STREAMS_MEMBER = {
    "instanceId": None,
    "rackId": None,
    "clientId": "c",
    "clientHost": "h",
    "rebalanceTimeoutMs": 1,
    "topologyEpoch": 2,
    "processId": "p",
}


@pytest.mark.parametrize(
    ("schema", "text", "fields"),
    [
        pytest.param(
            STREAMS_GROUP_METADATA,
            "0000 00000003 0000000000000007 00",
            {"validatedTopologyEpoch": -1, "lastAssignmentConfigs": []},
            id="no tags",
        ),
        pytest.param(
            STREAMS_GROUP_METADATA,
            "0000 00000003 0000000000000007 01 01 01 00",
            {"validatedTopologyEpoch": -1, "lastAssignmentConfigs": None},
            id="tag of null",
        ),
        pytest.param(
            STREAMS_GROUP_METADATA,
            "0000 00000003 0000000000000007 02 00 04 00000002 01 06 02 026b 0276 00",
            {
                "validatedTopologyEpoch": 2,
                "lastAssignmentConfigs": [{"key": "k", "value": "v"}],
            },
            id="two tags",
        ),
        pytest.param(
            STREAMS_GROUP_MEMBER_METADATA,
            "0000 00 00 0263 0268 00000001 00000002 0270 ff 01 00",
            {"userEndpoint": None, "clientTags": []},
            id="null struct",
        ),
        pytest.param(
            STREAMS_GROUP_MEMBER_METADATA,
            "0000 00 00 0263 0268 00000001 00000002 0270 01 0265 ffff 00 02 026b 0276 00 00",
            {
                "userEndpoint": {"host": "e", "port": 65535},
                "clientTags": [{"key": "k", "value": "v"}],
            },
            id="struct",
        ),
    ],
)
def test_the_generic_reader_knows_all_of_kafkas_schema_language(
    schema: Schema, text: str, fields: dict[str, Any]
) -> None:
    if schema is STREAMS_GROUP_METADATA:
        fields = {"epoch": 3, "metadataHash": 7, **fields}
    else:
        fields = {**STREAMS_MEMBER, **fields}
    raw = bytes.fromhex(text)
    value = decode_versioned(schema, raw)

    assert (value.fields, value.trailing_bytes) == (fields, 0)
    assert encode_versioned(schema, 0, fields) == raw
    assert_no_prefix_is_enough(lambda prefix: decode_versioned(schema, prefix), raw)
    tagged_defaults = {"validatedTopologyEpoch": -1, "lastAssignmentConfigs": []}
    assert value_json(value)["data"] == {
        name: v
        for name, v in fields.items()
        if name not in tagged_defaults or v != tagged_defaults[name]
    }


def test_a_nullable_array_is_classic_too() -> None:
    schema = Schema(
        name="Assignment",
        versions=(0, 0),
        fields=(Field(name="partitions", type="int32", is_array=True, is_nullable=True),),
    )

    for text, partitions in (("0000 ffffffff", None), ("0000 00000001 00000007", [7])):
        raw = bytes.fromhex(text)
        assert decode_versioned(schema, raw).fields == {"partitions": partitions}
        assert encode_versioned(schema, 0, {"partitions": partitions}) == raw
    assert decode_versioned(schema, bytes.fromhex("0000 80000000")).fields == {"partitions": None}


def test_a_field_is_in_the_versions_it_names_both_ends_included() -> None:
    field = Field(name="f", type="int8", versions=(1, 3))

    assert [version for version in range(6) if field.is_in(version)] == [1, 2, 3]


def test_a_schema_without_a_flexible_version_is_never_flexible() -> None:
    schema = Schema(name="s", versions=(0, 9), fields=())

    assert not any(schema.is_flexible(version) for version in range(10))
