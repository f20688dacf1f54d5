"""The Structured Streaming source `coordinator_log`: record batches as rows.

Imports `kafka`; not `tables`.
"""

from typing import Final

MOST_RECORDS_PER_TRIGGER: Final = 20_000_000
"""The most record offsets of a micro-batch, a limit that lets a long load show its progress.

A micro-batch reaches it if its records leave few rows."""
OFFSET_FORMAT_VERSION: Final = 3
"""The format version of offsets in a checkpoint; it changes if older releases cannot read them."""
