"""Commands that read tables import neither Spark nor a Kafka client, which would take seconds."""

from __future__ import annotations

import subprocess
import sys

import pytest

_LATE = {"duckdb", "kafka", "pydantic", "pyspark", "requests"}


@pytest.mark.parametrize(
    "module",
    [
        "streaming.lag.burrow_status",
        "streaming.lag.group_status",
        "streaming.views.coordinator_tables",
        "streaming.views.offset_fetch",
        "streaming.views.unknown_group",
    ],
)
def test_reading_imports_no_client(module: str) -> None:
    found = subprocess.run(
        [sys.executable, "-c", f"import sys, {module}\nprint(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert _LATE.intersection(found.stdout.split()) == set()
