"""Alert rules in SQL that take much: they hold up nobody, and end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Thread

import pytest

from streaming.alerts import sql_rules
from streaming.alerts.alert_run import AlertRun
from streaming.errors import ConfigurationError
from tests.support.brokers.processes import children
from tests.support.brokers.receivers import HttpReceiver
from tests.support.clients.command_line import call
from tests.support.eventually import Eventually
from tests.support.tables.alert_rules import lag_of, write_rules

CALLS_FOR_EVER = "SELECT levenshtein(repeat('a', 9000000), repeat(group_id, 9000000)) FROM groups"
NEEDS_MEMORY = "SELECT length(repeat(group_id, 3000000000)) AS value FROM groups"
WELL = "SELECT group_id, lag AS value FROM group_lag WHERE lag > 10"


@pytest.fixture(autouse=True)
def _limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql_rules, "QUICK", replace(sql_rules.QUICK, within_s=2))
    monkeypatch.setattr(sql_rules, "SLOW", replace(sql_rules.SLOW, within_s=5))


@pytest.fixture
def tables(tables_that_lag: str) -> str:
    lag_of(tables_that_lag, 50)
    return tables_that_lag


def with_sql(folder: Path, receiver: HttpReceiver, **queries: str) -> str:
    """A rule about lag, and behind it rules in SQL."""
    rules = [f'- name: {name}\n  sql: "{sql}"\n' for name, sql in queries.items()]
    return write_rules(folder, receiver.url, settings="".join(rules))


@contextmanager
def running(
    tables: str, folder: Path, receiver: HttpReceiver, **queries: str
) -> Iterator[AlertRun]:
    run = AlertRun(tables, with_sql(folder, receiver, **queries))
    try:
        yield run
    finally:
        run._sql.close()


def sent_rules(receiver: HttpReceiver) -> set[str]:
    return {alert["rule"] for alert in receiver.alerts}


ENDLESS = {"endless": CALLS_FOR_EVER, "another": CALLS_FOR_EVER.replace("'a'", "'b'")}


@pytest.mark.long
def test_a_rule_without_end_holds_up_no_other(
    tables: str,
    tmp_path: Path,
    receiver: HttpReceiver,
    eventually: Eventually,
    caplog: pytest.LogCaptureFixture,
) -> None:
    queries = {**ENDLESS, "large": NEEDS_MEMORY, "well": WELL}
    with running(tables, tmp_path, receiver, **queries) as run:
        run.round()
        # The rules without SQL do not wait for the queries.
        assert "behind" in sent_rules(receiver)

        def well_is_sent() -> bool:
            run.round()
            return sent_rules(receiver) == {"behind", "well"}

        eventually(well_is_sent, 60)

        def messages() -> list[str]:
            run.round()
            return [message for message in caplog.messages if "more than 5 s" in message]

        # They are given more time apart from the others, and end then, too.
        eventually(lambda: len(messages()) == 2, 120)
        assert sorted(messages()) == [
            f"rule {name}: the query took more than 5 s" for name in ("another", "endless")
        ]
    assert any(message.startswith("rule large: Out of Memory Error") for message in caplog.messages)
    # Of those alerts nothing is known: none begins, and none ends.
    assert sent_rules(receiver) == {"behind", "well"}


def test_a_slow_query_pauses_as_long_as_it_took(
    tables: str, tmp_path: Path, receiver: HttpReceiver, eventually: Eventually
) -> None:
    with running(tables, tmp_path, receiver, well=WELL) as run:
        run.round()
        state = run._sql._queries[WELL]
        state.is_slow = True
        run.round()
        eventually(lambda: state.answer is not None and state.answer.done())
        state.took_s = 1_000
        for _ in range(2):
            run.round()
            assert state.answer is None


def test_a_query_that_cannot_be_bound_in_time_is_refused(
    tables: str, tmp_path: Path, receiver: HttpReceiver
) -> None:
    rules = with_sql(tmp_path, receiver, b="SELECT * FROM range(sleep_ms(60000))")
    before = children()
    with pytest.raises(ConfigurationError, match="rule b: the query took more than 2 s"):
        AlertRun(tables, rules)
    assert children() == before


def test_a_rule_is_tested_within_its_time(
    tables: str, tmp_path: Path, receiver: HttpReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql_rules, "SLOW", replace(sql_rules.SLOW, within_s=1))
    rules = with_sql(tmp_path, receiver, endless=CALLS_FOR_EVER)
    before = children()
    arguments = ("alert", "test", "--rules-file", rules, "--tables", tables)
    refused = call(*arguments, exit_code=2)
    assert "rule endless: the query took more than " in refused.stderr
    assert refused.stderr.count("\n") == 1
    assert children() == before


@pytest.mark.long
def test_queries_end_with_the_run(
    tables: str, tmp_path: Path, receiver: HttpReceiver, eventually: Eventually
) -> None:
    with running(tables, tmp_path, receiver, **ENDLESS) as run:
        before = children()
        thread = Thread(target=run.run)
        thread.start()
        try:
            # Both lanes are at work.
            eventually(lambda: len(children() - before) == 2, 60)
        finally:
            run.stop.set()
            thread.join(60)
        assert not thread.is_alive()
        assert children() <= before
