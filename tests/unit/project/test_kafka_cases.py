"""The list of Kafka's cases names tests that are there."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[2]
ROW = re.compile(
    r"^\| (?P<suite>[^|]+) \| (?P<case>[^|]+) \| `(?P<path>[^:]+)::(?P<test>\w+)` \|$", re.M
)


def test_every_case_has_its_test() -> None:
    text = (TESTS / "kafka-cases.md").read_text()
    rows = ROW.findall(text)
    assert len(rows) == text.count("::") > 100
    missing = [
        (path, test)
        for _, _, path, test in rows
        if f"def {test}(" not in (TESTS / path).read_text()
    ]
    assert missing == []
    cases = [(suite, case) for suite, case, _, _ in rows]
    assert len(set(cases)) == len(cases)
