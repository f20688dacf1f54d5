"""Checkpoints, read before a query starts on them from folders laid out as Spark does it."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from coordinator_state.replay.offsets import Semantics
from streaming.errors import ConfigurationError
from streaming.run.checkpoint import TopicCheckpoint, discard, misfit, read_checkpoint
from streaming.tables.load_progress import LoadProgress
from streaming.tables.topic_progress import Progress, TopicProgress


def _write(
    folder: Path, *, next_offset: int, committed: bool = True, others: dict[str, Any] | None = None
) -> str:
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
    of_offsets = {"v": 2, "cluster_id": "c", "topic_id": "t", "p": {"7": [next_offset, 0]}}
    return {**of_offsets, "others": others}


def _progress(
    next_offset: int,
    cluster_id: str = "c",
    topic_id: str = "t",
    reload_reason: str | None = None,
) -> LoadProgress:
    progress = LoadProgress.nothing(
        cluster_id=cluster_id, topic_id=topic_id, semantics=Semantics.COORDINATOR
    )
    progress.rows[7] = Progress(next_offset=next_offset, reload_reason=reload_reason)
    return progress


def _misfit(
    folder: str, progress: LoadProgress, log_partitions: Collection[int] = (7,)
) -> str | None:
    checkpoint = read_checkpoint(folder)
    assert checkpoint is not None
    return misfit(checkpoint, progress, log_partitions, {})


def test_no_folder_is_no_checkpoint(tmp_path: Path) -> None:
    assert read_checkpoint(str(tmp_path / "none")) is None


def test_the_last_finished_micro_batch_counts(tmp_path: Path) -> None:
    found = read_checkpoint(_write(tmp_path / "a", next_offset=9))
    assert found is not None
    assert (found.query_id, found.next_offsets) == ("query", {7: 9})
    planned = read_checkpoint(_write(tmp_path / "b", next_offset=9, committed=False))
    assert planned is not None
    assert planned.next_offsets == {}


@pytest.mark.parametrize("applied", [9, 10])
def test_a_checkpoint_at_or_behind_the_tables_fits(tmp_path: Path, applied: int) -> None:
    assert _misfit(_write(tmp_path, next_offset=9), _progress(applied)) is None


@pytest.mark.parametrize(
    ("progress", "log_partitions", "why"),
    [
        ({"next_offset": 8}, [7], "next offset of log partition 7 is 9, the tables' is 8"),
        ({"next_offset": 9, "topic_id": "other"}, [7], "to topic id t, not other"),
        ({"next_offset": 9}, [7, 8], "covers other log partitions"),
        ({"next_offset": 9, "reload_reason": "requested"}, [7], "partition 7 is being reloaded"),
    ],
)
def test_one_that_does_not_fit_says_why(
    tmp_path: Path, progress: dict[str, Any], log_partitions: list[int], why: str
) -> None:
    said = _misfit(_write(tmp_path, next_offset=9), _progress(**progress), log_partitions)
    assert why in str(said)


def test_a_checkpoint_of_lost_tables_does_not_fit(tmp_path: Path) -> None:
    progress = _progress(0)
    progress.rows.clear()
    said = _misfit(_write(tmp_path, next_offset=9), progress)
    assert said == "its next offset of log partition 7 is 9, the tables' is 0"


def test_a_checkpoint_of_another_cluster_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"to cluster c, but this is cluster other"):
        _misfit(_write(tmp_path, next_offset=9), _progress(9, cluster_id="other"))


def test_discarding_leaves_what_is_not_of_the_checkpoint(tmp_path: Path) -> None:
    folder = _write(tmp_path, next_offset=9)
    (tmp_path / "mine").write_text("stays")
    checkpoint = read_checkpoint(folder)
    assert checkpoint is not None
    discard(checkpoint)
    assert read_checkpoint(folder) is None
    assert [file.name for file in tmp_path.rglob("*") if file.is_file()] == ["mine"]


_METADATA, _OFFSETS, _COMMITS, _CHECKSUMS = "metadata", "offsets/3", "commits/3", "offsets/.3.crc"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        # A missing metadata file is also what an interrupted `discard` leaves.
        *((name, None) for name in (_METADATA, _OFFSETS, _COMMITS)),
        *((name, b"") for name in (_METADATA, _OFFSETS, _COMMITS, _CHECKSUMS)),
        *((name, bytes(40)) for name in (_METADATA, _OFFSETS, _COMMITS, _CHECKSUMS)),
        *((name, b"v") for name in (_OFFSETS, _COMMITS)),
        *((name, b"v1\n{") for name in (_OFFSETS, _COMMITS)),
        (_METADATA, b'{"id": "qu'),
        (_OFFSETS, b'v1\n{}\n{"v": 2, '),
        (_CHECKSUMS, b"cr"),
    ],
)
def test_one_that_a_power_loss_damaged_does_not_fit(
    tmp_path: Path, name: str, content: bytes | None
) -> None:
    folder = _write(tmp_path, next_offset=9)
    if content is None:
        (tmp_path / name).unlink()
    else:
        (tmp_path / name).write_bytes(content)
    assert _misfit(folder, _progress(9)) == "it is incomplete"


def test_one_with_a_missing_micro_batch_does_not_fit(tmp_path: Path) -> None:
    folder = _write(tmp_path, next_offset=9)
    for batch_id in (4, 5):
        (tmp_path / "offsets" / str(batch_id)).write_text(
            f"v1\n{{}}\n{json.dumps(_position(20, {}))}"
        )
    assert _misfit(folder, _progress(9)) == "it is incomplete"


def test_offsets_of_another_format_version_do_not_fit(tmp_path: Path) -> None:
    folder = _write(tmp_path, next_offset=9)
    (tmp_path / "offsets" / "3").write_text('v1\n{}\n{"v": 1, "positions": {"7": 9}}')
    said = _misfit(folder, _progress(9))
    assert said == "its offsets have format version 1, this program writes 2"


@pytest.mark.parametrize(
    ("offsets", "refusal"),
    [
        ("not JSON", "is not a checkpoint of this program"),
        (
            '{"v": 1, "cluster_id": "other", "topic_id": "t", "p": {"7": [9, 0]}}',
            "belongs to cluster other",
        ),
    ],
)
def test_one_of_something_else_is_refused(tmp_path: Path, offsets: str, refusal: str) -> None:
    folder = _write(tmp_path, next_offset=9)
    (tmp_path / "offsets" / "3").write_text(f"v1\n{{}}\n{offsets}")
    with pytest.raises(ConfigurationError, match=refusal):
        _misfit(folder, _progress(9))


TOPIC = "__transaction_state"
OTHERS = {TOPIC: {"topic_id": "x", "p": {"0": [5, 1], "3": [0, 1]}}}


def _misfit_of_others(
    folder: Path,
    others: dict[str, Collection[int]],
    *,
    planned: dict[str, Any] = OTHERS,
    topic_id: str = "x",
    **row: Any,
) -> str | None:
    """Of tables that have all of `__consumer_offsets`, and these offsets of `TOPIC`."""
    progress = _progress(9)
    of_topic = TopicProgress(topic=TOPIC, topic_id=topic_id)
    of_topic.rows[0] = Progress(**{"next_offset": 5, **row})
    progress.others[TOPIC] = of_topic
    checkpoint = read_checkpoint(_write(folder, next_offset=9, others=planned))
    assert checkpoint is not None
    return misfit(checkpoint, progress, [7], others)


def test_the_next_offsets_of_other_topics_are_read(tmp_path: Path) -> None:
    found = read_checkpoint(_write(tmp_path / "a", next_offset=9, others=OTHERS))
    assert found is not None
    assert found.others == {
        TOPIC: TopicCheckpoint(
            topic_id="x", next_offsets={0: 5, 3: 0}, log_partitions=frozenset({0, 3})
        )
    }
    planned = read_checkpoint(_write(tmp_path / "b", next_offset=9, others=OTHERS, committed=False))
    assert planned is not None
    assert planned.others[TOPIC].next_offsets == {}
    assert planned.others[TOPIC].log_partitions == {0, 3}


@pytest.mark.parametrize("applied", [5, 6])
def test_other_topics_at_or_behind_the_tables_fit(tmp_path: Path, applied: int) -> None:
    assert _misfit_of_others(tmp_path, {TOPIC: [0, 3]}, next_offset=applied) is None


def test_a_checkpoint_without_a_plan_covers_no_topics(tmp_path: Path) -> None:
    (tmp_path / "metadata").write_text(json.dumps({"id": "query"}))
    checkpoint = read_checkpoint(str(tmp_path))
    assert checkpoint is not None
    assert misfit(checkpoint, _progress(9), [7], {TOPIC: [0]}) is None


@pytest.mark.parametrize(
    ("others", "state", "why"),
    [
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
        (
            {TOPIC: [0, 3]},
            {"reload_reason": "r"},
            f"{TOPIC}: log partition 0 is being reloaded",
        ),
    ],
)
def test_other_topics_that_do_not_fit(
    tmp_path: Path, others: dict[str, Collection[int]], state: dict[str, Any], why: str
) -> None:
    assert _misfit_of_others(tmp_path, others, **state) == why
