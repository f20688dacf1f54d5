"""The compiled, columnar decoder of the hot path; its rows equal those of `log_decoder`."""

from coordinator_state.log.kernel.compaction import compact
from coordinator_state.log.kernel.decoder import decode_record_set

__all__ = ["compact", "decode_record_set"]
