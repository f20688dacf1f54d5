"""Lock files of jars: which files a set has, their Maven coordinates and their SHA-512.

A lock file is what `sha512sum --check` reads, with the coordinates of each jar as a comment:

    # org.apache.kafka:kafka_2.13:4.2.0
    3af0...  kafka_2.13-4.2.0.jar
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from streaming.errors import ConfigurationError

_SHOWN = 16
"""Digits of a SHA-512 in an error: enough to see that two differ."""


def read_lock(file: Path) -> dict[str, str] | None:
    """The SHA-512 of each jar by file name; None where there is no such file.

    Raises:
        ConfigurationError: there is one, but it is no lock file: nothing can be held to it.
    """
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
        sums = [line.split(maxsplit=1) for line in lines if not line.startswith("#")]
        return {name: sha512 for sha512, name in sums}
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{file} is no lock file of jars: {error}") from error


def write_lock(file: Path, jars: Mapping[Path, str]) -> None:
    """Write the lock file of jars, each with its coordinates."""
    found = sorted((jar.name, coordinates, sha512_of(jar)) for jar, coordinates in jars.items())
    lines = (f"# {coordinates}\n{sha512}  {name}\n" for name, coordinates, sha512 in found)
    file.write_text("".join(lines), encoding="utf-8")


def difference(folder: Path, sums: Mapping[str, str]) -> str | None:
    """How a folder differs from a lock file, by its first jar that does; None where it does not."""
    for name in sorted(sums.keys() | {jar.name for jar in folder.glob("*.jar")}):
        if name not in sums:
            return f"{name} is not in the lock file"
        try:
            found = sha512_of(folder / name)
        except OSError as error:
            return f"{name} cannot be read ({error.strerror})"
        if found != sums[name]:
            return f"{name} has SHA-512 {found[:_SHOWN]}..., not {sums[name][:_SHOWN]}..."
    return None


def sha512_of(jar: Path) -> str:
    """As hexadecimal digits."""
    return hashlib.sha512(jar.read_bytes()).hexdigest()
