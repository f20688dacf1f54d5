"""Java programs that use Kafka's own classes, run from their source."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from streaming.jvm.java import find_java

_FOLDER = Path(__file__).parent / "java"


def run_java(program: str, jars: Sequence[Path], stdin: str = "") -> list[str]:
    """The lines that a program prints."""
    class_path = ":".join(str(jar) for jar in jars)
    ended = subprocess.run(
        [str(find_java()), "-cp", class_path, str(_FOLDER / f"{program}.java")],
        input=stdin,
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    return ended.stdout.splitlines()
