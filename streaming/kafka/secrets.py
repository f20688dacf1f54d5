"""Secrets among Kafka client settings: which they are, and the ways that they come in.

Spark shows the options of a query on its pages, in event logs and in the checkpoint, and `ps` shows
a command line. So a secret is named by a file or an environment variable, as `NAME.file` or
`NAME.env`, and read by each process that logs in, the executors among them. What a config file or
the environment says outright is put behind an environment variable of this process first.

Needs the standard library only, since every command reads these settings.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from streaming.errors import ConfigurationError

_NAME: Final = re.compile(r"(passw|passphrase|secret|jaas|keystore\.key)(?!.*\.(file|env)$)")
"""A name that ends in `.file` or `.env` holds where a secret is, which may be seen."""
_PROXY: Final = "proxy.url"
_VALUE: Final = re.compile(r"://.*@|PRIVATE KEY-", re.DOTALL)
"""An address with a user part, or a key in PEM. A password may hold a slash, so any `@` counts."""
_NO_TEXT: Final = re.compile("[\0\ud800-\udfff]")
_ENVIRONMENT_PREFIX: Final = "COORDINATOR_STATE_KAFKA_"


class Secret(str):
    """A password that shows itself to nobody; its characters are the password."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'***'"

    def __str__(self) -> str:
        return "***"

    def __format__(self, specification: str) -> str:
        return format("***", specification)


def is_secret(name: str, value: str = "") -> bool:
    """Whether the value of a Kafka client setting must not be shown.

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
    """How to give the setting without its value being shown."""
    if _is_named_secret(name) or _is_proxy(name):
        return f"give {name}.file=PATH or {name}.env=VARIABLE"
    return "give an address without a user or password, or the path of a PEM file"


def is_text(value: str) -> bool:
    """Whether a text can be sent: it has no NUL, and no character that UTF-8 does not have.

    Python decodes an argument or a variable that is not UTF-8 to such characters. A client that
    encodes them fails with an error whose repr is the whole text.
    """
    return _NO_TEXT.search(value) is None


def require_text(name: str, value: str) -> None:
    """Refuse a value that cannot be sent.

    Raises:
        ConfigurationError: names the setting, and shows nothing of the value.
    """
    if not is_text(value):
        raise ConfigurationError(f"Kafka setting {name!r} is not UTF-8 text")


def require_no_secret(settings: Mapping[str, str]) -> None:
    """Refuse a secret that is said outright to somebody who would show it.

    Raises:
        ConfigurationError: names the setting and the other ways to give it.
    """
    for name, value in settings.items():
        if is_secret(name, value):
            raise ConfigurationError(
                f"Kafka setting {name!r} is a secret, which Spark would show: {other_ways(name)}"
            )


def require_no_login(bootstrap_servers: str) -> None:
    """Refuse addresses with a user or password, which log lines would show.

    Raises:
        ConfigurationError: names the settings for a login, and shows nothing of the addresses.
    """
    if "@" in bootstrap_servers:
        raise ConfigurationError(
            "--bootstrap-servers must be HOST:PORT[,HOST:PORT...]: a login goes into --kafka "
            "sasl.plain.username and sasl.plain.password.file"
        )


def behind_environment(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings with each secret named as an environment variable, which is set.

    Raises:
        ConfigurationError: a secret that no variable can hold.
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
    """The secret in a file, without the end of its last line, or in an environment variable.

    Args:
        name: the setting, for errors.
        way: `file` or `env`.
        where: the path of the file, or the name of the variable.

    Raises:
        ConfigurationError: there is none, or it is no text.
    """
    value = read_file(name, Path(where)) if way == "file" else os.environ.get(where)
    if not value:
        raise ConfigurationError(
            f"Kafka setting {name!r}: the environment of this process has no {where}; an executor "
            "of a cluster has an environment of its own: give a file there"
        )
    require_text(name, value)
    return Secret(value)


def read_file(name: str, path: Path) -> str:
    """A file's text without the end of its last line.

    Raises:
        ConfigurationError: it cannot be read, it is empty, or it is no text.
    """
    try:
        text = path.read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
    else:
        if text:
            return text
        reason = "it is empty"
    raise ConfigurationError(f"Kafka setting {name!r}: cannot read {str(path)!r}: {reason}")


def _is_named_secret(name: str) -> bool:
    return _NAME.search(_by_dots(name)) is not None


def _is_proxy(name: str) -> bool:
    return _by_dots(name) == _PROXY


def _by_dots(name: str) -> str:
    return re.sub("[_-]", ".", name.strip().lower())
