"""Records that cannot be decoded, in the log of a real broker: both engines quarantine them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from coordinator_state.log.record_batch_writer import write_record_batch
from coordinator_state.records.internal_topics import OFFSETS_TOPIC
from coordinator_state.records.record_types import RECORD_TYPES
from coordinator_state.records.serde import encode_key
from coordinator_state.replay.partitioner import partition_for
from streaming.local.broker.embedded import EmbeddedBroker
from streaming.tables.reader import TableReader
from tests.support.brokers.fresh_broker import FreshBroker
from tests.support.brokers.running_query import run_to_end
from tests.support.logs.logs import group_record_value, offset_key, offset_value

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

GROUP = "bad-input"
LOG_PARTITION = partition_for(GROUP)
_KEY = offset_key(GROUP, "orders", 0)
_VALUE = offset_value(1)

BAD_RECORDS: dict[str, tuple[bytes | None, bytes | None]] = {
    "UnknownRecordType": (b"\x00\x63" + _KEY[2:], _VALUE),
    "UnsupportedVersion": (_KEY, b"\x00\x09" + _VALUE[2:]),
    "value cut": (_KEY, _VALUE[:-3]),
    "key cut": (_KEY[:5], _VALUE),
    "random bytes": (b"\x00\x01\xde\xad\xbe\xef", b"\xff\xff"),
    "null key": (None, _VALUE),
    "invalid UTF-8": (offset_key("bad", "orders", 0).replace(b"bad", b"b\xffd"), _VALUE),
    "negative length": (_KEY[:2] + b"\xff\xfe" + _KEY[4:], _VALUE),
    "empty key": (b"", _VALUE),
    "cut value of a consumer group": (encode_key(RECORD_TYPES[3], {"groupId": "x"}), b"\x00\x00"),
}
OTHER_KEY = encode_key(RECORD_TYPES[3], {"groupId": "consumers"})


@pytest.fixture
def bad_broker(fresh_broker: FreshBroker) -> EmbeddedBroker:
    """In one log partition: a commit, all that is bad, a batch with a wrong checksum, a commit.

    No coordinator loads it, so no other test can use the broker.
    """
    broker = fresh_broker()
    broker.create_offsets_topic()
    records = [(_KEY, offset_value(1)), *BAD_RECORDS.values(), (OTHER_KEY, group_record_value(3))]
    sound = write_record_batch(0, [(n, 0, *record) for n, record in enumerate(records)])
    damaged = write_record_batch(len(records), [(0, 0, _KEY, offset_value(5))])
    last = (0, 0, offset_key(GROUP, "orders", 1), offset_value(7))
    segment = sound + damaged + write_record_batch(len(records) + 1, [last])
    broker.stop()
    broker.replace_log(LOG_PARTITION, segment)
    broker.start()
    # Only now: a broker that starts cuts its log before the first batch that is damaged.
    (file,) = broker.log_dir.glob(f"{OFFSETS_TOPIC}-{LOG_PARTITION}/{0:020d}.log")
    with file.open("r+b") as log:
        log.seek(len(sound + damaged) - 1)
        log.write(b"\x01")
    return broker


@pytest.mark.parametrize("engine", ["driver", pytest.param("spark", marks=pytest.mark.release)])
def test_every_bad_record_is_a_row_and_the_log_goes_on(
    bad_broker: EmbeddedBroker, spark: SparkSession, tmp_path: Path, engine: str
) -> None:
    log_partitions = (LOG_PARTITION,)
    tables = run_to_end(bad_broker, spark, tmp_path, engine=engine, log_partitions=log_partitions)
    reader = TableReader(tables)
    quarantined = {row["record_offset"]: row for row in reader.read("quarantine").to_pylist()}
    assert sorted(quarantined) == [*range(1, len(BAD_RECORDS) + 1), len(BAD_RECORDS) + 2]
    for record_offset, (name, (key, value)) in enumerate(BAD_RECORDS.items(), start=1):
        row = quarantined[record_offset]
        assert row["reason"], name
        assert (row["raw_key"], row["raw_value"]) == (key, value), name
    assert "CRC" in quarantined[len(BAD_RECORDS) + 2]["reason"]
    assert {
        (row["group_id"], row["topic"], row["partition"]): row["committed_offset"]
        for row in reader.read("group_offsets").to_pylist()
    } == {(GROUP, "orders", 0): 1, (GROUP, "orders", 1): 7}
    (kept,) = reader.read("coordinator_records").to_pylist()
    assert (kept["group_id"], kept["raw_key"]) == ("consumers", OTHER_KEY)
    (progress,) = reader.read("load_progress").to_pylist()
    assert progress["records_applied"] == 3
    assert progress["records_quarantined"] == len(BAD_RECORDS) + 1
    assert progress["records_read"] == len(BAD_RECORDS) + 4
