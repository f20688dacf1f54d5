"""Random record batches, whole and broken, for the decoders.

Each batch is drawn from a seed of its own, so that hypothesis can leave out those that do not
matter.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from crc32c import crc32c
from hypothesis import strategies as st

from coordinator_state.log.record_batch_writer import write_control_batch, write_record_batch
from coordinator_state.records.record_types import RECORD_TYPES
from coordinator_state.records.serde import encode_key
from coordinator_state.wire.primitives import write_unsigned_varint
from tests.support.logs.logs import group_value, offset_key, offset_value
from tests.support.logs.random_logs import seed_lists
from tests.support.logs.record_batches import write_message_set

Record = tuple[bytes | None, bytes | None]
Log = tuple[bytes, int]
"""Bytes, and the offset after them."""

SEEDS = st.integers(0, 1 << 32)


class RandomBatches:
    """Draws batches; few keys, one of them far more often than the others, for records to meet."""

    def __init__(self, seed: int) -> None:
        self._choose = random.Random(seed)

    def batch(self, base_offset: int) -> Log:
        """A batch of any kind, most often of records."""
        kinds = [self._data_batch] * 5
        kinds += [self._control_batch, self._empty_batch, self._message_set, self._resealed_batch]
        return self._choose.choice(kinds)(base_offset + self._choose.choice([0, 0, 0, 7]))

    def damaged(self, raw: bytes) -> bytes:
        """Bytes with a few bits flipped, and sometimes cut."""
        out = bytearray(raw)
        for _ in range(self._choose.randrange(4) if raw else 0):
            out[self._choose.randrange(len(raw))] ^= 1 << self._choose.randrange(8)
        del out[len(out) - self._choose.choice([0, 0, 1, 30, 70]) :]
        return bytes(out)

    # --- keys and values

    def _int(self, bits: int) -> int:
        return self._choose.getrandbits(bits) - (1 << (bits - 1))

    def _timestamp(self) -> int:
        near = self._choose.randint(-2, 2), 1_700_000_000_000 + self._choose.randrange(1_000)
        return self._choose.choice([*near, self._int(64)])

    def _name(self) -> str:
        others = ["h", "", "\u00e9", "\U0001f600\u2603", "x" * 300, chr(self._choose.randrange(9))]
        return self._choose.choice(["g", "g", "g", self._choose.choice(others)])

    def _bytes(self, most: int) -> bytes | None:
        size = self._choose.randint(-1, most)
        return None if size < 0 else self._choose.randbytes(size)

    def _commit_key(self) -> bytes:
        partition = self._choose.choice([0, 0, 0, self._choose.randrange(3), self._int(32)])
        return offset_key(self._name(), self._name(), partition, self._choose.randrange(2))

    def _commit_value(self) -> bytes:
        choose, version = self._choose, self._choose.randrange(5)
        fields: dict[str, Any] = {"metadata": self._name(), "commitTimestamp": self._timestamp()}
        if version == 1:
            fields["expireTimestamp"] = self._timestamp()
        if version >= 3:
            fields["leaderEpoch"] = choose.choice([-1, 0, 7, -7])
        if version == 4:
            fields["topicId"] = choose.choice([UUID(int=0), UUID(int=choose.getrandbits(128))])
        # Mostly no step back, or nothing would supersede anything.
        committed_offset = choose.choice([*[5] * 7, 4, 6, self._int(64)])
        value = offset_value(committed_offset, version, **fields)
        return self._with_tags(value) if version == 4 and choose.random() < 0.5 else value

    def _with_tags(self, value: bytes) -> bytes:
        """The v4 value with other tags: known, unknown, and some whose size is a lie."""
        choose = self._choose
        version, offset, leader_epoch = struct.unpack_from(">hqi", value)
        out = bytearray(struct.pack(">hqi", version, offset, leader_epoch) + b"\x01" + value[-8:])
        tags = [choose.choice([0, 1, 127, 128, 300]) for _ in range(choose.randrange(4))]
        write_unsigned_varint(out, len(tags))
        for tag in tags:
            raw = choose.randbytes(choose.choice([16, choose.randrange(21)]))
            size = choose.choice([len(raw), len(raw), choose.randrange(41)])
            write_unsigned_varint(out, tag)
            write_unsigned_varint(out, size)
            out += raw
        return bytes(out)

    def _broken(self, raw: bytes) -> bytes:
        """Bytes cut, continued, or with a byte changed."""
        at = self._choose.randrange(len(raw))
        pieces = [b"", self._choose.randbytes(1) + raw[at + 1 :], raw[at:] + b"more"]
        return raw[:at] + self._choose.choice(pieces)

    def _record(self) -> Record:
        value = self._choose.choice([self._commit_value(), self._commit_value(), None])
        if self._choose.randrange(6):
            return self._commit_key(), value
        group_key = encode_key(RECORD_TYPES[2], {"group": self._name()})
        any_type = struct.pack(">h", self._choose.randint(-3, 30)) + b"\x00\x01g\x00\x01m"
        others: list[Record] = [
            (group_key, self._choose.choice([None, group_value(), self._bytes(8)])),
            (any_type, self._bytes(8)),
            (self._broken(self._commit_key()), value),
            (self._commit_key(), self._broken(self._commit_value())),
            (self._bytes(12), self._bytes(12)),
        ]
        return self._choose.choice(others)

    # --- batches

    def _data_batch(self, base_offset: int) -> Log:
        choose, offset_delta, records = self._choose, 0, []
        for _ in range(choose.randint(1, 6)):
            records.append((offset_delta, self._timestamp(), *self._record()))
            offset_delta += choose.choice([1, 1, 1, 4])
        producer_id = choose.choice([-1, -1, -1, 5])
        batch = write_record_batch(
            base_offset,
            records,
            producer_id=producer_id,
            producer_epoch=choose.choice([-1, 0, 3]),
            is_transactional=choose.choice([producer_id >= 0] * 5 + [False, True]),
            is_control=choose.randrange(20) == 0,
            is_log_append_time=choose.random() < 0.5,
            compression=choose.choice(["none"] * 3 + ["gzip", "snappy", "lz4", "zstd"]),
            delete_horizon_ms=choose.choice([None, self._timestamp()]),
        )
        return batch, base_offset + records[-1][0] + 1

    def _control_batch(self, base_offset: int) -> Log:
        if self._choose.random() < 0.5:
            epoch, control_type = self._choose.randrange(4), self._choose.randint(-1, 4)
            marker = write_control_batch(base_offset, 5, epoch, control_type, timestamp_ms=7)
            return marker, base_offset + 1
        record = (0, 7, self._bytes(6), None)
        batch = write_record_batch(
            base_offset, [record], producer_id=5, is_transactional=True, is_control=True
        )
        return batch, base_offset + 1

    def _empty_batch(self, base_offset: int) -> Log:
        delta = self._choose.randrange(6)
        batch = write_record_batch(base_offset, [], producer_id=5, last_offset_delta=delta)
        return batch, base_offset + delta + 1

    def _message_set(self, base_offset: int) -> Log:
        messages = [
            (base_offset + index, self._timestamp(), *self._record())
            for index in range(self._choose.randint(1, 4))
        ]
        raw = write_message_set(
            messages,
            magic=self._choose.randrange(2),
            compression=self._choose.choice(["none", "gzip", "snappy", "lz4"]),
            is_log_append_time=self._choose.random() < 0.5,
        )
        return raw, base_offset + len(messages)

    def _resealed_batch(self, base_offset: int) -> Log:
        """A batch with a bit changed and the checksum of a whole one: broken inside."""
        batch, next_offset = self._data_batch(base_offset)
        changed = bytearray(batch)
        changed[self._choose.randrange(21, len(batch))] ^= 1 << self._choose.randrange(8)
        struct.pack_into(">I", changed, 17, crc32c(bytes(changed[21:])))
        return bytes(changed), next_offset


def _log(drawn: tuple[int, Sequence[int]]) -> Log:
    offset, seeds = drawn
    raw = b""
    for seed in seeds:
        batch, offset = RandomBatches(seed).batch(offset)
        raw += batch
    return raw, offset


def batch_logs() -> st.SearchStrategy[Log]:
    return st.tuples(st.sampled_from([0, 0, 0, 10**12]), seed_lists(8)).map(_log)


def damaged_logs() -> st.SearchStrategy[Log]:
    return st.builds(
        lambda log, seed: (RandomBatches(seed).damaged(log[0]), log[1]), batch_logs(), SEEDS
    )


@st.composite
def header_like_bytes(draw: st.DrawFn) -> bytes:
    """Random bytes behind a length and a magic that lead somewhere, with any checksum at all."""
    body = draw(st.binary(min_size=44, max_size=120))
    header = struct.pack(">qii", draw(st.integers(-1, 50)), len(body) + 5, 0)
    magic = bytes([draw(st.integers(0, 3))])
    return header + magic + struct.pack(">I", crc32c(body)) + body
