"""Topic partitions and tasks of members, as text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def partitions_text(partitions: Iterable[Mapping[str, Any]] | None) -> str:
    """Partitions by topic; a topic without a known name is its id.

    >>> partitions_text({"topic": "orders", "partition": n} for n in (0, 1, 2, 5))
    'orders 0-2, 5'
    >>> partitions_text(None)
    'none'
    """
    topics: dict[str, list[int]] = {}
    for partition in partitions or ():
        topic = partition["topic"] or partition.get("topic_id") or "?"
        topics.setdefault(topic, []).append(partition["partition"])
    texts = (f"{topic} {ranges_text(numbers)}" for topic, numbers in topics.items())
    return "; ".join(texts) or "none"


def tasks_text(tasks: Iterable[Mapping[str, Any]] | None) -> str:
    """Tasks of a member of a streams group: `active 0_1, standby 0_2`."""
    return ", ".join(
        f"{task['task_type']} {task['subtopology_id']}_{task['partition']}" for task in tasks or ()
    )


def ranges_text(numbers: Iterable[int]) -> str:
    """Distinct numbers in order, with consecutive ones as ranges.

    >>> ranges_text([5, 0, 1, 2])
    '0-2, 5'
    """
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def topics_text(topics: Iterable[str | None], most: int = 3) -> str:
    """The names of topics, at most `most` of them.

    >>> topics_text(["b", "a", "b"]), topics_text("abcde")
    ('a, b', 'a, b, c and 2 more')
    """
    names = sorted({topic or "?" for topic in topics})
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
