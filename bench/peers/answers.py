"""Parses the output and the HTTP answers of tools into committed offsets."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, MutableMapping
from typing import Any, Final

from coordinator_state.replay.offsets import OffsetKey

_SERIES: Final = re.compile(r"^(\w+)\{(.*)\} (\S+)", re.MULTILINE)
_LABEL: Final = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_ESCAPES: Final = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}
_ESCAPE: Final = re.compile(r'\\[\\"n]')

_LAG: Final = "kminion_kafka_consumer_group_topic_partition_lag"
_END: Final = "kminion_kafka_topic_partition_high_water_mark"
_OFFSET: Final = "kafka_consumergroup_group_offset"
_OFFSET_KEYS: Final = (0, 1)
_NO_OFFSET: Final = "-"


def of_kminion(exposition: str) -> dict[OffsetKey, int]:
    """Committed offsets of a scrape of kminion, which has the log end and the lag of each."""
    ends, lags = {}, {}
    for name, labels, value in _series(exposition, (_LAG, _END)):
        partition = labels["topic_name"], int(labels["partition_id"])
        if name == _END:
            ends[partition] = int(value)
        else:
            lags[OffsetKey(labels["group_id"], *partition)] = int(value)
    return {key: ends[key.topic, key.partition] - lag for key, lag in lags.items()}


def of_metrics(exposition: str) -> dict[OffsetKey, int]:
    """Committed offsets of a scrape of `coordinator-state metrics`."""
    return {
        OffsetKey(labels["group"], labels["topic"], int(labels["partition"])): int(value)
        for _, labels, value in _series(exposition, (_OFFSET,))
    }


def of_burrow(group: str, answer: str) -> dict[OffsetKey, int]:
    """The last offset of each partition in Burrow's detail of a consumer."""
    offset_by_key = {}
    for topic, partitions in json.loads(answer).get("topics", {}).items():
        for number, partition in enumerate(partitions):
            offsets = [commit["offset"] for commit in partition["offsets"] if commit is not None]
            if offsets:
                offset_by_key[OffsetKey(group, topic, number)] = offsets[-1]
    return offset_by_key


def of_describe(printed: str) -> dict[OffsetKey, int]:
    """Committed offsets in what `kafka-consumer-groups.sh --describe` prints."""
    offset_by_key = {}
    for line in printed.splitlines():
        fields = line.split()
        if len(fields) < 4 or fields[0] == "GROUP" or not fields[2].isdecimal():
            continue
        group, topic, partition, offset = fields[:4]
        if offset != _NO_OFFSET:
            offset_by_key[OffsetKey(group, topic, int(partition))] = int(offset)
    return offset_by_key


class FormatterFold:
    """The last value of each key in the output of Kafka's formatter for offsets.

    This is the usual script around the console consumer: a record replaces the one before, and a
    record without a value removes it.
    """

    def __init__(self) -> None:
        self.offsets: MutableMapping[OffsetKey, int] = {}
        self._decoder = json.JSONDecoder()
        self._rest = ""

    def add(self, printed: str) -> None:
        """Take the next piece of the output; it may end inside a record."""
        text, position = self._rest + printed, 0
        while (position := _next(text, position)) < len(text):
            try:
                record, position = self._decoder.raw_decode(text, position)
            except json.JSONDecodeError:
                break
            self._apply(record)
        self._rest = text[position:]

    def _apply(self, record: dict[str, Any]) -> None:
        kind = record["key"].get("type", record["key"].get("version"))
        if kind not in _OFFSET_KEYS:
            return
        data = record["key"]["data"]
        key = OffsetKey(data["group"], data["topic"], data["partition"])
        value = record["value"]
        if value is None:
            self.offsets.pop(key, None)
        else:
            self.offsets[key] = value["data"]["offset"]


def _next(text: str, position: int) -> int:
    while position < len(text) and text[position].isspace():
        position += 1
    return position


def _series(exposition: str, names: tuple[str, ...]) -> Iterator[tuple[str, dict[str, str], float]]:
    for name, labels, value in _SERIES.findall(exposition):
        if name in names:
            text_by_label = {
                label: _ESCAPE.sub(lambda escape: _ESCAPES[escape[0]], text)
                for label, text in _LABEL.findall(labels)
            }
            yield name, text_by_label, float(value)
