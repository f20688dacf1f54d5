"""Checkpoints of Spark queries: files as Spark 4.2 writes them, and what may happen to them."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from streaming.errors import ConfigurationError
from streaming.external.external_group import ExternalGroup
from streaming.external.spark_checkpoint import NoCheckpoint, SparkBatch, SparkCheckpoint
from streaming.kafka.partition_offsets import TopicPartition
from streaming.tables.file_systems import file_system
from tests.support.brokers.object_store import served_object_store
from tests.support.tables.spark_checkpoint import of_orders, write_batch

ORDERS = TopicPartition("orders", 0)


def ids(batches: list[SparkBatch]) -> list[int]:
    return [batch.batch_id for batch in batches]


@pytest.fixture
def checkpoint(tmp_path: Path) -> SparkCheckpoint:
    return SparkCheckpoint(str(tmp_path))


def test_batches_since_the_last_one(tmp_path: Path, checkpoint: SparkCheckpoint) -> None:
    write_batch(tmp_path, 9, of_orders(10), at=100)
    write_batch(tmp_path, 10, of_orders(20), at=101.5)
    first, second = checkpoint.batches_since(None)
    assert (first.query_id, first.batch_id, first.offsets) == ("q1", 9, {ORDERS: 10})
    assert second.done_at == datetime.fromtimestamp(101.5, timezone.utc)
    assert checkpoint.batches_since(second) == []
    # In the same moment as the batch before, as on a store with whole seconds.
    write_batch(tmp_path, 11, of_orders(30), at=101.5)
    assert ids(checkpoint.batches_since(second)) == [11]
    assert ids(checkpoint.batches_since(first)) == [10, 11]
    # The times of a copy are later, and in any order.
    for batch_id, offset in ((9, 10), (10, 20), (11, 30)):
        write_batch(tmp_path, batch_id, of_orders(offset), at=900 - batch_id)
    assert ids(checkpoint.batches_since(second)) == [11]


@pytest.mark.parametrize("name", ["commits", "offsets"])
def test_a_batch_counts_once_both_of_its_files_are_there(
    tmp_path: Path, checkpoint: SparkCheckpoint, name: str
) -> None:
    write_batch(tmp_path, 0, of_orders(10), at=100)
    write_batch(tmp_path, 1, of_orders(20), at=101)
    file = tmp_path / name / "1"
    text = file.read_text()
    file.unlink()
    (batch,) = checkpoint.batches_since(None)
    assert batch.offsets == {ORDERS: 10}
    file.write_text(text)
    assert ids(checkpoint.batches_since(batch)) == [1]


def test_a_rewind_by_deleted_files_is_seen(tmp_path: Path, checkpoint: SparkCheckpoint) -> None:
    for batch_id in range(4):
        write_batch(tmp_path, batch_id, of_orders(10 * batch_id), at=100 + batch_id)
    last = checkpoint.batches_since(None)[-1]
    for name in ("offsets", "commits"):
        for batch_id in (2, 3):
            (tmp_path / name / str(batch_id)).unlink()
    write_batch(tmp_path, 2, of_orders(12), at=200)
    (batch,) = checkpoint.batches_since(last)
    assert (batch.batch_id, batch.offsets) == (2, {ORDERS: 12})


def test_another_query_starts_again(tmp_path: Path, checkpoint: SparkCheckpoint) -> None:
    write_batch(tmp_path, 0, of_orders(10), at=100)
    (last,) = checkpoint.batches_since(None)
    (tmp_path / "metadata").write_text('{"id":2}')
    write_batch(tmp_path, 0, of_orders(5), at=100)
    (batch,) = checkpoint.batches_since(last)
    assert (batch.query_id, batch.offsets) == ("2", {ORDERS: 5})


@pytest.mark.parametrize(
    ("version", "sources", "offsets"),
    [
        ("v1", [of_orders(7), '{"orders":{"0":5,"1":9},"o2":{"0":1}}'], [5, 9, 1]),
        # A file source, a rate source, a Delta source, and one without an offset.
        ("v1", ['{"logOffset":3}', "42", '{"sourceVersion":1,"index":-1}', "-", of_orders(7)], [7]),
        ("v1", ['{"orders":{"0":-1}}'], []),
        # Numbers and names that Kafka does not have.
        ("v1", ['{"orders":{"99999999999":5,"0":99999999999999999999,"x":1}}'], []),
        ("v1", ['{"or ders":{"0":5}}', '{"\\ud800":{"0":5}}', of_orders(7)], [7]),
        ("v2", [f"0:{of_orders(7)}", "1:-"], [7]),
        ("v2", [json.dumps({"a": of_orders(7), "b": "-"})], [7]),
    ],
)
def test_offsets_of_kafka_sources(
    tmp_path: Path,
    checkpoint: SparkCheckpoint,
    version: str,
    sources: list[str],
    offsets: list[int],
) -> None:
    write_batch(tmp_path, 0, *sources, at=100, version=version)
    batches = checkpoint.batches_since(None)
    assert [offset for batch in batches for offset in batch.offsets.values()] == offsets


def test_no_checkpoint(tmp_path: Path) -> None:
    checkpoint = SparkCheckpoint(str(tmp_path / "none"))
    with pytest.raises(NoCheckpoint, match="none has no checkpoint of a Spark query"):
        checkpoint.batches_since(None)
    write_batch(tmp_path / "none", 0, of_orders(1), at=100)
    assert len(checkpoint.batches_since(None)) == 1


def test_a_file_that_cannot_be_read_is_tried_again(
    tmp_path: Path, checkpoint: SparkCheckpoint
) -> None:
    write_batch(tmp_path, 0, of_orders(1), at=100, version="v9")
    with pytest.raises(ConfigurationError, match=r"offsets/0 begins with 'v9', not with v1 or v2"):
        checkpoint.batches_since(None)
    write_batch(tmp_path, 0, of_orders(1), at=100)
    assert len(checkpoint.batches_since(None)) == 1


def test_a_checkpoint_in_an_object_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_batch(tmp_path, 7, of_orders(10), at=100)
    with served_object_store() as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        for scheme in ("s3", "s3a"):
            checkpoint = SparkCheckpoint(f"{scheme}://bucket/{scheme}")
            with pytest.raises(NoCheckpoint):
                checkpoint.batches_since(None)
            store = file_system(f"s3://bucket/{scheme}")
            for file in (path for path in tmp_path.rglob("*") if path.is_file()):
                with store.open_output_stream(str(file.relative_to(tmp_path))) as stream:
                    stream.write(file.read_bytes())
            (batch,) = checkpoint.batches_since(None)
            assert (batch.batch_id, batch.offsets) == (7, {ORDERS: 10})
            assert batch.done_at > datetime.now(timezone.utc) - timedelta(minutes=5)
            assert checkpoint.batches_since(batch) == []


@pytest.mark.parametrize("damage", [b"", b"\xff\xfe", b"{", b"[]"])
def test_damaged_metadata_is_one_line(
    tmp_path: Path, checkpoint: SparkCheckpoint, damage: bytes
) -> None:
    write_batch(tmp_path, 0, of_orders(1), at=100)
    (tmp_path / "metadata").write_bytes(damage)
    with pytest.raises(ConfigurationError) as raised:
        checkpoint.batches_since(None)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("orders", "is not NAME=spark:PATH"),
        ("=spark:/x", "is not NAME=spark:PATH"),
        ("a=flink:/x", "docs/external.md says why Flink is not"),
        ("a=beam:/x", "only checkpoints of spark can be read"),
    ],
)
def test_another_form_is_refused(text: str, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        ExternalGroup.parse(text)
