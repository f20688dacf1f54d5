"""The keys that a rule looks at one by one: at least those with a finding."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import product
from typing import Any

import numpy as np
import pytest

import streaming.alerts.facts as facts_module
from coordinator_state.insight.group_status import StatusRules
from streaming.alerts.facts import Facts
from streaming.alerts.rules import Rule, fits
from streaming.tables.reader import TableReader
from tests.support.tables.status_tables import NOW, create_status_tables

CONDITIONS: list[dict[str, Any]] = [
    {"status": ["OK"]},
    {"status": ["IDLE", "STOP", "WARN"]},
    {"status": ["UNKNOWN"]},
    {"lag": "> 0"},
    {"lag": "< 400"},
    {"lag_to_last_stable": ">= 1"},
    {"data_lost": "> 0"},
    {"time_lag": "> 1s"},
    {"time_lag": "< 1h"},
    {"retention_margin": "< 1d"},
    {"commit_age": "> 10s"},
    {"commit_rate": "< 1"},
    {"status": ["STOP", "STALL"], "lag": "> 100", "time_lag": "> 30s"},
]
PLACES: list[dict[str, Any]] = [{}, {"groups": ["s*", "!stop*"]}, {"topics": ["t*"]}]


@pytest.mark.parametrize("by", ["group", "topic", "partition"])
def test_no_finding_is_missed(by: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = create_status_tables(tmp_path)
    rules = [
        Rule.model_validate({"name": "rule", "by": by, **condition, **place})
        for condition, place in product(CONDITIONS, PLACES)
    ]
    moments = [NOW, NOW - timedelta(minutes=3), NOW + timedelta(hours=3)]

    def found(at: datetime) -> list[Any]:
        facts = Facts(TableReader(tables), at, StatusRules())
        return [sorted(map(repr, facts.findings(rule))) for rule in rules]

    quick = [found(at) for at in moments]
    monkeypatch.setattr(
        facts_module, "candidates", lambda rule, partitions, _groups: _fitting(rule, partitions)
    )
    assert quick == [found(at) for at in moments]
    assert any(any(of_rule) for of_moment in quick for of_rule in of_moment)


def _fitting(rule: Rule, partitions: Any) -> Any:
    return np.array(
        [
            number
            for number, row in enumerate(partitions)
            if fits(rule.groups, row["group_id"]) and fits(rule.topics, row["topic"])
        ],
        np.int64,
    )
