"""The Kafka releases whose coordinators replay group records by different rules.

A broker replays the whole log by the rules of its own release. So after an upgrade, the same log
loads to other groups. Records of offsets have the same rules in every release of the coordinator.

Source: group-coordinator/src/main/java/org/apache/kafka/coordinator/group/GroupMetadataManager.java
(`replay`), modern/ModernGroup.java, modern/consumer/ConsumerGroupMember.java and
streams/StreamsGroup.java at 4.0.0, 4.1.2, 4.2.0, 4.3.1 and 4.4.0.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Final


class Release(Enum):
    """A Kafka release that changed the rules. Later ones keep them until the next member."""

    KAFKA_4_0 = (4, 0)
    KAFKA_4_1 = (4, 1)
    KAFKA_4_2 = (4, 2)
    KAFKA_4_3 = (4, 3)
    KAFKA_4_4 = (4, 4)

    @classmethod
    def of(cls, version: Sequence[int]) -> Release:
        """Return the rules of a broker's version; of 3.x with the new coordinator, those of 4.0.

        >>> str(Release.of((4, 4, 0)))
        '4.4'
        """
        older = [release for release in cls if release.value <= tuple(version[:2])]
        return older[-1] if older else cls.KAFKA_4_0

    @classmethod
    def parse(cls, text: str) -> Release:
        """Return the release of `str(release)`."""
        return cls.of([int(number) for number in text.split(".")])

    def __str__(self) -> str:
        return ".".join(map(str, self.value))

    @property
    def first_epoch(self) -> int:
        """The group and assignment epoch of a group without a record of it (KIP-1251)."""
        return 1 if self.value >= (4, 3) else 0

    @property
    def has_streams_groups(self) -> bool:
        """Whether records of streams groups are known; otherwise the loader skips them."""
        return self.value >= (4, 1)

    @property
    def refuses_legacy_values(self) -> bool:
        """Whether a key of type 0 refuses a value above version 0."""
        return self.value >= (4, 1)

    @property
    def validates_topologies(self) -> bool:
        """Whether a record says that a streams group is ready.

        Before 4.2 only a heartbeat did, so a loaded group with members is NotReady.
        """
        return self.value >= (4, 2)

    @property
    def keeps_last_tasks(self) -> bool:
        """Whether the last of two entries of a subtopology counts in a current assignment.

        Before 4.2 the coordinator refuses the second one.
        """
        return self.value >= (4, 2)

    @property
    def keeps_last_partitions(self) -> bool:
        """Whether the last of two entries of a topic counts in a consumer's current assignment.

        Before 4.3 the coordinator refuses the second one.
        """
        return self.value >= (4, 3)

    @property
    def refuses_task_epochs(self) -> bool:
        """Whether assignment epochs of another count than their tasks are refused.

        4.1 has no assignment epochs; since 4.3 the member epoch replaces wrong ones.
        """
        return self is Release.KAFKA_4_2

    @property
    def streams_replace_simple(self) -> bool:
        """Whether a streams group replaces a simple one (KAFKA-20254) instead of being refused."""
        return self.value >= (4, 3)

    @property
    def describes_revocations(self) -> bool:
        """Whether a consumer's described assignment has the partitions pending revocation."""
        return self.value >= (4, 3)

    @property
    def refuses_long_arrays(self) -> bool:
        """Whether the value of a group record with an array of over 1,000,000 elements is refused.

        It is the limit of the readers that Kafka 4.4 generates (`MessageDataGenerator`).
        """
        return self.value >= (4, 4)


NEWEST_RELEASE: Final = Release.KAFKA_4_4
