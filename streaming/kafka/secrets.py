"""Secrets among Kafka client settings: detection, and how to pass them.

Spark shows the options of a query in its UI, in event logs and in the checkpoint, and `ps` shows a
command line. So a secret is passed as the name of a file or an environment variable, in
`NAME.file` or `NAME.env`. Each process that logs in reads it, executors too. A secret in plain text
in a config file or the environment is first moved to an environment variable of this process.

Imports only the standard library and `streaming.errors`, since every command reads these settings.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from streaming.errors import ConfigurationError

_NAME: Final = re.compile(r"(passw|passphrase|secret|jaas|keystore\.key)(?!.*\.(file|env)$)")
"""The value of a name that ends in `.file` or `.env` is a place, not a secret."""
_PROXY: Final = "proxy.url"
_VALUE: Final = re.compile(r"://.*@|PRIVATE KEY-", re.DOTALL)
"""An address with a user part, or a PEM key. A password may contain a slash, so any `@` counts."""
_NO_TEXT: Final = re.compile("[\0\ud800-\udfff]")
_ENVIRONMENT_PREFIX: Final = "COORDINATOR_STATE_KAFKA_"


class Secret(str):
    """A password whose `repr`, `str` and `format` are `***`; `"".join` returns the password."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'***'"

    def __str__(self) -> str:
        return "***"

    def __format__(self, specification: str) -> str:
        return format("***", specification)


def is_secret(name: str, value: str = "") -> bool:
    """Return whether the value of a Kafka client setting must not be shown.

    >>> is_secret("sasl.jaas.config"), is_secret("ssl_key_password"), is_secret("client.id")
    (True, True, False)
    >>> is_secret("sasl.plain.password.env"), is_secret("proxy.url", "http://hush@proxy:3128")
    (False, True)
    """
    return (
        _is_named_secret(name)
        or _VALUE.search(value) is not None
        or (_is_proxy(name) and "@" in value)
    )


def other_ways(name: str) -> str:
    """Return advice how to pass the setting without showing its value."""
    if _is_named_secret(name) or _is_proxy(name):
        return f"use {name}.file=PATH or {name}.env=VARIABLE"
    return "use an address without a user or password, or the path of a PEM file"


def is_text(value: str) -> bool:
    """Return whether a text has no NUL and can be encoded in UTF-8.

    Python decodes an argument or variable that is not UTF-8 to surrogates. A client that encodes
    them fails with an error whose repr contains the whole text.
    """
    return _NO_TEXT.search(value) is None


def require_text(name: str, value: str) -> None:
    """Refuse a value that cannot be encoded in UTF-8.

    Raises:
        ConfigurationError: names the setting, but does not show the value.
    """
    if not is_text(value):
        raise ConfigurationError(f"Kafka setting {name!r} is not UTF-8 text")


def require_no_secret(settings: Mapping[str, str]) -> None:
    """Refuse secrets in plain text in settings that Spark would show.

    Raises:
        ConfigurationError: names the setting and the other ways to pass it.
    """
    for name, value in settings.items():
        if is_secret(name, value):
            raise ConfigurationError(
                f"Kafka setting {name!r} is a secret, which Spark would show: {other_ways(name)}"
            )


def require_no_login(bootstrap_servers: str) -> None:
    """Refuse addresses with a user or password, since log lines would show them.

    Raises:
        ConfigurationError: names the settings for a login, but does not show the addresses.
    """
    if "@" in bootstrap_servers:
        raise ConfigurationError(
            "--bootstrap-servers must be HOST:PORT[,HOST:PORT...]: use --kafka "
            "sasl.plain.username and sasl.plain.password.file for a login"
        )


def behind_environment(settings: Mapping[str, str]) -> dict[str, str]:
    """Move each secret to an environment variable, and return the settings that refer to them.

    Raises:
        ConfigurationError: a secret is not UTF-8 text.
    """
    hidden = {}
    for name, value in settings.items():
        if is_secret(name, value):
            require_text(name, value)
            variable = _ENVIRONMENT_PREFIX + re.sub(r"\W", "_", name).upper()
            os.environ[variable] = value
            hidden[f"{name}.env"] = variable
        else:
            hidden[name] = value
    return hidden


def read_secret(name: str, way: str, where: str) -> Secret:
    """Read a secret from a file, without its last line break, or from an environment variable.

    Args:
        name: the setting, for errors.
        way: `file` or `env`.
        where: the path of the file, or the name of the variable.

    Raises:
        ConfigurationError: the file or variable is missing or empty, or it is not UTF-8 text.
    """
    value = (
        read_file(f"Kafka setting {name!r}", Path(where))
        if way == "file"
        else os.environ.get(where)
    )
    if not value:
        raise ConfigurationError(
            f"Kafka setting {name!r}: this process has no environment variable {where}; executors "
            "of a cluster have their own environment: use a file there"
        )
    require_text(name, value)
    return Secret(value)


def read_file(setting: str, path: Path) -> str:
    """Read a file's text without its last line break; `setting` names it in errors.

    Raises:
        ConfigurationError: the file cannot be read, is empty, or is not UTF-8 text.
    """
    try:
        text = path.read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
    else:
        if text:
            return text
        reason = "it is empty"
    raise ConfigurationError(f"{setting}: cannot read {str(path)!r}: {reason}")


def _is_named_secret(name: str) -> bool:
    return _NAME.search(_by_dots(name)) is not None


def _is_proxy(name: str) -> bool:
    return _by_dots(name) == _PROXY


def _by_dots(name: str) -> str:
    return re.sub("[_-]", ".", name.strip().lower())
