"""Sentences about the timeline of a group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from coordinator_state.insight.assignment_replay import Segment
from coordinator_state.insight.assignment_timeline import AssignmentTimeline, Owner, Rebalance
from coordinator_state.insight.group_status import count_text, time_text
from coordinator_state.replay.groups import CLASSIC, CONSUMER, SHARE, STREAMS

_MOST_NAMES: Final = 3
_MOST_OWNERS: Final = 5
_TARGET: Final = "Bars show the target assignment: members take over their partitions later."
_NOTES: Final = {
    CLASSIC: "Kafka writes one record when a rebalance of a classic group ends. Pauses within a "
    "rebalance are not in the log, so the group may have stood still for longer.",
    CONSUMER: _TARGET,
    STREAMS: f"{_TARGET} Lanes are active tasks.",
    SHARE: "Members of a share group share partitions.",
}


def timeline_sentence(timeline: AssignmentTimeline) -> str:
    """The result in one sentence.

    `57 rebalances in 1 h, one every 63 s; the group stood still for 4.2 min (7 %)`
    """
    span = timeline.until - timeline.since
    count = len(timeline.rebalances)
    text = f"{count_text(count, 'rebalance') if count else 'No rebalance'} in {_time(span)}"
    if count > 1:
        within = timeline.rebalances[-1].at - timeline.rebalances[0].at
        is_short = count == 2 or within < span / 2
        text += (
            f", all within {_time(within)}"
            if is_short
            else f", one every {_time(within / (count - 1))}"
        )
    if not timeline.lanes:
        return f"{text}; no partition had an owner"
    still = timeline.stood_still
    if not still:
        return f"{text}; at least one partition always had an owner"
    at_least = "at least " if timeline.group_type == CLASSIC else ""
    return f"{text}; the group stood still for {at_least}{_time(still)} ({share_text(still, span)})"


def timeline_note(timeline: AssignmentTimeline) -> str | None:
    """The limits of the log for groups of this type."""
    return _NOTES.get(timeline.group_type or "")


def cause_text(rebalance: Rebalance, labels: Mapping[str, str]) -> str:
    """The joins and leaves before a rebalance; `labels` has those of members."""
    parts = [
        f"{_members_text([labels[name] for name in names])} {verb}"
        for names, verb in ((rebalance.left, "left"), (rebalance.joined, "joined"))
        if names
    ]
    return ", ".join(parts) or "no member joined or left"


def owner_text(owner: Owner, labels: Mapping[str, str]) -> str:
    """The name of an owner, distinct in its group: an instance id, or the labels of its members."""
    if owner.group_instance_id is not None:
        return owner.group_instance_id
    first, *later = owner.member_ids
    if len(later) > 2:
        return f"{labels[first]}, then {count_text(len(later), 'member')} in its place"
    return ", then ".join(labels[name] for name in owner.member_ids)


def owners_text(
    segments: Sequence[Segment], labels: Mapping[str, str], since: datetime, until: datetime
) -> str:
    """Who owned a partition, for which part of the time.

    `labels` has the same label for members that took each other's place.
    """
    times: Counter[str] = Counter()
    for begin, end, owners in segments:
        for label in {labels[owner] for owner in owners}:
            times[label] += round((end - begin) / timedelta(milliseconds=1))
    span = until - since
    texts = [
        f"{label} {share_text(timedelta(milliseconds=ms), span)}"
        for label, ms in times.most_common(_MOST_OWNERS)
    ]
    if len(times) > _MOST_OWNERS:
        texts.append(count_text(len(times) - _MOST_OWNERS, "other owner"))
    alone = span - sum((segment.end - segment.begin for segment in segments), timedelta())
    if alone:
        texts.append(f"no owner {share_text(alone, span)}")
    return ", ".join(texts)


def share_text(part: timedelta, whole: timedelta) -> str:
    """A share in percent.

    >>> hour = timedelta(hours=1)
    >>> [share_text(timedelta(seconds=part), hour) for part in (1, 250, 3599, 3600)]
    ['<1 %', '7 %', '>99 %', '100 %']
    """
    percent = 100 * part / whole
    if 0 < percent < 1:
        return "<1 %"
    return ">99 %" if 99 < percent < 100 else f"{percent:.0f} %"


def _members_text(labels: Iterable[str]) -> str:
    names = list(labels)
    if len(names) > _MOST_NAMES:
        return count_text(len(names), "member")
    return " and ".join([", ".join(names[:-1]), names[-1]] if names[1:] else names)


def _time(time: timedelta) -> str:
    return time_text(time / timedelta(milliseconds=1))
