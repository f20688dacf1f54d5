"""The sampling of history for tests: as of now, so records of the simulated past are old."""

from __future__ import annotations

import time

from coordinator_state.log.commit_sampling import CommitSampling

SAMPLED = CommitSampling.at(time.time_ns() // 1_000_000)
