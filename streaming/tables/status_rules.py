"""The limits of statuses: as people write them, and as a property of the tables.

`run` writes its limits into the tables, so that every reader takes the same ones.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any, Final

from coordinator_state.insight.group_status import StatusRules
from streaming.tables.durations import parse_duration

_FIELDS: Final = {field.name.removesuffix("_ms"): field.name for field in fields(StatusRules)}


def parse_status_rules(limits: Mapping[str, Any]) -> StatusRules:
    """Parse limits: durations without `_ms` in their names, and counts.

    >>> parse_status_rules({"stop_after": "2m", "rebalances": 9}).stop_after_ms
    120000

    Raises:
        ValueError: a limit is not known, or its value is not a duration or a whole number.
    """
    unknown = sorted(str(name) for name in set(limits) - set(_FIELDS))
    if unknown:
        raise ValueError(f"unknown limit {', '.join(unknown)}; the limits are {', '.join(_FIELDS)}")
    return StatusRules(
        **{
            _FIELDS[name]: _whole(value) if _FIELDS[name] == name else _ms(value)
            for name, value in limits.items()
        }
    )


def status_rules_text(rules: StatusRules) -> str:
    """The limits that are not the defaults, as the property of the tables."""
    defaults = asdict(StatusRules())
    return json.dumps({name: ms for name, ms in asdict(rules).items() if ms != defaults[name]})


def status_rules_of(text: str) -> StatusRules:
    """The limits of the property; those that this release does not know are left out."""
    limits = json.loads(text)
    return StatusRules(**{name: limits[name] for name in _FIELDS.values() if name in limits})


def _whole(value: Any) -> int:
    text = str(value).strip()
    if isinstance(value, bool) or not text.isdecimal():
        raise ValueError(f"{value!r} is not a whole number")
    return int(text)


def _ms(value: Any) -> int:
    return round(parse_duration(str(value)).total_seconds() * 1000)
