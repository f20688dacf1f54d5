"""Files with deletion vectors, by the actions of a Delta log."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from streaming.tables.log_actions import deletion_vectors_since, removed_after

REMOVED = datetime(2026, 11, 25, 12, tzinfo=timezone.utc)
# The example of the Delta protocol, "Deletion Vector Descriptor Schema".
EXAMPLE = "ab^-aqEH.-t@S}K{vb[*k^"
FILE = "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"


def action(kind: str, storage: str = "u", offset: int = 4, **fields: Any) -> dict[str, Any]:
    vector = {"storageType": storage, "pathOrInlineDv": EXAMPLE, "offset": offset}
    return {kind: {"path": "part-0.parquet", "deletionVector": vector, **fields}}


def removed(offset: int = 4) -> dict[str, Any]:
    return action("remove", offset=offset, deletionTimestamp=int(REMOVED.timestamp() * 1000))


def needed(folder: Path, *entries: list[dict[str, Any]], since: datetime = REMOVED) -> set[str]:
    log = folder / "_delta_log"
    log.mkdir(exist_ok=True)
    for version, actions in enumerate(entries):
        (log / f"{version:020}.json").write_text("\n".join(map(json.dumps, actions)))
    return deletion_vectors_since(str(folder), len(entries) - 1, since)


def test_a_file_is_named_as_in_the_protocol(tmp_path: Path) -> None:
    assert needed(tmp_path, [action("add")]) == {FILE}


def test_a_vector_in_the_log_has_no_file(tmp_path: Path) -> None:
    plain = {"add": {"path": "part-0.parquet"}}
    assert needed(tmp_path, [action("add", storage="i"), plain, {"commitInfo": {}}]) == set()


def test_a_removed_vector_is_needed_for_a_while(tmp_path: Path) -> None:
    entries = [action("add")], [removed()]
    assert needed(tmp_path, *entries) == {FILE}
    assert needed(tmp_path, *entries, since=REMOVED + timedelta(seconds=1)) == set()


def test_a_file_is_needed_for_any_of_its_vectors(tmp_path: Path) -> None:
    later = REMOVED + timedelta(seconds=1)
    both = [action("add"), action("add", offset=50)]
    assert needed(tmp_path, both, [removed()], since=later) == {FILE}
    assert needed(tmp_path, both, [removed(), removed(50)], since=later) == set()
    # As RESTORE does.
    assert needed(tmp_path, both, [removed(), removed(50)], [action("add")], since=later) == {FILE}


def test_a_file_is_removed_with_its_vector_by_a_later_version(tmp_path: Path) -> None:
    needed(tmp_path, [action("add")], [removed()], [action("add")])
    assert removed_after(str(tmp_path), 0, 2, REMOVED) == {"part-0.parquet", FILE}
    assert removed_after(str(tmp_path), 1, 2, REMOVED) == set()
    assert removed_after(str(tmp_path), 0, 2) == {"part-0.parquet", FILE}
    with pytest.raises(OSError, match="entry 3 of the Delta log is missing"):
        removed_after(str(tmp_path), 0, 3)


def test_versions_that_were_committed_later_are_not_read(tmp_path: Path) -> None:
    info = {"commitInfo": {"timestamp": int(REMOVED.timestamp() * 1000)}}
    needed(tmp_path, [action("add")], [info, removed()])
    assert removed_after(str(tmp_path), 0, 1, REMOVED) == set()
    later = REMOVED + timedelta(milliseconds=1)
    assert removed_after(str(tmp_path), 0, 1, later) == {"part-0.parquet", FILE}
