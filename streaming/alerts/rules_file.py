"""Reads a file of alert rules; errors name the line of each mistake."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from streaming.alerts.rules import AlertRules
from streaming.errors import ConfigurationError
from streaming.kafka.secrets import is_text
from streaming.yaml_file import document_of, read_text, validated

_REFERENCE: Final = re.compile(r"\$\{(?P<name>[^}]*)\}")
DEFAULT_RULES: Final = Path(__file__).with_name("default_rules.yaml")
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
    document = document_of(read_text(path, "rules"), path, key="rules")
    known = dict(document)
    if "sinks" in known:
        known["sinks"] = _resolved(known["sinks"], path)
    return validated(AlertRules, known, document, path)


def default_rules() -> AlertRules:
    """The rules of this package, for those who have no file of their own."""
    return load_rules(DEFAULT_RULES)


def rules_without_sinks(text: str) -> AlertRules:
    """Parse rules from a person who may not read secrets or files: all keys `sinks` are left out.

    Anchors and aliases are refused, because a short text with them can be a huge document.

    Raises:
        ConfigurationError: the text is not YAML, has an anchor, or is not valid rules.
    """
    document = document_of(text, _TEXT, key="rules", has_anchors=False)
    return validated(AlertRules, _without_sinks(document), document, _TEXT)


def _without_sinks(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _without_sinks(member) for name, member in value.items() if name != "sinks"}
    return [_without_sinks(member) for member in value] if isinstance(value, list) else value


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
