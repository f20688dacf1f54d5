"""The Java process in which Kafka's own coordinator shard answers questions, a line of JSON each.

`java/ShardOracle.java` has what is asked and answered. It is compiled against the broker's jars
whenever it is started: the jars are cached, the compiler comes with the JDK. A folder with the name
of a release has the classes that it and later releases need in another form.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from coordinator_state.replay.releases import Release
from streaming.jvm.jars import kafka_jars
from streaming.jvm.java import find_java

_SOURCES = Path(__file__).parent / "java"
_COMPILER = "jdk.compiler/com.sun.tools.javac.Main"
_MAIN = "org.apache.kafka.coordinator.group.ShardOracle"
_END_TIMEOUT_S = 30

Json = dict[str, Any]


class ShardError(Exception):
    """The process ended, or something in it failed that is no answer to a client."""


class ShardProcess:
    """A context manager that runs the process of a Kafka version.

    `folder` is for its classes and its errors.
    """

    def __init__(self, folder: Path, version: str) -> None:
        self.release = Release.of(_numbers(version))
        java, jars = str(find_java()), kafka_jars(version)
        # Whatever it is logged, nobody reads it.
        class_path = ":".join([str(folder), *(str(j) for j in jars if "log4j-" not in j.name)])
        sources = map(str, _sources(version))
        compiled = subprocess.run(
            [java, "-m", _COMPILER, "-nowarn", "-d", str(folder), "-cp", class_path, *sources],
            capture_output=True,
            text=True,
            check=False,
        )
        if compiled.returncode != 0:
            raise ShardError(compiled.stderr)
        self._errors = folder / "errors.txt"
        with self._errors.open("w") as errors:
            self._process = subprocess.Popen(
                [java, "-Xmx256m", "-cp", class_path, _MAIN],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                encoding="utf-8",
            )

    def __enter__(self) -> ShardProcess:
        return self

    def __exit__(self, *_error: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(_END_TIMEOUT_S)
        self._process.stdout.close()

    def ask(self, question: Json) -> Json:
        """Put a question.

        Raises:
            ShardError: there is no answer.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{json.dumps(question)}\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise ShardError(self._errors.read_text())
        answer: Json = json.loads(line)
        if "crash" in answer:
            raise ShardError(answer["crash"])
        return answer


def _sources(version: str) -> list[Path]:
    """The sources for a version: of each file, the one of the newest release up to it."""
    source_by_name = {source.name: source for source in _SOURCES.glob("*.java")}
    releases = {_numbers(folder.name): folder for folder in _SOURCES.iterdir() if folder.is_dir()}
    for release, folder in sorted(releases.items()):
        if release <= _numbers(version):
            source_by_name |= {source.name: source for source in folder.glob("*.java")}
    return sorted(source_by_name.values())


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
