"""The parts of the bench of peers that need no broker: answers of tools, and their comparison."""

from __future__ import annotations

import json

from bench.peers.__main__ import row
from bench.peers.answers import (
    FormatterFold,
    of_burrow,
    of_describe,
    of_kminion,
    of_metrics,
)
from bench.peers.trial import Start, Trial
from bench.peers.truth import by_class, wrong_offsets
from coordinator_state.replay.offsets import OffsetKey

KEY = OffsetKey("payments", "orders", 1)

KMINION = """\
# TYPE kminion_kafka_consumer_group_topic_lag gauge
kminion_kafka_consumer_group_topic_lag{group_id="payments",topic_name="orders"} 300
kminion_kafka_consumer_group_topic_partition_lag{group_id="payments",partition_id="1",\
topic_name="orders"} 300
kminion_kafka_topic_partition_high_water_mark{partition_id="0",topic_name="orders"} 20
kminion_kafka_topic_partition_high_water_mark{partition_id="1",topic_name="orders"} 1.0e+03
"""
METRICS = """\
kafka_consumergroup_group_offset{cluster_name="c",group="a \\"b\\"\\\\n",topic="orders",\
partition="1",member_host="",consumer_id="",client_id=""} 700.0
kafka_consumergroup_group_lag{cluster_name="c",group="g",topic="orders",partition="1"} 300.0
"""
DESCRIBED = """
Consumer group 'payments' has no active members.

GROUP     TOPIC   PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG  CONSUMER-ID  HOST  CLIENT-ID
payments  orders  1          700             1000            300  -            -     -
payments  orders  2          -               1000            -    a            /10   b
"""


def test_kminion_tells_a_committed_offset_by_log_end_and_lag() -> None:
    assert of_kminion(KMINION) == {KEY: 700}


def test_labels_lose_their_escapes() -> None:
    assert of_metrics(METRICS) == {OffsetKey('a "b"\\n', "orders", 1): 700}


def test_the_last_offset_of_burrow_counts_and_empty_places_do_not() -> None:
    offsets = [None, {"offset": 5}, {"offset": 700}]
    answer = {"topics": {"orders": [{"offsets": []}, {"offsets": offsets}]}}
    assert of_burrow("payments", json.dumps(answer)) == {KEY: 700}
    assert of_burrow("payments", '{"error":true,"message":"cluster or consumer not found"}') == {}


def test_a_partition_without_a_commit_is_left_out_of_a_description() -> None:
    assert of_describe(DESCRIBED) == {KEY: 700}


def test_records_of_the_formatter_replace_and_remove() -> None:
    fold = FormatterFold()
    printed = "".join(
        (_record(700), _record(650), _record(10, partition=2), _record(None, partition=2))
    )
    half = len(_record(700)) + 40
    fold.add(printed[:half])
    assert fold.offsets == {KEY: 700}
    fold.add(printed[half:])
    assert fold.offsets == {KEY: 650}


def test_an_offset_is_wrong_by_its_value_and_by_its_existence() -> None:
    same, other, missing, ghost, gone = (OffsetKey("g", "t", number) for number in range(5))
    classes = {same: "a", other: "a", missing: "b", ghost: "b", gone: "c"}
    unknown = OffsetKey("console-consumer-1", "t", 0)
    wrong = wrong_offsets(
        classes, {same: 1, other: 2, missing: 3}, {same: 1, other: 9, ghost: 4, unknown: 5}
    )
    assert wrong == [other, missing, ghost]
    assert by_class(classes, wrong) == {"a": 1, "b": 2}


def test_a_row_has_medians_and_tells_what_never_came() -> None:
    starts = [
        Start(right_s=right_s, settled_s=right_s, settled_cpu_s=1.0, wrong=0)
        for right_s in (9.0, 2.0, 3.0)
    ]
    trial = Trial(
        tool="a", settings="", starts=starts, fresh_s=[1.0, 2.0, 9.0], wrong=0, idle_cpu_s=0.25
    )
    figures = row(trial)
    assert figures["first_right_s"] == figures["settled_s"] == 3.0
    assert (figures["fresh_p50_s"], figures["fresh_p99_s"]) == (2.0, 8.86)

    never = Trial(tool="b", settings="", starts=[Start(settled_s=4.0, wrong=3)], wrong=3)
    never.wrong_by_class = {"transaction open": 3}
    figures = row(never)
    assert (figures["first_right_s"], figures["settled_s"]) == ("never", 4.0)
    assert figures["fresh_p50_s"] is None
    assert figures["transaction open"] == 3


def _record(offset: int | None, partition: int = KEY.partition) -> str:
    data = {"group": KEY.group_id, "topic": KEY.topic, "partition": partition}
    value = None if offset is None else {"version": 4, "data": {"offset": offset, "metadata": ""}}
    return json.dumps({"key": {"type": 1, "data": data}, "value": value})
