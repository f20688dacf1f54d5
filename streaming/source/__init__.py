"""The Structured Streaming source `coordinator_log`: record batches as rows.

Imports `kafka`; not `tables`.
"""

from typing import Final

MOST_RECORDS_PER_TRIGGER: Final = 20_000_000
"""Lets a long backfill show its progress; as many are read at once where few rows come of them."""
OFFSET_FORMAT_VERSION: Final = 1
"""Of the offsets in a checkpoint: changes when a program of before cannot read those of after."""
