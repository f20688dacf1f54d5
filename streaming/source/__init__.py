"""The Structured Streaming source `coordinator_log`: record batches as rows."""

from typing import Final

DEFAULT_MAX_RECORDS_PER_TRIGGER: Final = 5_000_000
"""Bounds the memory of a micro-batch, and lets a long backfill show its progress."""
