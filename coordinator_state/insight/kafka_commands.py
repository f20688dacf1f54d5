"""The lines of Kafka's tools, quoted for a shell: plans of groups, and open transactions.

Source: tools/src/main/java/org/apache/kafka/tools/consumer/group/ConsumerGroupCommand.java
(`parseResetPlan`, `resetOffsets`, `deleteGroups`, `parseTopicsWithPartitions`) at 3.9.1 and 4.4.0;
ShareGroupCommandOptions.java and StreamsGroupCommandOptions.java at 4.4.0 for `--reset-offsets`.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from coordinator_state.records.internal_topics import OFFSETS_TOPIC
from coordinator_state.replay.groups import SHARE, STREAMS

PLACEHOLDER: Final = "HOST:PORT"
_TOOL: Final = "kafka-consumer-groups.sh"
GROUP_TOOLS: Final = {SHARE: "kafka-share-groups.sh", STREAMS: "kafka-streams-groups.sh"}
"""The tools of other groups than classic and consumer groups, by type."""
_GROUPS_OF_A_LINE: Final = 50
"""A line with the longest group ids still fits into the 2 MB that Linux allows."""


def shell_word(text: str) -> str:
    r"""A text as one word of bash, without characters that a terminal obeys.

    >>> print(shell_word("payments"), shell_word("it's"), shell_word("red\x1b[31m"))
    payments 'it'"'"'s' $'red\x1b[31m'
    """
    if text.isprintable():
        return shlex.quote(text)
    escaped = (
        character
        if character.isprintable() and character not in "\\'"
        else "".join(f"\\x{byte:02x}" for byte in character.encode())
        for character in text
    )
    return f"$'{''.join(escaped)}'"


def cannot_be_named(group_id: str) -> str:
    """The reason why no command line can name a group; empty if one can."""
    if not group_id:
        return "its id is empty"
    return "its id has a zero character" if "\0" in group_id else ""


def cannot_be_reset(group_id: str) -> str:
    """The reason why no plan file can have a group; the tool splits the file at line feeds."""
    return "its id has a line feed" if "\n" in group_id else cannot_be_named(group_id)


def reset_commands(
    group_ids: Sequence[str],
    file: str,
    bootstrap_servers: str | None = None,
    group_type: str | None = None,
) -> list[tuple[str, str]]:
    """The dry run and the execution of a plan file, one pair for each 50 groups.

    `--all-groups` would leave out groups that do not exist now. `group_type` is that of all groups;
    None for groups that do not exist.
    """
    tool = GROUP_TOOLS.get(group_type or "", _TOOL)
    return [
        (
            _line(bootstrap_servers, *words, "--dry-run", tool=tool),
            _line(bootstrap_servers, *words, "--execute", tool=tool),
        )
        for first in range(0, len(group_ids), _GROUPS_OF_A_LINE)
        for words in [
            [
                "--reset-offsets",
                *_named("--group", group_ids[first : first + _GROUPS_OF_A_LINE]),
                *("--from-file", file),
            ]
        ]
    ]


def delete_group_command(group_id: str, bootstrap_servers: str | None = None) -> str:
    """The line that deletes a group without members, with its offsets."""
    return _line(bootstrap_servers, "--delete", "--group", group_id)


def delete_offsets_command(
    group_id: str, topic: str, partitions: Iterable[int], bootstrap_servers: str | None = None
) -> str:
    """The line that deletes offsets of one topic; the topic must exist."""
    places = f"{topic}:{','.join(map(str, sorted(partitions)))}"
    return _line(bootstrap_servers, "--delete-offsets", "--group", group_id, "--topic", places)


def _named(option: str, values: Iterable[str]) -> list[str]:
    return [word for value in values for word in (option, value)]


def _line(bootstrap_servers: str | None, *words: str, tool: str = _TOOL) -> str:
    words = (tool, "--bootstrap-server", bootstrap_servers or PLACEHOLDER, *words)
    return " ".join(map(shell_word, words))


# --- open transactions


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionCommands:
    """Command lines for one open transaction.

    `describe` shows the producers of the log partition with the start offset of their transaction.
    `find` lists transactions that their coordinator has forgotten, which never end by themselves.
    `end` aborts the transaction in the log partition: its pending offsets are dropped. It must not
    be used on a transaction that its coordinator still has: the producer could then commit its
    records without these offsets. `terminate` aborts a two-phase commit (KIP-939), also a prepared
    one; None for other transactions.
    """

    describe: str
    find: str
    end: str
    terminate: str | None = None

    def lines(self, *, is_known_to_coordinator: bool) -> tuple[str, ...]:
        """The command lines for a transaction."""
        last = self.terminate if is_known_to_coordinator else self.end
        return (self.describe, self.find, *([] if last is None else [last]))


def transaction_commands(
    log_partition: int,
    first_record_offset: int,
    bootstrap_servers: str = PLACEHOLDER,
    *,
    two_phase_commit_id: str | None = None,
) -> TransactionCommands:
    """The command lines for the transaction whose first record in a log partition is given.

    `two_phase_commit_id` is its transactional id, if it is a two-phase commit.
    """

    def line(action: str, more: str = "") -> str:
        return (
            f"kafka-transactions.sh --bootstrap-server {bootstrap_servers} {action} --topic "
            f"{OFFSETS_TOPIC} --partition {log_partition}{more}"
        )

    return TransactionCommands(
        describe=line("describe-producers"),
        find=line("find-hanging"),
        end=line("abort", f" --start-offset {first_record_offset}"),
        terminate=two_phase_commit_id
        and f"kafka-transactions.sh --bootstrap-server {bootstrap_servers} "
        f"forceTerminateTransaction --transactionalId {shell_word(two_phase_commit_id)}",
    )
