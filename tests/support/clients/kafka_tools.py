"""Kafka's own command line tools and clients, as the jars have them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from streaming.jvm.jars import kafka_jars
from streaming.jvm.java import find_java
from tests.support.brokers.jar_sets import client_jars, tool_jars

_LIMIT_S: Final = 180
_END_S: Final = 30


def _command(jars: Sequence[Path], program: str, arguments: Sequence[str]) -> list[str]:
    # Without log4j they write no log messages between the lines of their answer.
    class_path = ":".join(str(jar) for jar in jars if "log4j-" not in jar.name)
    return [str(find_java()), "-Xmx512m", "-cp", class_path, program, *arguments]


def run_kafka_tool(program: str, *arguments: str) -> str:
    """Run a class, or a Java source file, to its end; returns the text that it prints."""
    done = subprocess.run(
        _command(tool_jars(), program, arguments),
        capture_output=True,
        text=True,
        timeout=_LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@contextmanager
def running_kafka_client(log: Path, program: str, *arguments: str) -> Iterator[None]:
    """Run a client of Kafka, or a Kafka Streams application, while the block runs."""
    with (
        log.open("wb") as output,
        subprocess.Popen(
            _command([*kafka_jars(), *client_jars()], program, arguments),
            stdout=output,
            stderr=subprocess.STDOUT,
        ) as process,
    ):
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(_END_S)
            except subprocess.TimeoutExpired:
                process.kill()
