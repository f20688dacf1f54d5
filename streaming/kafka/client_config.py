"""Kafka client settings by name: `--kafka KEY=VALUE` and the options `kafka.KEY` of the source.

A name is Kafka's property name (`security.protocol`) or kafka-python's (`ssl_cafile`); dots and
underscores are equivalent. The known settings and their types come from kafka-python's defaults, so
the result fits its connection manager, admin client, consumer and producer. The OAUTHBEARER
settings are Kafka's. Certificates and keys are PEM files.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from kafka.admin import KafkaAdminClient
from kafka.net.manager import KafkaConnectionManager
from kafka.net.sasl import SASL_MECHANISMS

from streaming.errors import ConfigurationError
from streaming.kafka import access_tokens
from streaming.kafka.secrets import Secret, is_secret, other_ways, read_secret, require_text

# Settings that are Python objects, or that have their own option.
_NOT_BY_NAME: Final = {
    "bootstrap_servers",
    "sasl_oauth_token_provider",
    "socket_options",
    "ssl_context",
}
_DEFAULTS: Final[dict[str, Any]] = {
    name: default
    for name, default in KafkaConnectionManager.DEFAULT_CONFIG.items()
    if name in KafkaAdminClient.DEFAULT_CONFIG and name not in _NOT_BY_NAME
}
_KNOWN: Final[dict[str, Any]] = _DEFAULTS | dict.fromkeys(access_tokens.SETTINGS)

_PROXY: Final = "proxy_url"
_PROXY_SCHEMES: Final = ("http", "socks5", "socks5h")
_SECRETS: Final = (access_tokens.CLIENT_SECRET, _PROXY, "sasl_plain_password", "ssl_password")
_WAYS: Final = ("file", "env")
_FILES: Final = ("ssl_cafile", "ssl_certfile", "ssl_keyfile", "ssl_crlfile")
_OAUTHBEARER: Final = "OAUTHBEARER"
_SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

# Names in the Java client and librdkafka of settings that kafka-python names differently.
_OTHER_NAMES: Final = {
    "sasl_oauthbearer_client_id": access_tokens.CLIENT_ID,
    "sasl_oauthbearer_client_secret": access_tokens.CLIENT_SECRET,
    "sasl_password": "sasl_plain_password",
    "sasl_username": "sasl_plain_username",
    "ssl_ca_location": "ssl_cafile",
    "ssl_certificate_location": "ssl_certfile",
    "ssl_crl_location": "ssl_crlfile",
    "ssl_key_location": "ssl_keyfile",
    "ssl_key_password": "ssl_password",
}
_HOSTNAME_CHECK: Final = "ssl_endpoint_identification_algorithm"

_USE_PEM: Final = "use ssl.cafile, ssl.certfile and ssl.keyfile with PEM files"
_REFUSED: Final = {
    "bootstrap_servers": "use --bootstrap-servers",
    "sasl_jaas_config": "use sasl.plain.username and sasl.plain.password.file",
    "sasl_oauth_token_provider": "use sasl.oauthbearer.token.endpoint.url",
    "ssl_keystore_location": _USE_PEM,
    "ssl_keystore_password": _USE_PEM,
    "ssl_truststore_location": _USE_PEM,
    "ssl_truststore_password": _USE_PEM,
}


def kafka_client_config(options: Mapping[str, str]) -> dict[str, Any]:
    """Convert settings by name to keyword arguments of kafka-python's clients.

    A secret (a password, `proxy_url`) can come from a file or an environment variable:
    `sasl.plain.password.file`, `sasl.plain.password.env`.

    >>> kafka_client_config({"request.timeout.ms": "5000", "ssl_check_hostname": "false"})
    {'request_timeout_ms': 5000, 'ssl_check_hostname': False}

    Raises:
        ConfigurationError: an unknown name, a value of the wrong type, a missing file, or
            contradictory security settings. The message never contains a secret.
    """
    config: dict[str, Any] = {}
    for name, text in options.items():
        setting, value = _read_setting(name, text)
        if setting in config:
            raise ConfigurationError(f"Kafka setting {name!r} is given twice")
        config[setting] = value
    _check_security(config)
    tokens: dict[str, str] = {
        name: config.pop(name) for name in access_tokens.SETTINGS if name in config
    }
    if config.get("sasl_mechanism") == _OAUTHBEARER:
        config["sasl_oauth_token_provider"] = access_tokens.access_tokens(tokens)
    elif tokens:
        raise ConfigurationError(
            f"{next(iter(tokens)).replace('_', '.')} needs sasl.mechanism {_OAUTHBEARER}"
        )
    return config


def _read_setting(name: str, text: str) -> tuple[str, Any]:
    # kafka-python encodes other settings, such as the user name, together with the password.
    require_text(name, text)
    setting = name.strip().lower().replace(".", "_").replace("-", "_")
    named, _, way = setting.rpartition("_")
    is_elsewhere = way in _WAYS
    plain = named if is_elsewhere else setting
    if plain in _REFUSED:
        raise ConfigurationError(f"Kafka setting {name!r} is not supported: {_REFUSED[plain]}")
    if setting == _HOSTNAME_CHECK:
        if text not in ("", "https"):
            raise ConfigurationError(f"Kafka setting {name!r} must be 'https' or empty")
        return "ssl_check_hostname", text == "https"
    plain = _OTHER_NAMES.get(plain, plain)
    if plain in _SECRETS:
        secret = read_secret(name, way, text) if is_elsewhere else Secret(text)
        if plain == _PROXY:
            _check_proxy(name, secret)
        return plain, secret
    setting = _OTHER_NAMES.get(setting, setting)
    if setting not in _KNOWN:
        raise ConfigurationError(f"unknown Kafka setting {name!r}{_suggestion(setting)}")
    if is_secret(name, text):
        raise ConfigurationError(f"Kafka setting {name!r} is a secret: {other_ways(name)}")
    if setting in _FILES and not Path(text).is_file():
        raise ConfigurationError(f"Kafka setting {name!r}: no file {text!r}")
    return setting, _convert(name, text, _KNOWN[setting], is_version=setting == "api_version")


def _check_proxy(name: str, address: Secret) -> None:
    """Refuse an address that kafka-python cannot parse: its error would quote the address."""
    try:
        parts = urlsplit(address)
        is_good = parts.scheme in _PROXY_SCHEMES and parts.hostname and parts.port
    except ValueError:
        is_good = False
    if not is_good:
        raise ConfigurationError(
            f"Kafka setting {name!r} must be http:// or socks5://, [USER:PASSWORD@]HOST:PORT"
        )


def _convert(name: str, text: str, default: object, *, is_version: bool) -> Any:
    """Convert `text` to the type of the default; a setting without a default is a string."""
    try:
        if is_version:
            return tuple(int(part) for part in text.split("."))
        if isinstance(default, bool):
            return {"true": True, "false": False}[text.strip().lower()]
        if isinstance(default, int):
            return int(text)
    except (KeyError, ValueError):
        wanted = (
            "a version such as 3.9"
            if is_version
            else ("true or false" if isinstance(default, bool) else "a whole number")
        )
        raise ConfigurationError(f"Kafka setting {name!r} must be {wanted}, not {text!r}") from None
    return text


def _suggestion(setting: str) -> str:
    elsewhere = (f"{name}_{way}" for name in _SECRETS for way in _WAYS)
    known = [*_KNOWN, *_OTHER_NAMES, *elsewhere, _HOSTNAME_CHECK]
    nearest = difflib.get_close_matches(setting, known, n=3, cutoff=0.5)
    if not nearest:
        return ""
    return f"; similar settings: {', '.join(name.replace('_', '.') for name in nearest)}"


def _check_security(config: dict[str, Any]) -> None:
    """Refuse security settings that would fail in a handshake or leave a connection insecure."""
    protocol = str(config.get("security_protocol", "PLAINTEXT")).upper()
    if protocol not in _SECURITY_PROTOCOLS:
        raise ConfigurationError(
            f"security.protocol must be one of {', '.join(_SECURITY_PROTOCOLS)}, not {protocol!r}"
        )
    if "security_protocol" in config:
        config["security_protocol"] = protocol
    mechanism = config.get("sasl_mechanism", "")
    if not protocol.startswith("SASL_"):
        if mechanism:
            raise ConfigurationError(
                f"sasl.mechanism needs security.protocol SASL_SSL or SASL_PLAINTEXT, not {protocol}"
            )
    elif mechanism not in SASL_MECHANISMS:
        usable = ", ".join(sorted(SASL_MECHANISMS))
        raise ConfigurationError(
            f"security.protocol {protocol} needs sasl.mechanism, one of {usable}"
        )
    elif mechanism == "PLAIN" or mechanism.startswith("SCRAM-"):
        for name in ("sasl_plain_username", "sasl_plain_password"):
            if name not in config:
                raise ConfigurationError(
                    f"sasl.mechanism {mechanism} needs {name.replace('_', '.')}{_ways(name)}"
                )
    if not protocol.endswith("SSL"):
        _refuse_files_of_tls(config, protocol)


def _refuse_files_of_tls(config: Mapping[str, Any], protocol: str) -> None:
    for name in _FILES:
        if name in config:
            raise ConfigurationError(
                f"{name.replace('_', '.')} needs security.protocol SSL or SASL_SSL, not {protocol}"
            )


def _ways(name: str) -> str:
    """Return a hint about the `.file` and `.env` forms of a secret."""
    return f" (as {name.replace('_', '.')}.file or .env)" if name in _SECRETS else ""
