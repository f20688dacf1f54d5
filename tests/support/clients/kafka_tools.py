"""Kafka's own command line tools, as the jars have them."""

from __future__ import annotations

import json
import subprocess
from typing import Any, Final

from streaming.jvm.java import find_java
from tests.support.brokers.jar_sets import tool_jars

Json = dict[str, Any]

_LIMIT_S: Final = 180


def run_kafka_tool(program: str, *arguments: str) -> str:
    """Run a class, or a Java source file, to its end; returns the text that it prints."""
    # Without log4j the tools write no log messages between the lines of their answer.
    class_path = ":".join(str(jar) for jar in tool_jars() if "log4j-" not in jar.name)
    done = subprocess.run(
        [str(find_java()), "-Xmx512m", "-cp", class_path, program, *arguments],
        capture_output=True,
        text=True,
        timeout=_LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def console_consumer_records(
    bootstrap_servers: str, topic: str, log_partition: int, formatter: str
) -> list[Json]:
    """Return the records of a log partition as one of Kafka's formatters prints them."""
    printed = run_kafka_tool(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *("--bootstrap-server", bootstrap_servers, "--topic", topic),
        *("--partition", str(log_partition), "--offset", "earliest", "--timeout-ms", "4000"),
        *("--formatter", f"org.apache.kafka.tools.consumer.{formatter}"),
    )
    # The formatters write no newline between two records.
    decoder, records, position = json.JSONDecoder(), list[Json](), 0
    while position < len(printed.rstrip()):
        record, position = decoder.raw_decode(printed, position)
        records.append(record)
    return records
