"""Finding a Java runtime for the embedded broker, Ivy and Spark.

`JAVA_HOME` comes first, then `PATH`. Spark's launcher has the same order, so Spark runs on the Java
whose version was checked here.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from streaming.errors import ConfigurationError

# Spark 4 and the Kafka 4 broker both stopped supporting Java 11.
MINIMUM_JAVA_VERSION = 17

_ADVICE = (
    f"install a JDK {MINIMUM_JAVA_VERSION} or newer, "
    f"e.g. apt-get install openjdk-{MINIMUM_JAVA_VERSION}-jre-headless, or set JAVA_HOME"
)
_VERSION_LINE = re.compile(r'version "(?P<first>\d+)(?:\.(?P<second>\d+))?')
_VERSION_TIMEOUT_S = 60


class JavaNotFound(ConfigurationError):
    """No Java runtime, or one that is too old."""


def find_java() -> Path:
    """Return the `java` command of `JAVA_HOME`, else the one on `PATH`.

    Raises:
        JavaNotFound: there is no `java`, it does not run, or it is older than
            `MINIMUM_JAVA_VERSION`.
    """
    java_home = os.environ.get("JAVA_HOME")
    if java_home:
        java = Path(java_home) / "bin" / "java"
        if not java.is_file():
            raise JavaNotFound(f"JAVA_HOME is {java_home}, but {java} does not exist: {_ADVICE}")
    else:
        command = shutil.which("java")
        if command is None:
            raise JavaNotFound(f"no Java: JAVA_HOME is not set and no java on PATH: {_ADVICE}")
        java = Path(command)
    version = java_version(java)
    if version < MINIMUM_JAVA_VERSION:
        raise JavaNotFound(f"{java} is Java {version}, which is too old: {_ADVICE}")
    return java


def java_version(java: Path) -> int:
    """Return the feature version of a `java` command, e.g. 17, or 8 for 1.8.

    Raises:
        JavaNotFound: `java` does not run, or its output has no version.
    """
    try:
        answer = subprocess.run(
            [java, "-version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_VERSION_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise JavaNotFound(f"{java} does not run ({error}): {_ADVICE}") from error
    return parse_java_version(java, answer.stderr + answer.stdout)


def parse_java_version(java: Path, answer: str) -> int:
    """Parse the feature version from the output of `java -version`.

    >>> parse_java_version(Path("java"), 'openjdk version "17.0.15" 2025-04-15')
    17
    >>> parse_java_version(Path("java"), 'java version "1.8.0_402"')
    8
    """
    match = _VERSION_LINE.search(answer)
    if match is None:
        first_line = next(iter(answer.splitlines()), "nothing")
        raise JavaNotFound(f"{java} -version answered {first_line!r}, no version: {_ADVICE}")
    first, second = int(match["first"]), match["second"]
    return int(second) if first == 1 and second is not None else first
