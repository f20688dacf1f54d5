"""The tables of disturbed runs beside those of an undisturbed load, and the broker."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple

from streaming.kafka.fetch import LogClient
from streaming.local.broker.embedded import EmbeddedBroker
from streaming.run.stderr import write_note
from streaming.tables.reader import TableReader
from streaming.verify.broker_answers import BrokerAnswers
from streaming.verify.table_answers import TableAnswers
from streaming.verify.verify import verify
from tests.kills.killed_tables import KilledTables
from tests.support.tables.undisturbed import differences

_VERIFICATION_S: Final = 30.0
_MOST_ATTEMPTS: Final = 6


class Comparison(NamedTuple):
    """`rows` are those of the load that nobody disturbed, by table."""

    rows: dict[str, int]
    differences: list[str]


def compare_at_rest(
    broker: EmbeddedBroker, tables: Sequence[KilledTables], undisturbed: Path
) -> Comparison:
    """Read all to the end of the log, and compare all tables, history included, row by row.

    Once more where a member was thrown out meanwhile, since that is written to the log.
    """
    with closing(LogClient(broker.bootstrap_servers)) as log:
        for _ in range(_MOST_ATTEMPTS):
            ends = log.high_watermarks()
            comparison = _compare(broker, tables, undisturbed)
            if log.high_watermarks() == ends:
                return comparison
    raise RuntimeError("the log does not come to rest")


def _compare(broker: EmbeddedBroker, tables: Sequence[KilledTables], folder: Path) -> Comparison:
    undisturbed = KilledTables(servers=broker.bootstrap_servers, folder=folder)
    with ThreadPoolExecutor(2) as pool:
        done = [pool.submit(disturbed.catch_up) for disturbed in tables]
        done.append(pool.submit(undisturbed.catch_up, undisturbed=True))
        for loading in done:
            loading.result()
    expected = undisturbed.rows()
    lines: list[str] = []
    for disturbed in tables:
        lines += (
            f"{disturbed.folder.name}: {line}"
            for line in (
                *differences(disturbed.rows(), expected),
                *disturbed.doubled_samples(),
                *disturbed.contradicting_statuses(),
                *_verified(broker, disturbed),
            )
        )
    rows = {name: counts.total() for name, counts in expected.items()}
    names = ", ".join(disturbed.folder.name for disturbed in tables)
    write_note(f"comparison of {names}: {len(lines)} differences; rows {rows}")
    shutil.rmtree(folder)
    return Comparison(rows, lines)


def _verified(broker: EmbeddedBroker, tables: KilledTables) -> Iterator[str]:
    with BrokerAnswers(broker.bootstrap_servers) as answers:
        verification = verify(
            answers, lambda: TableAnswers(TableReader(tables.path)), timeout_s=_VERIFICATION_S
        )
    for log_partition, count in verification.behind.items():
        yield f"log partition {log_partition}: {count} records are missing"
    yield from map(str, verification.differences)
