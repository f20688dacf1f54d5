"""The Structured Streaming source `coordinator_log`: record batches as rows."""

from typing import Final

DEFAULT_MAX_RECORDS_PER_TRIGGER: Final = 5_000_000
"""Bounds the memory of a micro-batch, and lets a long backfill show its progress."""

MAX_RECORDS_OF_ALL_HISTORY: Final = 500_000
"""The same where no commit is left out, so that each goes through the driver's memory."""
