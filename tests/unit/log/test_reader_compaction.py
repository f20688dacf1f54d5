"""Which commits the reader drops before they become rows."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator_state.log.record_batch_writer import write_control_batch, write_record_batch
from coordinator_state.records.record_types import RECORD_TYPES
from coordinator_state.records.serde import encode_key
from tests.support.logs.decoded_rows import GROUP_KEY, KEY, VALUE, decode, offsets_of
from tests.support.logs.logs import group_value, offset_key, offset_value


class TestCompaction:
    def batch(self, base_offset: int, value: bytes | None, key: bytes = KEY, **batch: Any) -> bytes:
        return write_record_batch(base_offset, [(0, 9, key, value)], **batch)

    def test_drops_what_a_later_commit_supersedes(self) -> None:
        raw = b"".join(self.batch(offset, VALUE) for offset in range(4))
        decoded = decode(raw, compact=True)
        # What the first says may be less than what was committed before this record set.
        assert decoded.rows.column("record_offset").to_pylist() == [0, 3]
        assert (decoded.records_read, decoded.records_superseded) == (4, 2)
        assert decode(raw).records_superseded == 0

    def test_the_record_type_is_no_part_of_the_key(self) -> None:
        legacy = offset_key("g", "t", 3, record_type=0)
        raw = self.batch(0, VALUE) + self.batch(1, VALUE, legacy) + self.batch(2, VALUE)
        assert offsets_of(raw, compact=True) == [0, 2]

    @pytest.mark.parametrize(
        "other", [offset_key("h", "t", 3), offset_key("g", "u", 3), offset_key("g", "t", 4)]
    )
    def test_keeps_other_keys(self, other: bytes) -> None:
        raw = self.batch(0, VALUE) + self.batch(1, VALUE, other)
        assert offsets_of(raw, compact=True) == [0, 1]

    def test_keeps_tombstones_and_the_commit_before_one(self) -> None:
        values = [VALUE, VALUE, VALUE, None, None]
        raw = b"".join(self.batch(offset, value) for offset, value in enumerate(values))
        assert offsets_of(raw, compact=True) == [0, 2, 3, 4]

    def test_keeps_what_a_tombstone_took_away_and_what_came_after_it(self) -> None:
        values = [VALUE, VALUE, VALUE, None, VALUE, VALUE, VALUE]
        raw = b"".join(self.batch(offset, value) for offset, value in enumerate(values))
        assert offsets_of(raw, compact=True) == [0, 2, 3, 4, 6]

    def test_keeps_both_sides_of_a_rewind(self) -> None:
        committed = [10, 20, 30, 5, 15, 40, 50]
        values = [offset_value(offset) for offset in committed]
        raw = b"".join(self.batch(offset, value) for offset, value in enumerate(values))
        assert offsets_of(raw, compact=True) == [0, 2, 3, 6]

    @pytest.mark.parametrize(
        "held_back",
        [
            {"producer_id": 5, "is_transactional": True},
            {"producer_id": 5},
            {"is_transactional": True},
        ],
    )
    def test_records_of_producers_neither_go_nor_supersede(self, held_back: dict[str, Any]) -> None:
        raw = (
            self.batch(0, VALUE)
            + self.batch(1, VALUE, **held_back)
            + self.batch(2, VALUE, **held_back)
        )
        assert offsets_of(raw, compact=True) == [0, 1, 2]
        raw += self.batch(3, VALUE) + self.batch(4, VALUE) + self.batch(5, VALUE)
        assert offsets_of(raw, compact=True) == [0, 1, 2, 3, 5]

    def test_keeps_every_other_row(self) -> None:
        raw = (
            self.batch(0, group_value(), GROUP_KEY)
            + self.batch(1, group_value(), GROUP_KEY)
            + write_control_batch(2, 5, 0, 1)
            + self.batch(3, b"broken")
            + self.batch(4, VALUE)
            + self.batch(5, b"broken")
        )
        assert offsets_of(raw, compact=True) == [0, 1, 2, 3, 4, 5]

    @pytest.mark.parametrize(
        ("group", "record_type", "kept"),
        [("g", 8, [0, 1, 2, 3]), ("h", 8, [0, 2, 3]), ("g", 2, [0, 2, 3])],
    )
    def test_keeps_the_commit_before_a_record_that_may_find_a_simple_group(
        self, group: str, record_type: int, kept: list[int]
    ) -> None:
        """A tombstone of a consumer group makes one of a group that has nothing but offsets."""
        kind = RECORD_TYPES[record_type]
        names = [field.name for field in kind.key_fields]
        key = encode_key(kind, dict(zip(names, [group, "m"], strict=False)))
        raw = (
            self.batch(0, VALUE)
            + self.batch(1, VALUE)
            + self.batch(2, None, key)
            + self.batch(3, VALUE)
        )
        assert offsets_of(raw, compact=True) == kept

    def test_looks_at_the_range_only(self) -> None:
        raw = b"".join(self.batch(offset, VALUE) for offset in range(4))
        assert offsets_of(raw, compact=True, to_offset=3) == [0, 2]
