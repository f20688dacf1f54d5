"""The rules of an internal topic other than `__consumer_offsets`, and their use on a micro-batch.

The rules are simpler than those of `__consumer_offsets`: a record replaces the state of its key, or
updates it. Log partitions are independent of each other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.apply.columns import in_ms, nullable, table_of
from coordinator_state.apply.counts import RecordCounts, by_log_partition
from coordinator_state.apply.rows import QUARANTINE_ROW
from coordinator_state.apply.topic_rows import IS_TOMBSTONE
from coordinator_state.errors import CoordinatorStateError
from coordinator_state.log.log_rows import (
    ROW_KIND_MARKER,
    ROW_KIND_PROGRESS,
    ROW_KIND_RECORD,
    ROW_KIND_UNDECODABLE,
)
from coordinator_state.records.record_types import RecordType
from coordinator_state.records.serde import DecodedKey, decode_key, decode_value

State = TypeVar("State")
Value = TypeVar("Value")

StateKey = tuple[Any, ...]
"""The log partition, and then the fields of a record's key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRecord(Generic[Value]):
    """A record; its value is None for a tombstone."""

    log_partition: int
    record_offset: int
    record_timestamp_ms: int | None
    key: DecodedKey
    value: Value | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedTopic:
    """The effect of a micro-batch of one topic, with times in milliseconds.

    Attributes:
        tables: the rows by table: changes of the table of keys, and new rows of the other tables.
        counts: the records by outcome.
    """

    tables: Mapping[str, pa.Table]
    counts: RecordCounts


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRules(Generic[State, Value]):
    """The rules of an internal topic.

    Attributes:
        name: the name of the topic.
        record_types: its record types by number.
        table: the name of the table with the state of each key.
        row: the schema of its rows, with times in milliseconds.
        key: the columns of its key: `log_partition`, then one for each field of a record's key.
        key_of: the values of these columns, except `log_partition`, from the fields of a key.
        value_of: the meaning of the fields of a value; an error quarantines the record.
        replay: the state after a record, from the state before; None removes the key.
        state: the class of a state. The table has its attributes as columns.
        entries: the column that is a list, and the class of its entries.
        nulls: the values of attributes that are null in the table.
        history: for each table of history, its rows from records with the states before them.
    """

    name: str
    record_types: Mapping[int, RecordType]
    table: str
    row: pa.Schema
    key: tuple[str, ...]
    key_of: Callable[[Mapping[str, Any]], StateKey]
    value_of: Callable[[Mapping[str, Any]], Value]
    replay: Callable[[State | None, TopicRecord[Value]], State | None]
    state: type[State]
    entries: tuple[str, type]
    nulls: Mapping[str, Any] = field(default_factory=dict)
    history: Mapping[
        str, Callable[[Sequence[tuple[TopicRecord[Value], State | None]]], pa.Table]
    ] = field(default_factory=dict)

    def apply(
        self, rows: pa.Table, before: Mapping[StateKey, State], *, with_history: bool
    ) -> AppliedTopic:
        """Apply one micro-batch of any set of log partitions.

        Markers are ignored: a coordinator writes no transactions into its own log.

        Args:
            rows: log rows (`LOG_ROW_SCHEMA`) in any order, without rows that the state before has
                already. Rows of kind `progress` are ignored.
            before: the state before the micro-batch, of at least the keys in it.
            with_history: whether rows of history are wanted.
        """
        undecodable: list[dict[str, Any]] = []
        after: dict[StateKey, State | None] = {}
        last: dict[StateKey, int] = {}
        replayed = []
        for record in self._decoded(rows, undecodable):
            key = record.log_partition, *self.key_of(record.key.fields)
            known = after[key] if key in after else before.get(key)
            replayed.append((record, known))
            after[key], last[key] = self.replay(known, record), record.record_offset
        quarantine = pa.Table.from_pylist(undecodable, schema=QUARANTINE_ROW)
        kinds = rows["row_kind"]
        return AppliedTopic(
            tables={
                self.table: self._changes(after, last),
                **{
                    name: rows_of(replayed if with_history else [])
                    for name, rows_of in self.history.items()
                },
                "quarantine": quarantine,
            },
            counts=RecordCounts(
                rows=by_log_partition(rows, pc.not_equal(kinds, ROW_KIND_PROGRESS).to_numpy()),
                applied=Counter(record.log_partition for record, _ in replayed),
                ignored=by_log_partition(rows, pc.equal(kinds, ROW_KIND_MARKER).to_numpy()),
                quarantined=by_log_partition(quarantine),
            ),
        )

    def read_names(self, rows: pa.Table) -> set[str]:
        """The first field of each key in log rows; a micro-batch needs the state of these keys."""
        names = set()
        for raw_key in pc.unique(rows["raw_key"]).to_pylist():
            if raw_key is not None:
                # A record with another key is quarantined.
                with suppress(CoordinatorStateError):
                    names.add(decode_key(raw_key, self.record_types).group_id)
        return names

    def read_states(self, rows: pa.Table) -> dict[StateKey, State]:
        """The state that rows of the table of keys have."""
        return {
            tuple(row[name] for name in self.key): self._state(row)
            for row in in_ms(rows, self.row).to_pylist()
        }

    def _decoded(
        self, rows: pa.Table, undecodable: list[dict[str, Any]]
    ) -> Iterator[TopicRecord[Value]]:
        """Decode records in log order; add rows that cannot be decoded, with the reason."""
        kinds = pa.array([ROW_KIND_RECORD, ROW_KIND_UNDECODABLE])
        wanted = rows.filter(pc.is_in(rows["row_kind"], kinds))
        in_order = wanted.sort_by([("log_partition", "ascending"), ("record_offset", "ascending")])
        keys: dict[bytes, DecodedKey] = {}
        for row in in_order.to_pylist():
            if row["row_kind"] == ROW_KIND_UNDECODABLE:
                undecodable.append(row)
                continue
            raw_key, raw_value = row["raw_key"], row["raw_value"]
            try:
                if raw_key not in keys:
                    keys[raw_key] = decode_key(raw_key, self.record_types)
                key = keys[raw_key]
                value = None if raw_value is None else decode_value(key.record_type, raw_value)
                record = TopicRecord(
                    log_partition=row["log_partition"],
                    record_offset=row["record_offset"],
                    record_timestamp_ms=row["record_timestamp_ms"],
                    key=key,
                    value=None if value is None else self.value_of(value.fields),
                )
            except CoordinatorStateError as error:
                undecodable.append(row | {"reason": str(error)})
            else:
                yield record

    def _changes(
        self, after: Mapping[StateKey, State | None], last: Mapping[StateKey, int]
    ) -> pa.Table:
        """A row of the table for each key, and whether it only deletes."""
        given: dict[str, list[Any]] = {
            name: [key[place] for key in after] for place, name in enumerate(self.key)
        }
        for name, null in self.nulls.items():
            values = [getattr(state, name, None) for state in after.values()]
            given[name] = [None if value == null else value for value in values]
        return table_of(
            after.values(),
            pa.schema([*nullable(self.row), pa.field(IS_TOMBSTONE, pa.bool_())]),
            **given,
            record_offset=last.values(),
            is_tombstone=[state is None for state in after.values()],
        )

    def _state(self, row: Mapping[str, Any]) -> State:
        names = self.state.__dataclass_fields__  # type: ignore[attr-defined]
        attributes = {name: row[name] for name in names}
        for name, null in self.nulls.items():
            attributes[name] = null if row[name] is None else row[name]
        column, entry = self.entries
        attributes[column] = tuple(entry(**fields) for fields in row[column])
        return self.state(**attributes)
