"""The format of scenario files: its JSON schema, and the tables of docs/scenarios.md."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from docsite.markdown import code, table
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
_MODELS: Final[Mapping[str, type[BaseModel]]] = {
    "topic": Topic,
    "group": Group,
    "run": Run,
    "expectation": Expectation,
}
_EVENTS: Final = {"topic events": TopicEvent, "group events": GroupEvent}
_TIMES: Final = ("do", "at", "from", "to", "repeat")
_PART: Final = re.compile(
    r"(<!-- (?P<name>[a-z ]+): begin -->\n\n).*?(<!-- (?P=name): end -->)", re.DOTALL
)


def scenario_schema() -> str:
    """The JSON schema of a scenario file, for editors."""
    content = Scenario.model_json_schema(by_alias=True)
    content = {"$schema": "https://json-schema.org/draft/2020-12/schema", **content}
    return json.dumps({**_for_editors(content), "title": _TITLE}, indent=2) + "\n"


def scenario_keys(text: str) -> str:
    """The page with the tables of the keys of each part of a file, and the default rules."""
    return _PART.sub(lambda match: f"{match[1]}{_part(match['name'])}\n\n{match[3]}", text)


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


def _part(name: str) -> str:
    if name == "default rules":
        return f"```yaml\n{DEFAULT_RULES.read_text(encoding='utf-8')}```"
    if name in _MODELS:
        fields = _fields(_MODELS[name])
        rows = [(code(key), _default(field), field.description or "") for key, field in fields]
        return table(["key", "default", "meaning"], rows)
    union = get_args(_EVENTS[name])[0]
    events = [_event(model) for model in get_args(union)]
    return table(["`do`", "when", "further keys", "what happens"], events)


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
