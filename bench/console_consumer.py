"""Kafka's own console consumer with the formatter for offsets: the peer that everybody has."""

from __future__ import annotations

import os
import subprocess

from coordinator_state.records.internal_topics import OFFSETS_TOPIC
from streaming.jvm.jars import kafka_jars
from streaming.jvm.java import find_java

_MAIN = "org.apache.kafka.tools.consumer.ConsoleConsumer"
_FORMATTER = "org.apache.kafka.tools.consumer.OffsetsMessageFormatter"


def print_offsets(bootstrap_servers: str, records: int) -> None:
    """Print so many records of `__consumer_offsets` to nowhere.

    Raises:
        CalledProcessError: it ended with an error.
    """
    class_path = ":".join(str(jar) for jar in kafka_jars() if "log4j-" not in jar.name)
    subprocess.run(
        [
            *(str(find_java()), "-Xmx512m", "-cp", class_path, _MAIN),
            *("--bootstrap-server", bootstrap_servers, "--topic", OFFSETS_TOPIC),
            *("--from-beginning", "--max-messages", str(records), "--formatter", _FORMATTER),
        ],
        env=dict(os.environ),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=True,
    )
