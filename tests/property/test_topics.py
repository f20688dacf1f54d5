"""The tables of `__transaction_state` and `__share_group_state` against a short reference.

Random logs are cut into micro-batches anywhere, with redelivery and crashes between writes.
"""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_state.apply.columns import columns_of
from coordinator_state.apply.topic_rows import IS_TOMBSTONE
from coordinator_state.apply.topics import TOPIC_RULES
from coordinator_state.errors import CoordinatorStateError
from coordinator_state.log.record_batch import Record, RecordBatch, read_record_batches
from coordinator_state.records.internal_topics import (
    OTHER_TOPICS,
    SHARE_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
)
from coordinator_state.records.record_types import RecordType
from coordinator_state.records.serde import decode_key, decode_value, encode_value
from coordinator_state.records.share_state_records import SHARE_STATE_RECORD_TYPES
from coordinator_state.records.transaction_records import TRANSACTION_RECORD_TYPES
from coordinator_state.replay.share_partitions import replay_share_record
from coordinator_state.replay.transactions import transaction_of
from coordinator_state.wire.primitives import uuid_text
from streaming.engine.micro_batch import MicroBatchApply
from streaming.tables.reader import TableReader
from streaming.tables.schemas import (
    GROUP_OFFSETS,
    LOAD_PROGRESS,
    STATE_TABLES,
    TOPIC_PROGRESS,
    TOPIC_TABLES,
)
from tests.support.logs.log_rows import progress_row, table_of
from tests.support.logs.random_logs import seed_lists
from tests.support.logs.topic_logs import (
    NOW_MS,
    UNKNOWN_TYPE,
    KeyAndValue,
    TopicLog,
    follow,
    share_fields,
    share_key,
    transaction_key,
    transaction_value,
)
from tests.support.tables.every_table import create
from tests.support.tables.tables_folder import Crash, start_apply

# --- random logs, and their states by reference

States = dict[tuple[Any, ...], tuple[Any, int | None, int]]
"""The state of each key, its delivery timestamp, and the offset of the last record of the key."""
Outcomes = Counter[str]

_RECORD_TYPES: Final = {
    TRANSACTION_STATE_TOPIC: TRANSACTION_RECORD_TYPES,
    SHARE_STATE_TOPIC: SHARE_STATE_RECORD_TYPES,
}


def _transaction_record(choose: random.Random) -> KeyAndValue:
    started_ms = choose.choice([*[NOW_MS] * 5, NOW_MS + 1, -1, -(1 << 63)])
    value = transaction_value(
        choose.choice([0, 1, 1, 1, 2, 3, 3, 4, 5, 6, 7, 8, -1]),
        producerId=choose.choice([5, 5, 5, 6]),
        producerEpoch=choose.randrange(2),
        transactionTimeoutMs=choose.choice([0, 60_000]),
        transactionPartitions=choose.choice(
            [None, [], [{"topic": "t", "partitionIds": [0, 1]}, {"topic": "u", "partitionIds": []}]]
        ),
        transactionStartTimestampMs=started_ms,
        transactionLastUpdateTimestampMs=choose.choice([-1, NOW_MS + 9, (1 << 63) - 1]),
        clientTransactionVersion=choose.randrange(3),
    )
    return transaction_key(choose.choice(["x", "x", "é"])), value


def _share_record(choose: random.Random) -> KeyAndValue:
    record_type = choose.choice([0, 1, 1])
    value = share_fields(choose, record_type)
    group_id, partition = choose.choice([("g", 0), ("g", 0), ("g", 1), ("h", 0)])
    key = share_key(partition, record_type, group_id)
    return key, encode_value(SHARE_STATE_RECORD_TYPES[record_type], 0, value)


def append_random(log: TopicLog, seed: int) -> None:
    """Append what a seed stands for: mostly a record, else a tombstone, a marker or garbage."""
    choose = random.Random(seed)
    draw = _transaction_record if log.topic == TRANSACTION_STATE_TOPIC else _share_record
    key, value = draw(choose)
    place = {"gap": choose.choice([0, 0, 0, 3]), "timestamp_ms": NOW_MS + choose.randrange(9)}
    match choose.randrange(12):
        case 0 | 1:
            log.append((key, None), **place)
        case 2:
            log.marker()
        case 3:
            keys = [None, b"", UNKNOWN_TYPE, choose.randbytes(choose.randrange(9)), b"\0\0\0\1"]
            log.append((choose.choice(keys), choose.choice([value, None])), **place)
        case 4:
            cut = (value or b"")[: choose.randrange(20)]
            garbage = choose.choice([cut, choose.randbytes(choose.randrange(40))])
            log.append((key, garbage), **place)
        case _:
            log.append((key, value), **place)


def topic_logs(topic: str, log_partition: int = 0) -> st.SearchStrategy[TopicLog]:
    def log_of(seeds: Sequence[int]) -> TopicLog:
        log = TopicLog(topic, log_partition)
        for seed in seeds:
            append_random(log, seed)
        return log

    return seed_lists(25).map(log_of)


def reference(log: TopicLog) -> tuple[States, Outcomes]:
    """The states after a log, and the number of records by outcome."""
    states: States = {}
    outcomes: Outcomes = Counter()
    for batch in read_record_batches(bytes(log.raw)):
        assert isinstance(batch, RecordBatch)
        for record in batch.records:
            if batch.is_control:
                outcomes["ignored"] += 1
                continue
            try:
                key = decode_key(record.key or b"", _RECORD_TYPES[log.topic])
                name = tuple(uuid_text(v) if n == "topicId" else v for n, v in key.fields.items())
                place = (log.log_partition, *name)
                before, *_ = states.get(place, (None, None, -1))
                state = _next_state(log.topic, before, key.record_type, record)
            except CoordinatorStateError:
                outcomes["quarantined"] += 1
            else:
                outcomes["applied"] += 1
                states[place] = state, delivery_timestamp_ms(state), record.record_offset
    return {place: state for place, state in states.items() if state[0] is not None}, outcomes


def delivery_timestamp_ms(state: Any) -> int | None:
    """That of a share partition, which is no part of its equality; None for a transaction."""
    timestamp_ms: int | None = getattr(state, "delivery_timestamp_ms", None)
    return timestamp_ms


def _next_state(topic: str, before: Any, record_type: RecordType, record: Record) -> Any:
    fields = None if record.value is None else decode_value(record_type, record.value).fields
    if topic == SHARE_STATE_TOPIC:
        return replay_share_record(before, record_type.id, fields, record.timestamp_ms)
    return None if fields is None else transaction_of(fields)


LOG_PARTITIONS = 3
"""Of each topic, in one folder of tables."""
WRITTEN = list(dict.fromkeys(table for tables in TOPIC_TABLES.values() for table in tables))
FAULTS = [table.name for table in (*WRITTEN, GROUP_OFFSETS, TOPIC_PROGRESS, LOAD_PROGRESS)]
"""The tables of these topics are written before those of `__consumer_offsets`."""

Row = dict[str, Any]
Rows = dict[str, list[str]]
"""The rows of each table, as sorted texts."""


def _states(topic: str, rows: pa.Table) -> States:
    """The states that rows of a table of keys have."""
    offsets = rows["record_offset"].to_pylist()
    by_key = TOPIC_RULES[topic].read_states(rows)
    assert len(by_key) == rows.num_rows, "a key has two rows"
    return {
        key: (state, delivery_timestamp_ms(state), at)
        for (key, state), at in zip(by_key.items(), offsets, strict=True)
    }


# --- the rules of a micro-batch, without tables


@pytest.mark.parametrize("topic", OTHER_TOPICS)
@given(data=st.data())
def test_any_cut_gives_the_states_of_the_reference(topic: str, data: st.DataObject) -> None:
    log = data.draw(topic_logs(topic))
    inner = data.draw(st.lists(st.integers(0, log.next_offset), max_size=4))
    table = STATE_TABLES[topic]
    stored, outcomes, events = table.schema.empty_table(), Counter[str](), list[Row]()
    for start, end in pairwise([0, *sorted(inner), log.next_offset]):
        before = TOPIC_RULES[topic].read_states(stored)
        rows = _in_another_order(log.rows(start, end))
        applied = TOPIC_RULES[topic].apply(rows, before, with_history=True)
        for outcome in ("applied", "ignored", "quarantined"):
            outcomes[outcome] += sum(getattr(applied.counts, outcome).values())
        events += _event_rows(applied.tables)
        stored = _merged(topic, stored, applied.tables[table.name])
    states, expected = reference(log)
    assert _states(topic, stored) == states
    assert +outcomes == +expected
    whole = TOPIC_RULES[topic].apply(log.rows(), {}, with_history=True)
    assert events == _event_rows(whole.tables)


def _event_rows(tables: Mapping[str, pa.Table]) -> list[Row]:
    return tables["transaction_events"].to_pylist() if "transaction_events" in tables else []


def _merged(topic: str, stored: pa.Table, changes: pa.Table) -> pa.Table:
    """A table after the changes of a micro-batch."""
    schema = STATE_TABLES[topic].schema
    changed = {tuple(row[name] for name in STATE_TABLES[topic].key) for row in changes.to_pylist()}
    kept = [
        tuple(row[name] for name in STATE_TABLES[topic].key) not in changed
        for row in stored.to_pylist()
    ]
    new = columns_of(changes.filter(pc.invert(changes[IS_TOMBSTONE])), schema)
    return pa.concat_tables([stored.filter(pa.array(kept, pa.bool_())), new])


# --- the tables


@pytest.fixture(scope="module")
def logs() -> list[TopicLog]:
    logs = [TopicLog(topic, p) for topic in OTHER_TOPICS for p in range(LOG_PARTITIONS)]
    for log in logs:
        for seed in range(40):
            append_random(log, 100 * log.log_partition + seed)
    return logs


@pytest.fixture(scope="module")
def half_loaded(
    request: pytest.FixtureRequest, logs: list[TopicLog], tmp_path_factory: pytest.TempPathFactory
) -> str:
    """Tables with the first half of each log; with the feed, rows are merged in another way."""
    tables = str(tmp_path_factory.mktemp("half") / "tables")
    create(tables, change_data_feed=request.param)
    _start(tables).apply(_micro_batch([(log, 0, _middle(log)) for log in logs]), 0, "query")
    return tables


@pytest.fixture(scope="module")
def undisturbed(logs: list[TopicLog], tmp_path_factory: pytest.TempPathFactory) -> Rows:
    """The rows after one micro-batch of the whole logs."""
    tables = str(tmp_path_factory.mktemp("undisturbed") / "tables")
    create(tables)
    _start(tables).apply(_micro_batch(_whole(logs)), 0, "query")
    _assert_loaded(tables, logs)
    rows = _rows(tables)
    assert all(rows.values())
    return rows


@pytest.mark.parametrize(
    ("fault", "half_loaded"),
    [(fault, number % 2 == 0) for number, fault in enumerate(FAULTS)],
    indirect=["half_loaded"],
)
def test_a_crash_after_any_write(
    tmp_path: Path, fault: str, half_loaded: str, logs: list[TopicLog], undisturbed: Rows
) -> None:
    """After it the checkpoint is behind the tables, once by a few records and once by all."""
    tables = str(shutil.copytree(half_loaded, tmp_path / "tables"))
    second = [(log, _middle(log), log.next_offset) for log in logs]
    with pytest.raises(Crash):
        _start(tables, fault).apply(_micro_batch(second), 1, "query")
    apply = _start(tables)
    behind = [(log, _middle(log) - 3, log.next_offset) for log in logs]
    for ranges in (behind, behind, _whole(logs)):
        apply.apply(_micro_batch(ranges), 1, "query")
    assert _rows(tables) == undisturbed


def _middle(log: TopicLog) -> int:
    return log.next_offset // 2


def _start(tables: str, fault: str = "") -> MicroBatchApply[pa.Table]:
    """A new process: everything it knows, it reads from the tables."""
    apply = start_apply(tables, fault=fault)
    follow(apply.progress, OTHER_TOPICS)
    return apply


def _whole(logs: Sequence[TopicLog]) -> list[tuple[TopicLog, int, int]]:
    return [(log, 0, log.next_offset) for log in logs]


def _micro_batch(ranges: Sequence[tuple[TopicLog, int, int]]) -> pa.Table:
    """The rows of ranges of logs; log partition 0 of `__consumer_offsets` has no records.

    A micro-batch may have its rows in any order.
    """
    rows = [log.rows(start, end) for log, start, end in ranges]
    idle = table_of([progress_row(0, 0, log_partition=0)])
    return _in_another_order(pa.concat_tables([*rows, idle]))


def _in_another_order(rows: pa.Table) -> pa.Table:
    places = random.Random(rows.num_rows).sample(range(rows.num_rows), rows.num_rows)
    return rows.take(pa.array(places, pa.int64()))


def _rows(tables: str) -> Rows:
    """All rows of these topics, without the times of the micro-batches and the bytes read."""
    reader = TableReader(tables)
    tables_read = {
        table.name: reader.read(table.name).to_pylist() for table in (*WRITTEN, TOPIC_PROGRESS)
    }
    for row in tables_read["topic_progress"]:
        del row["updated_at"], row["current_at"], row["bytes_read"]
    return {name: sorted(map(repr, rows)) for name, rows in tables_read.items()}


def _assert_loaded(tables: str, logs: Sequence[TopicLog]) -> None:
    reader = TableReader(tables)
    references = {(log.topic, log.log_partition): reference(log) for log in logs}
    for topic in OTHER_TOPICS:
        expected: States = {}
        for log in logs:
            expected |= references[log.topic, log.log_partition][0] if log.topic == topic else {}
        assert _states(topic, reader.read(STATE_TABLES[topic].name)) == expected
    progress = reader.read("topic_progress").to_pylist()
    assert sorted((r["log_topic"], r["log_partition"]) for r in progress) == sorted(references)
    for row in progress:
        counted = {
            outcome: row[f"records_{outcome}"] for outcome in ("applied", "ignored", "quarantined")
        }
        _, outcomes = references[row["log_topic"], row["log_partition"]]
        assert +Counter(counted) == +outcomes
        assert row["records_read"] == outcomes.total()
        assert row["records_unaccounted"] == 0
        assert row["state"] == "current"
    assert _twice(reader, "transaction_events", ("log_partition", "record_offset")) == []
    assert _twice(reader, "quarantine", ("log_topic", "log_partition", "record_offset")) == []


def _twice(reader: TableReader, name: str, key: Sequence[str]) -> list[tuple[Any, ...]]:
    rows: Iterator[Row] = iter(reader.read(name).to_pylist())
    counts = Counter(tuple(row[column] for column in key) for row in rows)
    return [place for place, count in counts.items() if count > 1]
