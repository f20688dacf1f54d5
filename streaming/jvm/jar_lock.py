"""Lock files of jars: the file names of a set, their Maven coordinates and SHA-512 sums.

A lock file has the format of `sha512sum --check`, with the coordinates of each jar as a comment:

    # org.apache.kafka:kafka_2.13:4.2.0
    3af0...  kafka_2.13-4.2.0.jar
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from streaming.errors import ConfigurationError

_SHOWN = 16
"""Digits of a SHA-512 in an error, enough to tell two apart."""


class LockedJar(NamedTuple):
    """The Maven coordinates of a jar, ORGANISATION:MODULE:REVISION, and its SHA-512."""

    coordinates: str
    sha512: str


def read_lock(file: Path) -> dict[str, LockedJar] | None:
    """Return the jars by file name; None if the file does not exist.

    Raises:
        ConfigurationError: the file is not a valid lock file, so jars cannot be verified.
    """
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
        coordinates = [line.removeprefix("# ") for line in lines[::2]]
        sums = [line.split(maxsplit=1) for line in lines[1::2]]
        return {
            name: LockedJar(coordinate, sha512)
            for coordinate, (sha512, name) in zip(coordinates, sums, strict=True)
        }
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{file} is not a lock file of jars: {error}") from error


def write_lock(file: Path, jars: Mapping[Path, str]) -> None:
    """Write the lock file of jars, each with its coordinates."""
    entries = sorted((jar.name, coordinates, sha512_of(jar)) for jar, coordinates in jars.items())
    lines = (f"# {coordinates}\n{sha512}  {name}\n" for name, coordinates, sha512 in entries)
    file.write_text("".join(lines), encoding="utf-8")


def difference(folder: Path, jars: Mapping[str, LockedJar]) -> str | None:
    """Return the first difference between a folder and a lock file; None if they match."""
    for name in sorted(jars.keys() | {jar.name for jar in folder.glob("*.jar")}):
        if name not in jars:
            return f"{name} is not in the lock file"
        try:
            sha512 = sha512_of(folder / name)
        except OSError as error:
            return f"{name} cannot be read ({error.strerror})"
        locked = jars[name].sha512
        if sha512 != locked:
            return f"{name} has SHA-512 {sha512[:_SHOWN]}..., not {locked[:_SHOWN]}..."
    return None


def sha512_of(jar: Path) -> str:
    """Return the SHA-512 of a file in hexadecimal."""
    return hashlib.sha512(jar.read_bytes()).hexdigest()
