"""Polars and DuckDB answer from the Delta tables alone, without this program."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from streaming.lag.evaluation import Evaluation
from streaming.run.evaluation import StatusEvaluation
from streaming.tables.opening import open_for_writing
from streaming.tables.reader import TableReader
from tests.support.tables.status_tables import NOW, create_status_tables

_POLARS = """
import polars
behind = polars.scan_delta(tables + "/group_status")
behind = behind.filter(~polars.col("status").is_in(["OK", "IDLE"])).sort("group_id")
rows = behind.select("group_id", "status", "lag", "status_since", "reason").collect().to_dicts()
"""
_DUCKDB = '''
import duckdb
from deltalake import DeltaTable
group_status = DeltaTable(tables + "/group_status").to_pyarrow_dataset()
behind = duckdb.sql("""
    SELECT group_id, status, lag, status_since, reason FROM group_status
    WHERE status NOT IN ('OK', 'IDLE') ORDER BY group_id
""")
rows = behind.to_arrow_table().to_pylist()
'''


@pytest.mark.parametrize("reader", [_POLARS, _DUCKDB], ids=["polars", "duckdb"])
def test_which_groups_are_behind_since_when_and_why(tmp_path: Path, reader: str) -> None:
    tables = create_status_tables(tmp_path)
    evaluation = Evaluation.of(TableReader(tables), at=NOW)
    StatusEvaluation(open_for_writing(tables, "test")).keep(evaluation)
    script = (
        f"import json, sys\ntables = {tables!r}\n{reader}\n"
        "assert 'streaming' not in sys.modules\nprint(json.dumps(rows, default=str))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    expected = [
        row for row in evaluation.statuses.to_pylist() if row["status"] not in {"OK", "IDLE"}
    ]
    assert [row["group_id"] for row in rows] == ["back", "loop", "old"]
    for row, known in zip(rows, expected, strict=True):
        assert row["status_since"].startswith("2026-11-21 12:00:00")
        for name in ("group_id", "status", "lag", "reason"):
            assert row[name] == known[name]
