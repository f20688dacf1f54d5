"""Staged rows that cannot be read by mistake."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from streaming.engine.spark.staging import StagedRows


def test_partitioned_rows_are_not_read_without_a_value() -> None:
    """They would look as if there were none."""
    staged = StagedRows(pa.schema([("counts", pa.int32())]), {"counts": ["file.parquet"]})
    no_session: Any = None
    with pytest.raises(ValueError, match="partitioned"):
        staged.read(no_session)
