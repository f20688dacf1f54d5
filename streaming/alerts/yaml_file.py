"""Reads YAML files for pydantic models; errors name the line of each mistake."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import CollectionEndEvent, CollectionStartEvent

from streaming.errors import ConfigurationError

M = TypeVar("M", bound=BaseModel)

_MOST_FAULTS: Final = 5
_OF_TAGS: Final = (ValueError, LookupError, ArithmeticError, AttributeError, TypeError)
"""Errors of the parsers of tags such as `!!bool`."""
_MOST_LEVELS: Final = 20

_EXPECTED_BRACKET: Final = re.compile(r"expected ',' or '([\]}])'")
_MAPPING: Final = "must be a mapping of keys to values"
_LIST: Final = "must be a list"
_WHOLE: Final = "must be a whole number"
_NUMBER: Final = "must be a number"
_BOOLEAN: Final = "must be true or false"
_TIME: Final = "must be a time such as 2026-11-21T03:14:00Z"
_MESSAGES: Final[Mapping[str, str]] = {
    "extra_forbidden": "unknown key",
    "missing": "this key is missing",
    "union_tag_not_found": "the key {discriminator} is missing",
    "union_tag_invalid": "{discriminator} must be one of {expected_tags}, not '{tag}'",
    "model_type": _MAPPING,
    "dict_type": _MAPPING,
    "list_type": _LIST,
    "tuple_type": _LIST,
    "too_short": "must not be empty",
    "string_type": "must be text; numbers need quotes",
    "string_too_short": "must not be empty",
    "string_too_long": "must have at most {max_length} characters",
    "string_pattern_mismatch": "must match {pattern}",
    "int_type": _WHOLE,
    "int_parsing": _WHOLE,
    "int_from_float": _WHOLE,
    "float_type": _NUMBER,
    "float_parsing": _NUMBER,
    "bool_type": _BOOLEAN,
    "bool_parsing": _BOOLEAN,
    "datetime_type": _TIME,
    "datetime_parsing": _TIME,
    "datetime_from_date_parsing": _TIME,
}
"""Messages by pydantic's type of the error, with its context; else pydantic's own message."""


class FaultAt(ValueError):
    """A fault that a validator finds at a place below the value that it checks."""

    def __init__(self, place: Sequence[int | str], message: str) -> None:
        super().__init__(message)
        self.place = place


def read_text(path: str | Path, kind: str) -> str:
    """The text of a file.

    Raises:
        ConfigurationError: the file is unreadable; `kind` names it, such as `rules`.
    """
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"cannot read the {kind} file {path}: {error}") from error


def document_of(
    text: str, path: str | Path, *, key: str, has_anchors: bool = True
) -> Mapping[str, Any]:
    """The mapping of a YAML text, with the lines of its keys.

    Args:
        text: the text.
        path: its name in errors.
        key: a key that every such file has, for the error of a file of another kind.
        has_anchors: whether it may have any: a short text with them can be a huge document.

    Raises:
        ConfigurationError: the text is not YAML, or no mapping.
    """
    try:
        if not has_anchors:
            _check_size(text, path)
        document = YAML(typ="rt").load(text)
    except MarkedYAMLError as error:
        raise ConfigurationError(f"{path}{_problem(error)}") from None
    except (YAMLError, RecursionError, *_OF_TAGS) as error:
        raise ConfigurationError(f"{path}: not valid YAML: {type(error).__name__}") from None
    if not isinstance(document, Mapping):
        raise ConfigurationError(f"{path}: expected a mapping with the key {key}")
    return document


def validated(
    model: type[M],
    known: Mapping[str, Any],
    document: Any,
    path: str | Path,
    *,
    kind: str = "rules",
    context: Any = None,
) -> M:
    """The model of a document; errors name the place in the document.

    `known` is the document, maybe with other values. `kind` is a word for what the file has, and
    `context` is for the validators of the model.

    Raises:
        ConfigurationError: the document does not fit the model. The message has file, line, key
            and reason.
    """
    try:
        return model.model_validate(known, context=context)
    except ValidationError as error:
        faults = [_fault(document, path, **fault) for fault in error.errors(include_url=False)]
        if len(faults) > _MOST_FAULTS:
            faults[_MOST_FAULTS:] = [f"and {len(faults) - _MOST_FAULTS} more"]
        raise ConfigurationError("; ".join(faults)) from None
    except (TypeError, ArithmeticError, RecursionError) as error:
        raise ConfigurationError(f"{path}: not valid {kind}: {type(error).__name__}") from None


def _check_size(text: str, path: str | Path) -> None:
    """Refuse a short text that takes long: one with anchors, or with deep nesting."""
    depth = 0
    for event in YAML().parse(text):
        if getattr(event, "anchor", None):
            raise ConfigurationError(f"{path}: anchors and aliases are not allowed here")
        depth += isinstance(event, CollectionStartEvent) - isinstance(event, CollectionEndEvent)
        if depth > _MOST_LEVELS:
            raise ConfigurationError(f"{path}: more than {_MOST_LEVELS} nested levels")


def _problem(error: MarkedYAMLError) -> str:
    """The line and the message of the YAML parser without values, which may be secrets."""
    problem = (error.problem or "not valid YAML").partition(" with value")[0]
    mark = error.problem_mark or error.context_mark
    begin, context = error.context_mark, error.context or ""
    if mark is None:
        return f": {problem}"
    if begin is not None and (bracket := _EXPECTED_BRACKET.match(problem)):
        where = "" if mark.line == begin.line else f" before line {mark.line + 1}"
        return f":{begin.line + 1}: add the missing comma or closing {bracket[1]}{where}"
    if begin is not None and "quoted scalar" in context and "unexpected end" in problem:
        return f":{begin.line + 1}: add the closing quote of the text that begins here"
    if "flow" in context and "stream end" in problem:
        return f":{mark.line + 1}: the text ends inside a bracket: close it"
    if "duplicate" not in problem:
        problem = re.sub(r"(['\"]).*\1", "...", problem)
    return f":{mark.line + 1}: {problem}"


def _fault(document: Any, path: str | Path, **fault: Any) -> str:
    context = fault.get("ctx", {})
    place = [part for part in fault["loc"] if not (isinstance(part, str) and "[" in part)]
    place += getattr(context.get("error"), "place", ())
    message = fault["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
    if fault["type"] in _MESSAGES:
        message = _MESSAGES[fault["type"]].format(**context)
    where = ".".join(str(part) for part in _named(document, place))
    return f"{path}:{_line(document, place)}: {where + ': ' if where else ''}{message}"


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
            # A missing key, or the name of the model that the value should fit.
            continue
        line = known[0]
    return line + 1
