"""Plan files: the CSV that `kafka-consumer-groups.sh --reset-offsets --from-file` reads.

A line is `topic,partition,offset` for one group, or `group,topic,partition,offset` for several. The
file has no header. The tool splits it at line feeds before it looks at quotes, so a group whose id
has a line feed cannot be in a file.

Source: tools/src/main/java/org/apache/kafka/tools/consumer/group/CsvUtils.java and
ConsumerGroupCommand.java (`parseResetPlan`, `exportOffsetsToCsv`) at 3.9.1 and 4.4.0.
"""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from coordinator_state.replay.offsets import OffsetKey
from streaming.errors import ConfigurationError

_OF_ONE_GROUP: Final = 3
_OF_GROUPS: Final = 4
MOST_PARTITION: Final = 2**31 - 1
_MOST_OFFSET: Final = 2**63 - 1
_PLAIN: Final = re.compile(r"[\w.-]+", re.ASCII)


def plan_text(offsets: Mapping[OffsetKey, int], *, with_groups: bool) -> str:
    r"""The text of a plan file.

    >>> plan_text({OffsetKey("a,b", "orders", 0): 7}, with_groups=True)
    '"a,b",orders,0,7\n'
    """
    lines = (
        (*([key.group_id] if with_groups else []), key.topic, str(key.partition), str(offset))
        for key, offset in sorted(offsets.items())
    )
    return "".join(f"{','.join(map(_cell, line))}\n" for line in lines)


def read_plan(path: str, group_id: str | None = None) -> dict[OffsetKey, int]:
    """Read a plan file; `group_id` is needed for a file of one group, which does not name it.

    Of a file with groups, only the lines of `group_id` are read, if it is given.

    Raises:
        ConfigurationError: the file cannot be read, has a line of another form, or a partition
            twice, or no groups although `group_id` is not given.
    """
    try:
        lines = Path(path).read_bytes().decode("utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"cannot read the plan file {path}: {error}") from error
    offset_by_key: dict[OffsetKey, int] = {}
    for number, line in enumerate(lines, 1):
        if line.strip():
            where = f"{path}, line {number}"
            key, offset = _parsed(line, group_id, where)
            if key in offset_by_key:
                raise ConfigurationError(f"{where} has a partition that an earlier line has")
            offset_by_key[key] = offset
    if group_id is None:
        return offset_by_key
    return {key: offset for key, offset in offset_by_key.items() if key.group_id == group_id}


def _cell(text: str) -> str:
    r"""A cell, quoted if it has anything unusual; the csv module does not quote a bare \r."""
    if _PLAIN.fullmatch(text):
        return text
    doubled = text.replace('"', '""')
    return f'"{doubled}"'


def _parsed(line: str, group_id: str | None, where: str) -> tuple[OffsetKey, int]:
    try:
        (cells,) = csv.reader([line], strict=True)
    except csv.Error:
        cells = []
    *names, partition, offset = cells if len(cells) in (_OF_ONE_GROUP, _OF_GROUPS) else [""] * 3
    number, committed_offset = (
        whole_number(partition, MOST_PARTITION),
        whole_number(offset, _MOST_OFFSET),
    )
    if not names[-1] or number is None or committed_offset is None:
        raise ConfigurationError(f"{where} is not [GROUP,]TOPIC,PARTITION,OFFSET")
    if len(cells) == _OF_ONE_GROUP and group_id is None:
        raise ConfigurationError(f"{where} names no group: pass --group")
    group = group_id if group_id is not None and len(cells) == _OF_ONE_GROUP else names[0]
    return OffsetKey(group, names[-1], number), committed_offset


def whole_number(text: str, most: int) -> int | None:
    """A number from 0 to `most`; None for any other text."""
    digits = text.strip()
    is_number = digits.isascii() and digits.isdecimal() and len(digits) <= len(str(most))
    return int(digits) if is_number and int(digits) <= most else None


def write_plan(path: str, text: str, *, overwrite: bool = False) -> None:
    """Write a plan file: whole, or not at all.

    Raises:
        ConfigurationError: the file cannot be written, or exists with another content and
            `overwrite` is false.
    """
    file = Path(path)
    if file.is_dir():
        raise ConfigurationError(f"cannot write the plan file {path}: it is a folder")
    if not file.parent.is_dir():
        raise ConfigurationError(f"cannot write the plan file {path}: no folder {file.parent}")
    temporary = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        try:
            temporary.write_bytes(text.encode())
            _place(temporary, file, text, overwrite=overwrite)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise ConfigurationError(f"cannot write the plan file {path}: {error}") from error


def _place(temporary: Path, file: Path, text: str, *, overwrite: bool) -> None:
    """Give a finished file its name; a link, unlike a rename, never replaces another file."""
    if overwrite:
        temporary.replace(file)
        return
    try:
        os.link(temporary, file)
    except OSError as error:
        if not file.exists():
            if isinstance(error, FileExistsError):
                raise
            # A file system without links.
            temporary.replace(file)
        elif file.read_bytes() != text.encode():
            raise ConfigurationError(
                f"{file} already exists with different content: name another file, or pass --force"
            ) from None
