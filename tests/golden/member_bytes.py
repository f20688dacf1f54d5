"""Member bytes of Kafka Connect and Kafka Streams, as their own classes write them."""

from __future__ import annotations

from collections.abc import Iterator

from streaming.jvm.jars import kafka_jars
from tests.golden.java_program import run_java
from tests.support.brokers.jar_sets import client_jars


def member_bytes() -> Iterator[dict[str, str]]:
    """The name and the bytes of each case."""
    for line in run_java("MemberBytes", [*kafka_jars(), *client_jars()]):
        name, raw = line.split("\t")
        yield {"name": name, "raw": raw}
