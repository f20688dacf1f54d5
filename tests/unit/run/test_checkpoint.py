"""Before a query starts: its checkpoint in a folder as Spark writes it, and unread offsets."""

from __future__ import annotations

import json
from collections.abc import Collection
from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from coordinator_state.replay.offsets import Semantics
from streaming.errors import ConfigurationError
from streaming.run.checkpoint import Checkpoint, TopicCheckpoint, discard, misfit, read_checkpoint
from streaming.run.start import _unread
from streaming.tables.load_progress import LoadProgress
from streaming.tables.topic_progress import Progress, TopicProgress

TOPIC = "__transaction_state"
OTHERS = {TOPIC: {"topic_id": "x", "p": {"0": [5, 1], "3": [0, 1]}}}
METADATA, OFFSETS, COMMITS, CHECKSUMS = "metadata", "offsets/3", "commits/3", "offsets/.3.crc"


def _write(
    folder: Path,
    *,
    next_offset: int = 9,
    committed: bool = True,
    others: dict[str, Any] | None = None,
) -> str:
    """A checkpoint whose last micro-batch ended at an offset of log partition 7."""
    for name in ("offsets", "commits"):
        (folder / name).mkdir(parents=True)
    (folder / "metadata").write_text(json.dumps({"id": "query"}))
    position = _position(next_offset, others or {})
    batch_id = "3" if committed else "0"
    (folder / "offsets" / batch_id).write_text(f"v1\n{{}}\n{json.dumps(position)}")
    (folder / "offsets" / f".{batch_id}.crc").write_bytes(b"crc\0\0\0\2\0????")
    if committed:
        (folder / "commits" / "3").write_text("v1\n{}")
    return str(folder)


def _position(next_offset: int, others: dict[str, Any]) -> dict[str, Any]:
    of_offsets = {"v": 3, "cluster_id": "c", "topic_id": "t", "p": {"7": [next_offset, 0, []]}}
    return {**of_offsets, "others": others}


def _read(folder: str | Path) -> Checkpoint:
    checkpoint = read_checkpoint(str(folder))
    assert checkpoint is not None
    return checkpoint


def _progress(cluster_id: str = "c", topic_id: str = "t", **row: Any) -> LoadProgress:
    """The progress of tables that have log partition 7 up to offset 9."""
    progress = LoadProgress(
        cluster_id=cluster_id, topic_id=topic_id, semantics=Semantics.COORDINATOR
    )
    progress.rows[7] = Progress(**{"next_offset": 9, **row})
    return progress


def _misfit(
    folder: str, progress: LoadProgress | None = None, log_partitions: Collection[int] = (7,)
) -> str | None:
    return misfit(_read(folder), progress or _progress(), log_partitions, {})


def test_the_last_finished_micro_batch_counts(tmp_path: Path) -> None:
    assert read_checkpoint(str(tmp_path / "none")) is None
    checkpoint = _read(_write(tmp_path / "a", others=OTHERS))
    assert (checkpoint.query_id, checkpoint.next_offsets) == ("query", {7: 9})
    assert checkpoint.others == {
        TOPIC: TopicCheckpoint(
            topic_id="x", next_offsets={0: 5, 3: 0}, log_partitions=frozenset({0, 3})
        )
    }
    planned = _read(_write(tmp_path / "b", others=OTHERS, committed=False))
    assert planned.next_offsets == planned.others[TOPIC].next_offsets == {}
    assert planned.others[TOPIC].log_partitions == {0, 3}


@pytest.mark.parametrize(
    ("progress", "log_partitions", "why"),
    [
        ({}, [7], None),
        ({"next_offset": 10}, [7], None),
        ({"next_offset": 8}, [7], "its next offset of log partition 7 is 9, the tables' is 8"),
        ({"topic_id": "other"}, [7], "it belongs to topic id t, not other"),
        ({}, [7, 8], "it covers other log partitions"),
        ({"reload_reason": "requested"}, [7], "log partition 7 is being reloaded"),
    ],
)
def test_a_checkpoint_at_or_behind_the_tables_fits(
    tmp_path: Path, progress: dict[str, Any], log_partitions: list[int], why: str | None
) -> None:
    assert _misfit(_write(tmp_path), _progress(**progress), log_partitions) == why


def test_a_checkpoint_of_lost_tables_does_not_fit(tmp_path: Path) -> None:
    progress = _progress()
    progress.rows.clear()
    why = _misfit(_write(tmp_path), progress)
    assert why == "its next offset of log partition 7 is 9, the tables' is 0"


@pytest.mark.parametrize(
    ("others", "state", "why"),
    [
        ({TOPIC: [0, 3]}, {"next_offset": 5}, None),
        ({TOPIC: [0, 3]}, {"next_offset": 6}, None),
        ({}, {}, "it covers other topics"),
        ({TOPIC: [0, 3], "__share_group_state": [0]}, {}, "it covers other topics"),
        ({TOPIC: [0, 3]}, {"planned": {}}, "it covers other topics"),
        ({TOPIC: [0, 3]}, {"topic_id": "y"}, f"it belongs to topic id x of {TOPIC}, not y"),
        ({TOPIC: [0]}, {}, f"it covers other log partitions of {TOPIC}"),
        ({TOPIC: [0, 3, 4]}, {}, f"it covers other log partitions of {TOPIC}"),
        (
            {TOPIC: [0, 3]},
            {"next_offset": 4},
            f"{TOPIC}: its next offset of log partition 0 is 5, the tables' is 4",
        ),
        ({TOPIC: [0, 3]}, {"reload_reason": "r"}, f"{TOPIC}: log partition 0 is being reloaded"),
    ],
)
def test_other_topics_fit_alike(
    tmp_path: Path, others: dict[str, Collection[int]], state: dict[str, Any], why: str | None
) -> None:
    row = {"next_offset": 5, **state}
    planned, topic_id = row.pop("planned", OTHERS), row.pop("topic_id", "x")
    progress = _progress()
    progress.others[TOPIC] = TopicProgress(topic=TOPIC, topic_id=topic_id)
    progress.others[TOPIC].rows[0] = Progress(**row)
    checkpoint = _read(_write(tmp_path, others=planned))
    assert misfit(checkpoint, progress, [7], others) == why


def test_a_checkpoint_without_a_plan_covers_no_topics(tmp_path: Path) -> None:
    (tmp_path / "metadata").write_text(json.dumps({"id": "query"}))
    assert misfit(_read(tmp_path), _progress(), [7], {TOPIC: [0]}) is None


def test_discarding_leaves_what_is_not_of_the_checkpoint(tmp_path: Path) -> None:
    folder = _write(tmp_path)
    (tmp_path / "mine").write_text("stays")
    discard(_read(folder))
    assert read_checkpoint(folder) is None
    assert [file.name for file in tmp_path.rglob("*") if file.is_file()] == ["mine"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        # A missing metadata file is also what an interrupted `discard` leaves.
        *((name, None) for name in (METADATA, OFFSETS, COMMITS)),
        *((name, b"") for name in (METADATA, OFFSETS, COMMITS, CHECKSUMS)),
        *((name, bytes(40)) for name in (METADATA, OFFSETS, COMMITS, CHECKSUMS)),
        *((name, b"v") for name in (OFFSETS, COMMITS)),
        *((name, b"v1\n{") for name in (OFFSETS, COMMITS)),
        (METADATA, b'{"id": "qu'),
        (OFFSETS, b'v1\n{}\n{"v": 3, '),
        (CHECKSUMS, b"cr"),
    ],
)
def test_one_that_a_power_loss_damaged_does_not_fit(
    tmp_path: Path, name: str, content: bytes | None
) -> None:
    folder = _write(tmp_path)
    if content is None:
        (tmp_path / name).unlink()
    else:
        (tmp_path / name).write_bytes(content)
    assert _misfit(folder) == "it is incomplete"


def test_one_with_a_missing_micro_batch_does_not_fit(tmp_path: Path) -> None:
    folder = _write(tmp_path)
    for batch_id in (4, 5):
        planned = tmp_path / "offsets" / str(batch_id)
        planned.write_text(f"v1\n{{}}\n{json.dumps(_position(20, {}))}")
    assert _misfit(folder) == "it is incomplete"


def test_offsets_of_another_format_version_do_not_fit(tmp_path: Path) -> None:
    folder = _write(tmp_path)
    (tmp_path / OFFSETS).write_text('v1\n{}\n{"v": 1, "positions": {"7": 9}}')
    assert _misfit(folder) == "its offsets have format version 1, this program writes 3"


@pytest.mark.parametrize(
    ("offsets", "refusal"),
    [
        ("not JSON", "is not a checkpoint of this program"),
        ('{"v": 1, "cluster_id": "other", "p": {"7": [9, 0]}}', "belongs to cluster other"),
        (json.dumps(_position(9, {}) | {"cluster_id": "other"}), "to cluster other, but this is"),
    ],
)
def test_one_of_something_else_is_refused(tmp_path: Path, offsets: str, refusal: str) -> None:
    folder = _write(tmp_path)
    (tmp_path / OFFSETS).write_text(f"v1\n{{}}\n{offsets}")
    with pytest.raises(ConfigurationError, match=refusal):
        _misfit(folder)


def test_unread_offsets_are_those_from_the_next_offsets_or_the_log_starts() -> None:
    now = datetime.now(timezone.utc)
    rows = {
        0: Progress(next_offset=70, current_at=now),
        1: Progress(next_offset=70, current_at=now, reload_reason="requested"),
        # The log was truncated: its end is before the next offset.
        2: Progress(next_offset=70, current_at=now),
        3: Progress(),
    }
    progress: Any = SimpleNamespace(rows=rows)
    log_ends: Any = SimpleNamespace(
        log_starts=dict.fromkeys(range(5), 10),
        high_watermarks={0: 100, 1: 100, 2: 60, 3: 11, 4: 12},
    )
    assert _unread(progress, log_ends) == 30 + 90 + 0 + 1 + 2
