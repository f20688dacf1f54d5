"""Whatever is written reads back, and whatever bytes there are, they read or raise our errors."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator_state.errors import DecodeError, UnknownRecordType
from coordinator_state.records.consumer_protocol import (
    ASSIGNMENT,
    SUBSCRIPTION,
    decode_assignment,
    decode_subscription,
)
from coordinator_state.records.group_record_values import EARLY_ACCESS_VALUES
from coordinator_state.records.message_formatter import key_json, value_json
from coordinator_state.records.record_types import RECORD_TYPES, RecordType
from coordinator_state.records.serde import (
    decode_key,
    decode_value,
    decode_versioned,
    encode_key,
    encode_versioned,
)
from coordinator_state.wire.schema import Field, Schema
from tests.support.logs.prefixes import assert_no_prefix_is_enough

few_examples = settings(max_examples=max(20, settings().max_examples // 5))
"""For tests that run once per version or type: together they have as many as the others."""

SCHEMAS = [SUBSCRIPTION, ASSIGNMENT, *(t.value for t in RECORD_TYPES.values())]
DECODERS: dict[str, tuple[Schema, Callable[[bytes], Any]]] = {
    "subscription": (SUBSCRIPTION, decode_subscription),
    "assignment": (ASSIGNMENT, decode_assignment),
    **{t.value.name: (t.value, partial(decode_value, t)) for t in RECORD_TYPES.values()},
}
VERSIONS = [
    pytest.param(schema, version, id=f"{schema.name} v{version}")
    for schema in SCHEMAS
    for version in range(schema.versions[0], schema.versions[1] + 1)
]


def _integers(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


# Around 127 a flexible length grows to two bytes.
_TEXTS = st.one_of(st.text(max_size=5), st.integers(120, 135).map(lambda size: "x" * size))
_BYTES = st.one_of(st.binary(max_size=5), st.integers(120, 135).map(lambda size: b"\xff" * size))

_SINGLES: dict[str, st.SearchStrategy[Any]] = {
    "int8": _integers(8),
    "int16": _integers(16),
    "uint16": st.integers(0, 2**16 - 1),
    "int32": _integers(32),
    "int64": _integers(64),
    "string": _TEXTS,
    "bytes": _BYTES,
    "uuid": st.one_of(st.just(UUID(int=0)), st.uuids()),
}


def structs(fields: tuple[Field, ...], version: int) -> st.SearchStrategy[dict[str, Any]]:
    """Every field, those that the version lacks with their defaults."""
    return st.fixed_dictionaries({field.name: _values(field, version) for field in fields})


def _values(field: Field, version: int) -> st.SearchStrategy[Any]:
    if not field.is_in(version):
        return st.just(field.default)
    values = structs(field.fields, version) if field.fields else _SINGLES[field.type]
    if field.is_array:
        values = st.lists(values, max_size=3)
    return st.one_of(st.none(), values) if field.is_nullable else values


@pytest.mark.parametrize(("schema", "version"), VERSIONS)
@few_examples
@given(data=st.data())
def test_a_message_of_any_version_reads_back(
    schema: Schema, version: int, data: st.DataObject
) -> None:
    fields = data.draw(structs(schema.fields, version))
    tail = data.draw(st.binary(max_size=3))
    raw = encode_versioned(schema, version, fields)
    value = decode_versioned(schema, raw + tail)

    assert (value.version, value.fields, value.trailing_bytes) == (version, fields, len(tail))
    document = value_json(value)
    assert json.loads(json.dumps(document)) == document
    assert_no_prefix_is_enough(lambda prefix: decode_versioned(schema, prefix), raw, DecodeError)


@pytest.mark.parametrize("record_type", RECORD_TYPES.values(), ids=lambda t: t.key_name)
@few_examples
@given(data=st.data())
def test_a_key_of_any_type_reads_back(record_type: RecordType, data: st.DataObject) -> None:
    fields = data.draw(structs(record_type.key_fields, 0))
    key = decode_key(encode_key(record_type, fields))

    assert (key.record_type, key.fields, key.trailing_bytes) == (record_type, fields, 0)
    assert json.loads(json.dumps(key_json(key))) == key_json(key)


@pytest.mark.parametrize("record_type", EARLY_ACCESS_VALUES)
@few_examples
@given(data=st.data())
def test_no_early_value_reads_as_one_of_today(record_type: int, data: st.DataObject) -> None:
    early = EARLY_ACCESS_VALUES[record_type]
    fields = data.draw(structs(early.fields, 0))
    value = decode_value(RECORD_TYPES[record_type], encode_versioned(early, 0, fields))

    assert (value.schema, value.fields) == (early, fields)


def _survives(decode: Callable[[bytes], Any], raw: bytes) -> Any:
    """The decoded message, or None where it is refused with one of our errors."""
    try:
        return decode(raw)
    except (DecodeError, UnknownRecordType) as error:
        assert str(error)
        return None


@st.composite
def _almost(draw: st.DrawFn, schema: Schema) -> bytes:
    """A message with some of its bytes replaced, taken away or put in."""
    version = draw(st.integers(*schema.versions))
    raw = encode_versioned(schema, version, draw(structs(schema.fields, version)))
    start = draw(st.integers(0, len(raw)))
    end = draw(st.integers(start, min(start + 4, len(raw))))
    return raw[:start] + draw(st.binary(max_size=5)) + raw[end:]


@pytest.mark.parametrize("record_type", [*RECORD_TYPES, None])
@few_examples
@given(raw=st.binary(max_size=60))
def test_random_bytes_are_a_key_or_refused(record_type: int | None, raw: bytes) -> None:
    """Any bytes, and any bytes behind a known type."""
    if record_type is not None:
        raw = record_type.to_bytes(2, "big") + raw
    key = _survives(decode_key, raw)

    if key is not None:
        assert record_type in (None, key.record_type.id)
        assert key.group_id == next(iter(key.fields.values()))
        assert encode_key(key.record_type, key.fields) == raw[: len(raw) - key.trailing_bytes]


def _messages(schema: Schema) -> st.SearchStrategy[bytes]:
    """Any bytes, with a version or without, and those that are almost a message."""
    versions = st.integers(*schema.versions).map(lambda version: version.to_bytes(2, "big"))
    any_bytes = st.binary(max_size=60)
    return st.one_of(
        any_bytes,
        st.builds(lambda version, body: version + body, versions, any_bytes),
        _almost(schema),
    )


@pytest.mark.parametrize("decoder", DECODERS)
@few_examples
@given(data=st.data())
def test_random_bytes_are_a_message_or_refused(decoder: str, data: st.DataObject) -> None:
    """By the layout of a message, and by the functions that choose among its layouts."""
    schema, decode_any_layout = DECODERS[decoder]
    raw = data.draw(_messages(schema))
    _survives(decode_any_layout, raw)
    value = _survives(partial(decode_versioned, schema), raw)

    if value is not None:
        again = decode_versioned(schema, encode_versioned(schema, value.version, value.fields))
        assert again.fields == value.fields
