"""Files of the checkpoint of a Spark query, as Spark 4.2 writes them."""

from __future__ import annotations

import json
import os
from pathlib import Path


def write_batch(folder: Path, batch_id: int, *sources: str, at: float, version: str = "v1") -> None:
    """A batch that is done at a time, in seconds."""
    for name in ("offsets", "commits"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    if not (folder / "metadata").exists():
        (folder / "metadata").write_text('{"id":"q1"}')
    lines = (version, '{"batchWatermarkMs":0,"batchTimestampMs":1}', *sources)
    (folder / "offsets" / str(batch_id)).write_text("\n".join(lines))
    (folder / "offsets" / f".{batch_id}.crc").write_bytes(b"crc")
    done = folder / "commits" / str(batch_id)
    done.write_text('v1\n{"nextBatchWatermarkMs":0}')
    os.utime(done, (at, at))


def of_orders(offset: int) -> str:
    return json.dumps({"orders": {"0": offset}})
