"""The lines of `kafka-transactions.sh` that find and end an open transaction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from coordinator_state.replay.partitioner import OFFSETS_TOPIC

PLACEHOLDER: Final = "HOST:PORT"


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionCommands:
    """Command lines for one open transaction.

    `describe` shows the producers of the log partition with the start offset of their transaction.
    `find` lists transactions that their coordinator has forgotten, which never end by themselves.
    `end` aborts the transaction in the log partition: its pending offsets are dropped. It must not
    be used on a transaction that its coordinator still has: the producer could then commit its
    records without these offsets.
    """

    describe: str
    find: str
    end: str

    def lines(self, *, is_known_to_coordinator: bool) -> tuple[str, ...]:
        """The command lines for a transaction."""
        commands = (self.describe, self.find)
        return commands if is_known_to_coordinator else (*commands, self.end)


def transaction_commands(
    log_partition: int, first_record_offset: int, bootstrap_servers: str = PLACEHOLDER
) -> TransactionCommands:
    """The command lines for the transaction whose first record in a log partition is given."""

    def line(action: str, more: str = "") -> str:
        return (
            f"kafka-transactions.sh --bootstrap-server {bootstrap_servers} {action} --topic "
            f"{OFFSETS_TOPIC} --partition {log_partition}{more}"
        )

    return TransactionCommands(
        describe=line("describe-producers"),
        find=line("find-hanging"),
        end=line("abort", f" --start-offset {first_record_offset}"),
    )
