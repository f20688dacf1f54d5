"""The answer of an OffsetFetch request for one partition, with the names of Kafka's `Errors`."""

from __future__ import annotations

from dataclasses import dataclass

from coordinator_state.records.record_types import NO_LEADER_EPOCH

INVALID_OFFSET = -1
"""`OffsetFetchResponse.INVALID_OFFSET`: nothing is committed."""

NO_ERROR = "NONE"
COORDINATOR_LOAD_IN_PROGRESS = "COORDINATOR_LOAD_IN_PROGRESS"
NOT_COORDINATOR = "NOT_COORDINATOR"
UNSTABLE_OFFSET_COMMIT = "UNSTABLE_OFFSET_COMMIT"


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchAnswer:
    """The answer for one partition; `error` is a name of Kafka's `Errors`.

    Without `topic` and `partition` it is the error of the whole group, in the answer to a request
    that named no partitions.
    """

    topic: str | None
    partition: int | None
    committed_offset: int = INVALID_OFFSET
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str = ""
    error: str = NO_ERROR

    @property
    def topic_partition(self) -> tuple[str, int]:
        """The topic and the partition.

        Raises:
            ValueError: the answer is for a whole group.
        """
        if self.topic is None or self.partition is None:
            raise ValueError("the answer is for a whole group, not for a partition")
        return self.topic, self.partition
