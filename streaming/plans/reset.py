"""Resets and clones of a group: to a past state, to the records of a time, to given offsets.

Each function returns None for a group without committed offsets of which no partition is named, and
raises ConfigurationError as `plan_for_group` does, or if the selection names an unknown topic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from coordinator_state.insight.group_status import moment_text
from coordinator_state.insight.offset_plan import LogBounds
from coordinator_state.replay.groups import SHARE
from coordinator_state.replay.offsets import OffsetKey
from streaming.errors import ConfigurationError, did_you_mean
from streaming.kafka.partition_offsets import TopicPartition
from streaming.plans.committed_offsets import Committed, current_offsets, group_types, place_of
from streaming.plans.group_plan import GroupPlan, Wanted, plan_for_group, require_loaded
from streaming.plans.plan_file import MOST_PARTITION, whole_number
from streaming.plans.sampled_logs import sampled_logs
from streaming.tables.reader import TableReader


@dataclass(frozen=True, slots=True)
class TopicSelection:
    """Whole topics, and single partitions; everything if both are empty."""

    topics: frozenset[str] = frozenset()
    partitions: frozenset[TopicPartition] = frozenset()

    @classmethod
    def of(cls, names: Iterable[str]) -> TopicSelection:
        """Parse TOPIC and TOPIC:PARTITION; a topic name has no colon.

        >>> TopicSelection.of(["orders:1"]).partitions
        frozenset({TopicPartition(topic='orders', partition=1)})

        Raises:
            ConfigurationError: a text is neither.
        """
        topics, partitions = set(), set()
        for name in names:
            topic, colon, partition = name.partition(":")
            number = whole_number(partition, MOST_PARTITION)
            if not topic or (colon and number is None):
                raise ConfigurationError(f"{name!r} is neither TOPIC nor TOPIC:PARTITION")
            if number is not None:
                partitions.add(TopicPartition(topic, number))
            else:
                topics.add(topic)
        return cls(frozenset(topics), frozenset(partitions))

    def selected(self, group_id: str, known: Iterable[OffsetKey]) -> list[OffsetKey]:
        """The keys of a group to plan, sorted: the known ones that are selected, and those named.

        Raises:
            ConfigurationError: the group has no offset of a selected topic.
        """
        keys = {OffsetKey(group_id, key.topic, key.partition) for key in known}
        if not self.topics and not self.partitions:
            return sorted(keys)
        names = {key.topic for key in keys}
        for topic in sorted(self.topics - names):
            hint = did_you_mean(topic, names)
            raise ConfigurationError(f"{group_id} has no committed offset of {topic}{hint}")
        in_topics = {key for key in keys if key.topic in self.topics}
        named = {OffsetKey(group_id, *place) for place in self.partitions}
        return sorted(in_topics | named)


EVERYTHING: Final = TopicSelection()


def reset_to_state(
    reader: TableReader,
    past: TableReader,
    group_id: str,
    selection: TopicSelection = EVERYTHING,
) -> GroupPlan | None:
    """Plan the committed offsets that the group had in an earlier snapshot, `past`.

    The group may have been deleted since. Partitions without a committed offset at that moment are
    left as they are.
    """
    require_loaded(past, group_id)
    then = current_offsets(past, group_id)
    known = {**current_offsets(reader, group_id), **then}
    if not known:
        return None
    at = moment_text(past.moment, reader.moment)
    keys = selection.selected(group_id, known)
    wanted = _committed(reader, keys, then, past.moment, f"no committed offset at {at}")
    return plan_for_group(reader, group_id, f"back to its offsets of {at}", wanted)


def clone(
    reader: TableReader,
    source: TableReader,
    group_id: str,
    new_group_id: str,
    selection: TopicSelection = EVERYTHING,
) -> GroupPlan | None:
    """Plan the committed offsets that one group has in the snapshot `source` for another group.

    The other group need not exist, and will be of the same type then. Its committed offsets in
    partitions that the first group lacks are left as they are.

    Returns:
        None if the first group has no committed offsets.

    Raises:
        ConfigurationError: as `plan_for_group`, also for the first group; or the selection names an
            unknown topic; or only one of the groups is a share group, which has start offsets.
    """
    require_loaded(source, group_id)
    own_type = group_types(source, [group_id]).get(group_id)
    new_type = group_types(reader, [new_group_id]).get(new_group_id, own_type)
    if own_type != new_type and SHARE in (own_type, new_type):
        raise ConfigurationError(
            f"{group_id} is of type {own_type} and {new_group_id} of type {new_type}: start "
            "offsets of share groups are no committed offsets"
        )
    then = current_offsets(source, group_id)
    if not then:
        return None
    keys = selection.selected(new_group_id, [*then, *current_offsets(reader, new_group_id)])
    at = moment_text(source.moment, reader.moment)
    otherwise = f"{group_id} has no committed offset"
    wanted = _committed(reader, keys, then, source.moment, otherwise)
    goal = f"to the offsets of {group_id} at {at}"
    return plan_for_group(reader, new_group_id, goal, wanted, new_type)


def reset_to_time(
    reader: TableReader,
    group_id: str,
    moment: datetime,
    selection: TopicSelection = EVERYTHING,
) -> GroupPlan | None:
    """Plan the log ends of a time: the group reads the records that were produced after it.

    The log end is that of the newest sample up to the time, so that no record after it is skipped;
    a few earlier ones are read, too. A partition whose samples do not reach back is left as it is.
    """
    keys = _keys(reader, group_id, selection)
    if not keys:
        return None
    at = moment_text(moment, reader.moment)
    logs = sampled_logs(reader, map(place_of, keys), moment)
    wanted = dict.fromkeys(keys, Wanted(note=f"no sample of the log up to {at}"))
    for key in keys:
        if (log := logs.get(place_of(key))) is not None:
            wanted[key] = Wanted(
                offset=log.bounds.log_end_offset,
                note=f"log end at {moment_text(log.sampled_at, reader.moment)}",
                topic_id=log.topic_id,
            )
    return plan_for_group(reader, group_id, f"to the records since {at}", wanted)


def reset_to_earliest_kept(
    reader: TableReader, group_id: str, selection: TopicSelection = EVERYTHING
) -> GroupPlan | None:
    """Plan the log starts of the newest samples."""
    return _reset_to_bound(
        reader, group_id, selection, "to the oldest kept records", lambda log: log.log_start_offset
    )


def reset_to_latest(
    reader: TableReader, group_id: str, selection: TopicSelection = EVERYTHING
) -> GroupPlan | None:
    """Plan the log ends of the newest samples: only later records are read."""
    return _reset_to_bound(
        reader, group_id, selection, "to the log end", lambda log: log.log_end_offset
    )


def reset_to_offset(
    reader: TableReader, group_id: str, offset: int, selection: TopicSelection = EVERYTHING
) -> GroupPlan | None:
    """Plan the same offset for each partition, within the bounds of its log."""
    keys = _keys(reader, group_id, selection)
    if not keys:
        return None
    wanted = dict.fromkeys(keys, Wanted(offset=offset))
    return plan_for_group(reader, group_id, f"to offset {offset:,}", wanted)


def shift(
    reader: TableReader, group_id: str, by: int, selection: TopicSelection = EVERYTHING
) -> GroupPlan | None:
    """Plan the committed offsets plus `by`, which may be negative, within the bounds of the logs.

    Partitions without a committed offset are left as they are.
    """
    keys = _keys(reader, group_id, selection)
    if not keys:
        return None
    known = current_offsets(reader, group_id)
    wanted = {
        key: Wanted(offset=max(known[key].offset + by, 0))
        if key in known
        else Wanted(note="no committed offset to shift")
        for key in keys
    }
    return plan_for_group(reader, group_id, f"shifted by {by:+,}", wanted)


def reset_to_offsets(
    reader: TableReader,
    group_id: str,
    offset_by_key: Mapping[OffsetKey, int],
    selection: TopicSelection = EVERYTHING,
) -> GroupPlan:
    """Plan the offsets of a file, such as `read_plan` returns them for one group.

    Raises:
        ConfigurationError: it has none of the group; else as `plan_for_group` and
            `TopicSelection`.
    """
    if not offset_by_key:
        raise ConfigurationError(f"the plan file has no offsets of {group_id}")
    keys = selection.selected(group_id, offset_by_key)
    wanted = {
        key: Wanted(
            offset=offset_by_key.get(key),
            note="" if key in offset_by_key else "it is not in the file",
        )
        for key in keys
    }
    return plan_for_group(reader, group_id, "to the offsets of the file", wanted)


def _reset_to_bound(
    reader: TableReader,
    group_id: str,
    selection: TopicSelection,
    goal: str,
    bound: Callable[[LogBounds], int],
) -> GroupPlan | None:
    keys = _keys(reader, group_id, selection)
    if not keys:
        return None
    logs = sampled_logs(reader, map(place_of, keys), reader.moment)
    wanted = dict.fromkeys(keys, Wanted(note="the log was not sampled yet"))
    for key in keys:
        if (log := logs.get(place_of(key))) is not None:
            wanted[key] = Wanted(offset=bound(log.bounds))
    return plan_for_group(reader, group_id, goal, wanted)


def _keys(reader: TableReader, group_id: str, selection: TopicSelection) -> list[OffsetKey]:
    known = current_offsets(reader, group_id)
    return selection.selected(group_id, known) if known or selection.partitions else []


def _committed(
    reader: TableReader,
    keys: Sequence[OffsetKey],
    then: Mapping[OffsetKey, Committed],
    moment: datetime,
    otherwise: str,
) -> dict[OffsetKey, Wanted]:
    """Want the offsets of a moment, maybe of another group; `otherwise` says why there is none."""
    logs = sampled_logs(reader, map(place_of, keys), moment)
    then_by_place = {place_of(key): committed for key, committed in then.items()}
    wanted = dict.fromkeys(keys, Wanted(note=otherwise))
    for key in keys:
        committed, log = then_by_place.get(place_of(key)), logs.get(place_of(key))
        if committed is not None:
            wanted[key] = Wanted(
                offset=committed.offset,
                committed_at=committed.commit_timestamp,
                topic_id=committed.topic_id or (None if log is None else log.topic_id),
            )
    return wanted
