"""Member bytes of Kafka Connect and Kafka Streams, as their own classes write them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

from streaming.jars import kafka_jars
from streaming.java import find_java
from tests.client_jars import client_jars

_PROGRAM = Path(__file__).parent / "java" / "MemberBytes.java"


def member_bytes() -> Iterator[dict[str, str]]:
    """The name and the bytes of each case."""
    class_path = ":".join(str(jar) for jar in [*kafka_jars(), *client_jars()])
    printed = subprocess.run(
        [str(find_java()), "-cp", class_path, str(_PROGRAM)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for line in printed.splitlines():
        name, raw = line.split("\t")
        yield {"name": name, "raw": raw}
