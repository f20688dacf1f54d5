"""The golden files are what the Kafka classes of today's jars write and read."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.golden.kafka_messages import KafkaMessages
from tests.golden.record import GOLDEN, golden_path, golden_text


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaMessages]:
    with KafkaMessages() as messages:
        yield messages


@pytest.mark.long
@pytest.mark.parametrize("name", GOLDEN)
def test_recording_again_gives_the_committed_file(kafka: KafkaMessages, name: str) -> None:
    # Compared outside of the assertion: a difference of half a megabyte takes pytest minutes.
    again = golden_text(GOLDEN[name](kafka)).splitlines()
    committed = golden_path(name).read_text(encoding="utf-8").splitlines()

    different = [pair for pair in zip(committed, again, strict=False) if pair[0] != pair[1]]
    assert not different[:5]
    assert len(again) == len(committed)
