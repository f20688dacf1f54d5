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
        mark = error.problem_mark or error.context_mark
        line = "" if mark is None else f":{mark.line + 1}"
        raise ConfigurationError(f"{path}{line}: {_problem(error)}") from None
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
) -> M:
    """The model of a document; errors name the place in the document.

    `known` is the document, maybe with other values. `kind` is a word for what the file has.

    Raises:
        ConfigurationError: the document does not fit the model. The message has file, line, key
            and reason.
    """
    try:
        return model.model_validate(known)
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
    """The message of the YAML parser without values, which may be secrets."""
    problem = (error.problem or "not valid YAML").partition(" with value")[0]
    return problem if "duplicate" in problem else re.sub(r"(['\"]).*\1", "...", problem)


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
            # A missing key, or the name of the model that the value should fit.
            continue
        line = known[0]
    return line + 1
