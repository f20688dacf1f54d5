"""The columnar decoder of the hot path, held to `log_decoder` row for row."""

from coordinator_state.log.kernel.compaction import compact
from coordinator_state.log.kernel.decoder import decode_record_set

__all__ = ["compact", "decode_record_set"]
