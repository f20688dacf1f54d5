"""Lock files of jars: the file names of a set, their Maven coordinates and SHA-512 sums.

A lock file has the format of `sha512sum --check`, with the coordinates of each jar as a comment:

    # org.apache.kafka:kafka_2.13:4.2.0
    3af0...  kafka_2.13-4.2.0.jar
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from streaming.errors import ConfigurationError

_SHOWN = 16
"""Digits of a SHA-512 in an error, enough to tell two apart."""


def read_lock(file: Path) -> dict[str, str] | None:
    """Return the SHA-512 of each jar by file name; None if the file does not exist.

    Raises:
        ConfigurationError: the file is not a valid lock file, so jars cannot be verified.
    """
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
        sums = [line.split(maxsplit=1) for line in lines if not line.startswith("#")]
        return {name: sha512 for sha512, name in sums}
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{file} is not a lock file of jars: {error}") from error


def write_lock(file: Path, jars: Mapping[Path, str]) -> None:
    """Write the lock file of jars, each with its coordinates."""
    entries = sorted((jar.name, coordinates, sha512_of(jar)) for jar, coordinates in jars.items())
    lines = (f"# {coordinates}\n{sha512}  {name}\n" for name, coordinates, sha512 in entries)
    file.write_text("".join(lines), encoding="utf-8")


def difference(folder: Path, sums: Mapping[str, str]) -> str | None:
    """Return the first difference between a folder and a lock file; None if they match."""
    for name in sorted(sums.keys() | {jar.name for jar in folder.glob("*.jar")}):
        if name not in sums:
            return f"{name} is not in the lock file"
        try:
            sha512 = sha512_of(folder / name)
        except OSError as error:
            return f"{name} cannot be read ({error.strerror})"
        if sha512 != sums[name]:
            return f"{name} has SHA-512 {sha512[:_SHOWN]}..., not {sums[name][:_SHOWN]}..."
    return None


def sha512_of(jar: Path) -> str:
    """Return the SHA-512 of a file in hexadecimal."""
    return hashlib.sha512(jar.read_bytes()).hexdigest()
