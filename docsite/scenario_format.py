"""The format of scenario files: its JSON schema, and the tables of docs/scenarios.md."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import Any, Final, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from docsite.markdown import Parts, code, table
from streaming.alerts.rules import DEFAULT_RULES
from streaming.local.scenario.scenario import (
    Expectation,
    Group,
    GroupEvent,
    Run,
    Scenario,
    Topic,
    TopicEvent,
)

_TITLE: Final = "A scenario of coordinator-state"
_TIMES: Final = ("do", "at", "from", "to", "repeat")


def scenario_schema() -> str:
    """The JSON schema of a scenario file, for editors."""
    content = Scenario.model_json_schema(by_alias=True)
    content = {"$schema": "https://json-schema.org/draft/2020-12/schema", **content}
    return json.dumps({**_for_editors(content), "title": _TITLE}, indent=2) + "\n"


def _for_editors(value: Any) -> Any:
    """A schema without the titles and the defaults, which say nothing that the page does not."""
    if isinstance(value, dict):
        is_field = "type" in value or "anyOf" in value
        return {
            key: _for_editors(member)
            for key, member in value.items()
            if not (is_field and key in ("title", "default") and not isinstance(member, dict))
        }
    return [_for_editors(member) for member in value] if isinstance(value, list) else value


def _rules() -> str:
    return f"```yaml\n{DEFAULT_RULES.read_text(encoding='utf-8')}```"


def _keys(model: type[BaseModel]) -> str:
    rows = [(code(key), _default(field), field.description or "") for key, field in _fields(model)]
    return table(["key", "default", "meaning"], rows)


def _events(union: Any) -> str:
    rows = [_event(model) for model in get_args(get_args(union)[0])]
    return table(["`do`", "when", "further keys", "what happens"], rows)


def _fields(model: type[BaseModel]) -> Sequence[tuple[str, FieldInfo]]:
    return [(field.alias or name, field) for name, field in model.model_fields.items()]


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.default
    is_time = field.alias is not None and field.alias not in ("as",)
    if value is None or value in ("", [], [5]) or isinstance(value, BaseModel):
        return "5s" if value == [5] else ""
    return f"{value}s" if is_time else str(value).lower() if isinstance(value, bool) else str(value)


def _event(model: type[BaseModel]) -> tuple[str, str, str, str]:
    fields = dict(_fields(model))
    times = ", ".join(code(name) for name in _TIMES[1:] if name in fields)
    keys = []
    for key, field in fields.items():
        if key not in _TIMES:
            default = _default(field)
            more = f" ({default})" if default not in ("", "required") else ""
            keys.append(f"{code(key)}{more}")
    (name,) = get_args(fields["do"].annotation)
    text = " ".join((model.__doc__ or "").split())
    return code(name), times, ", ".join(keys), text


SCENARIOS: Final[Parts] = {
    "topic": partial(_keys, Topic),
    "topic events": partial(_events, TopicEvent),
    "group": partial(_keys, Group),
    "group events": partial(_events, GroupEvent),
    "expectation": partial(_keys, Expectation),
    "default rules": _rules,
    "run": partial(_keys, Run),
}
