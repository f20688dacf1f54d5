"""Reads a file of alert rules; errors name the line of each mistake."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import CollectionEndEvent, CollectionStartEvent

from streaming.alerts.rules import AlertRules
from streaming.errors import ConfigurationError
from streaming.kafka.secrets import is_text

_REFERENCE: Final = re.compile(r"\$\{(?P<name>[^}]*)\}")
_MOST_FAULTS: Final = 5
_OF_TAGS: Final = (ValueError, LookupError, ArithmeticError, AttributeError, TypeError)
"""Errors of the parsers of tags such as `!!bool`."""
_MOST_LEVELS: Final = 20
_TEXT: Final = "alerts.yaml"
"""The name of a text that is no file: its errors begin with `alerts.yaml:3`."""


def load_rules(path: str | Path) -> AlertRules:
    """Read a file of rules.

    In `sinks`, `${NAME}` stands for an environment variable and `${file:PATH}` for the content of
    a file. The rules file itself then needs no secrets.

    Raises:
        ConfigurationError: the file is unreadable, not YAML, or not valid rules. The message has
            file, line, key and reason.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"cannot read the rules file {path}: {error}") from error
    document = _document(text, path)
    known = dict(document)
    if "sinks" in known:
        known["sinks"] = _resolved(known["sinks"], path)
    return _validated(known, document, path)


def rules_without_sinks(text: str) -> AlertRules:
    """Parse rules from a person who may not read secrets or files: all keys `sinks` are left out.

    Anchors and aliases are refused, because a short text with them can be a huge document.

    Raises:
        ConfigurationError: the text is not YAML, has an anchor, or is not valid rules.
    """
    document = _document(text, _TEXT, has_anchors=False)
    return _validated(_without_sinks(document), document, _TEXT)


def _document(text: str, path: str | Path, *, has_anchors: bool = True) -> Mapping[str, Any]:
    """The YAML document of a text; `has_anchors` says whether it may have any."""
    try:
        if not has_anchors:
            _check_size(text, path)
        document = YAML(typ="rt").load(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = "" if mark is None else f":{mark.line + 1}"
        raise ConfigurationError(f"{path}{line}: {_problem(error)}") from None
    except (YAMLError, RecursionError, *_OF_TAGS) as error:
        raise ConfigurationError(f"{path}: not valid YAML: {type(error).__name__}") from None
    if not isinstance(document, Mapping):
        raise ConfigurationError(f"{path}: expected a mapping with the key rules")
    return document


def _check_size(text: str, path: str | Path) -> None:
    """Refuse a short text that takes long: one with anchors, or with deep nesting."""
    depth = 0
    for event in YAML().parse(text):
        if getattr(event, "anchor", None):
            raise ConfigurationError(f"{path}: anchors and aliases are not allowed here")
        depth += isinstance(event, CollectionStartEvent) - isinstance(event, CollectionEndEvent)
        if depth > _MOST_LEVELS:
            raise ConfigurationError(f"{path}: more than {_MOST_LEVELS} nested levels")


def _without_sinks(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _without_sinks(member) for name, member in value.items() if name != "sinks"}
    return [_without_sinks(member) for member in value] if isinstance(value, list) else value


def _validated(known: Mapping[str, Any], document: Any, path: str | Path) -> AlertRules:
    """The rules of a document; errors name the place in the document."""
    try:
        return AlertRules.model_validate(known)
    except ValidationError as error:
        faults = [_fault(document, path, **fault) for fault in error.errors(include_url=False)]
        if len(faults) > _MOST_FAULTS:
            faults[_MOST_FAULTS:] = [f"and {len(faults) - _MOST_FAULTS} more"]
        raise ConfigurationError("; ".join(faults)) from None
    except (TypeError, ArithmeticError, RecursionError) as error:
        raise ConfigurationError(f"{path}: not valid rules: {type(error).__name__}") from None


def _problem(error: MarkedYAMLError) -> str:
    """The message of the YAML parser without values, which may be secrets."""
    problem = (error.problem or "not valid YAML").partition(" with value")[0]
    return problem if "duplicate" in problem else re.sub(r"(['\"]).*\1", "...", problem)


def _resolved(value: Any, path: str | Path) -> Any:
    if isinstance(value, Mapping):
        return {name: _resolved(member, path) for name, member in value.items()}
    if isinstance(value, list):
        return [_resolved(member, path) for member in value]
    if isinstance(value, str):
        return _REFERENCE.sub(lambda match: _referred(match["name"], path), value)
    return value


def _referred(name: str, path: str | Path) -> str:
    kind, colon, file = name.partition(":")
    if colon and kind == "file":
        try:
            return Path(file).read_text(encoding="utf-8").strip()
        except OSError as error:
            raise ConfigurationError(f"{path}: cannot read ${{{name}}}: {error}") from error
        except UnicodeDecodeError:
            # `from None`: the error holds the whole content of the file.
            raise ConfigurationError(f"{path}: ${{{name}}} is not UTF-8") from None
    text = os.environ.get(name)
    if text is None:
        raise ConfigurationError(f"{path}: ${{{name}}}: environment variable {name} is not set")
    if not is_text(text):
        raise ConfigurationError(f"{path}: ${{{name}}} is not UTF-8")
    return text


def _fault(document: Any, path: str | Path, **fault: Any) -> str:
    place = [part for part in fault["loc"] if not (isinstance(part, str) and "[" in part)]
    line = _line(document, place)
    message = fault["msg"].removeprefix("Value error, ")
    if fault["type"] == "extra_forbidden":
        message = "unknown key"
    where = ".".join(str(part) for part in _named(document, place))
    return f"{path}:{line}: {where + ': ' if where else ''}{message}"


def _named(document: Any, place: Sequence[int | str]) -> list[int | str]:
    """The path of a key, with the names of rules instead of their indexes."""
    path: list[int | str] = []
    for part in place:
        try:
            document = document[part]
        except (KeyError, IndexError, TypeError):
            document = None
        is_named = isinstance(part, int) and isinstance(document, Mapping) and "name" in document
        path.append(document["name"] if is_named and document is not None else part)
    return path


def _line(document: Any, place: Sequence[int | str]) -> int:
    """The line of a key, or of the innermost enclosing key that the file has."""
    line = 0
    for part in place:
        try:
            known = document.lc.data[part]
            document = document[part]
        except (KeyError, IndexError, TypeError, AttributeError):
            break
        line = known[0]
    return line + 1
