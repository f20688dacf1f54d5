"""The next step for a group, by the cause of its lag."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final

from coordinator_state.insight.evidence import Cause, Evidence
from coordinator_state.insight.group_commands import cannot_be_reset, shell_word

_UNDO: Final = "if this was a mistake, stop the members and plan a reset to the earlier offsets"

_ADVICE: Final[Mapping[Cause, str]] = {
    Cause.TOPIC_DELETED: "create the topic again if it is still needed, or stop its consumers",
    Cause.TOPIC_RECREATED: "stop the members, and reset the group to an offset of the new topic",
    Cause.DATA_LOSS: "add members or raise the retention of the topic; the lost records are gone",
    Cause.ABORTED_TRANSACTIONS: "find the reason for the aborts in the application's log; "
    "the group rereads the same records until a transaction commits",
    Cause.OFFSET_REWIND: "find the client that set the offsets back; to skip the repeated "
    "records, stop it and plan a reset",
    Cause.OFFSET_RESET: _UNDO,
    Cause.OFFSET_EXPIRED: "plan a reset to the earlier offsets, then start the members",
    Cause.GROUP_DELETED: _UNDO,
    Cause.OFFSET_DELETED: _UNDO,
    Cause.NO_MEMBERS: "start the consumers of the group",
    Cause.DEPLOY: "compare the new members with the old ones, and roll back if they are slower",
    Cause.REBALANCES: "look in the log of the member that joins and leaves: it restarts, or a poll "
    "takes longer than max.poll.interval.ms",
    Cause.SAME_OFFSET: "look at the record at this offset: the group cannot get past it",
    Cause.MEMBERS_LEFT: "start the members that left",
    Cause.NO_OWNER: "look at the assignor and the subscriptions of the members, and restart them",
    Cause.NO_COMMITS: "look at the threads and the log of the application: it has stopped "
    "committing, and may have stopped reading",
    Cause.PRODUCTION_RATE: "add members, up to one per partition, or slow the producers down",
    Cause.ONE_PARTITION: "look at the owner of the partition, and at the keys of its records",
    Cause.CONSUMPTION_RATE: "look for the bottleneck of the members (CPU, GC, calls to other "
    "services), or add members",
    Cause.TRANSACTION_HUNG: "find out in the application's log why its transaction took so long",
}


def advice(evidence: Evidence, *, is_behind: bool) -> str | None:
    """The next step; None if there is nothing to do.

    >>> advice(Evidence(cause=Cause.NO_MEMBERS, text="no members"), is_behind=True)
    'start the consumers of the group'
    """
    if evidence.cause is Cause.OPEN_TRANSACTION:
        return _end_transaction(evidence)
    if evidence.cause is Cause.REBALANCES or is_behind or evidence.cause in _ONCE:
        return _ADVICE.get(evidence.cause)
    return None


_MOVED: Final = frozenset(
    {
        *(Cause.OFFSET_REWIND, Cause.OFFSET_RESET, Cause.OFFSET_EXPIRED, Cause.OFFSET_DELETED),
        Cause.GROUP_DELETED,
    }
)
_ONCE: Final = _MOVED | {Cause.TOPIC_DELETED, Cause.TOPIC_RECREATED, Cause.DATA_LOSS}
"""These ask for a step even if the group is not behind."""


def step_commands(group_id: str, evidence: Evidence) -> Sequence[str]:
    """The command lines for the next step: those of the evidence, and the plan of a reset."""
    if evidence.cause not in _MOVED or evidence.at is None or cannot_be_reset(group_id):
        return evidence.commands
    before = (evidence.at - timedelta(seconds=1)).isoformat(timespec="seconds")
    plan = (
        f"coordinator-state plan reset {shell_word(group_id)} --to-state-at "
        f"{before.replace('+00:00', 'Z')} --tables tables --file plan.csv"
    )
    return [*evidence.commands, plan]


def _end_transaction(evidence: Evidence) -> str:
    if any(" abort " in command for command in evidence.commands):
        return "restart the producer; if find-hanging lists the transaction, abort it"
    return "restart the producer: its coordinator then ends the transaction"
