"""A canary as each kind of secret, through every way in and every refusal: it is never shown.

The tests search the text, repr and arguments of each error in the chain, tracebacks, all log
records, and both outputs of each command. The value of `.file` or `.env` is where a secret is, and
may be shown. `integration/test_secrets.py` searches the processes, pages and files of a run.
"""

from __future__ import annotations

import json
import logging
import os
import re
import traceback
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pytest
from pydantic import ValidationError

from streaming.alerts.rules import load_rules
from streaming.errors import ConfigurationError
from streaming.kafka import client_config
from streaming.kafka.client_config import kafka_client_config
from streaming.kafka.secrets import Secret
from streaming.run.settings import RunSettings
from streaming.source.options import SourceOptions
from tests.support.brokers.token_endpoint import CLIENT_ID, token_endpoint
from tests.support.clients.command_line import COMMANDS, call

CANARY = "Kanarienvogel"
"""A part of each secret; letters alone, so that `repr`, JSON and addresses leave it as it is."""
SECRET = f"s3cret:{CANARY}/+ü\"'\\"
NOT_UTF_8 = b"s3cret-\xff" + CANARY.encode() + b"-\xfe"

_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{8,}")


def shows(text: str) -> bool:
    """Whether a text shows the canary: as it is, percent-encoded, as base64, hex or escapes."""
    return any(CANARY.lower() in form.lower() for form in _forms(text))


def _forms(text: str) -> Iterator[str]:
    yield text
    yield unquote(text)
    yield re.sub(
        r"\\x([0-9a-f]{2})|\\u00([0-9a-f]{2})|([0-9a-f]{2})[ :]?",
        lambda code: chr(int(next(filter(None, code.groups())), 16)),
        text,
        flags=re.IGNORECASE,
    )
    for word in _BASE64.findall(text):
        plain = word.replace("-", "+").replace("_", "/")
        for start in range(4):
            part = plain[start : start + (len(plain) - start) // 4 * 4]
            yield b64decode(part).decode("latin-1")


def texts_of(error: BaseException) -> Iterator[str]:
    """Everything that a log or a traceback could show of an error and of those behind it."""
    yield "".join(traceback.format_exception(error))
    shown: BaseException | None = error
    while shown is not None:
        yield from (str(shown), repr(shown), repr(shown.args))
        details = getattr(shown, "errors", None)
        yield repr(details()) if callable(details) else ""
        shown = shown.__cause__ or (None if shown.__suppress_context__ else shown.__context__)


ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
PEM = f"-----BEGIN PRIVATE KEY-----\n{CANARY}\n-----END PRIVATE KEY-----\n"

# Every setting whose name says that it is a secret: known ones, those of other clients, those that
# are refused, and two that do not exist.
NAMED = sorted(
    {
        *(name for name in client_config._SECRETS if name != "proxy_url"),
        *(name for name, known in client_config._OTHER_NAMES.items() if "password" in known),
        "sasl_jaas_config",
        "ssl_keystore_key",
        "ssl_keystore_password",
        "ssl_truststore_password",
        "sasl_plain_passwd",
        "my_secret",
    }
)
# Each in one spelling: as kafka-python's, with dots, or in other letters. One is known by its dot.
SPELT = [
    *("ssl_keystore_key", "SSL-KEYSTORE-KEY"),
    *(
        (name, name.replace("_", "."), name.replace("_", "-").upper())[number % 3]
        for number, name in enumerate(NAMED)
    ),
]
# As password, as user, and in addresses that break a URL.
_ADDRESSES = [
    f"http://me:{CANARY}@proxy:3128",
    f"http://{CANARY}@proxy:3128",
    f"http://me:{quote('/')}{CANARY}@proxy:3128",
    f"http://me:a/{CANARY}@proxy:3128",
    f"http://me:a?{CANARY}@proxy:3128",
    f"socks5://me:{CANARY}@proxy",
    f"me:{CANARY}@proxy:3128",
    f"http://me:x@{CANARY}:y@proxy",
]
# Settings whose value says so.
BY_VALUE = [
    *(("proxy.url", address) for address in _ADDRESSES),
    ("PROXY_URL", _ADDRESSES[0]),
    (ENDPOINT, f"https://{CANARY}@idp/token"),
    (ENDPOINT, f"https://me:{CANARY}@idp/token"),
    ("ssl.keyfile", PEM),
    ("ssl.cafile", PEM),
    ("client.id", PEM),
]

NEEDED: dict[str, Any] = {"bootstrap_servers": "localhost:9092", "tables": "tables"}


@pytest.fixture(autouse=True)
def _nothing_is_logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Every test of this file ends with a look at all log records, arguments included."""
    caplog.set_level(logging.DEBUG)
    yield
    for record in caplog.records:
        assert not shows(record.getMessage())
        assert not shows(repr(record.args))
        if record.exc_info and record.exc_info[1]:
            assert not any(map(shows, texts_of(record.exc_info[1])))


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable that tests set is gone after the test."""
    monkeypatch.setenv("THE_VARIABLE", "")


def refused(call: Callable[[], object], kind: type[Exception] = ConfigurationError) -> str:
    """The text of a refusal that shows no secret."""
    with pytest.raises(kind) as caught:
        call()
    shown = [text for text in texts_of(caught.value) if shows(text)]
    assert shown == []
    return str(caught.value)


# --- Python and Spark


@pytest.mark.parametrize(("name", "value"), [*((name, SECRET) for name in SPELT), *BY_VALUE])
def test_every_way_in_refuses_a_secret(name: str, value: str) -> None:
    assert name in refused(lambda: RunSettings(**NEEDED, kafka={name: value}))
    refused(lambda: RunSettings.checked(**NEEDED, kafka={name: value}))
    # Whatever else is wrong.
    refused(lambda: RunSettings.checked(kafka={name: value}, tables=1, colour="red"))
    refused(lambda: RunSettings.checked(**NEEDED, kafka={"client.id": 5, name: value}))
    options = {"kafka.bootstrap.servers": "localhost:9092", f"kafka.{name}": value}
    refused(lambda: SourceOptions.read(options))
    shown = all_that_a_command_shows(*ARGUMENTS["run"], *BROKER, "--kafka", f"{name}={value}")
    assert f"{name} is a secret" in shown


@pytest.mark.parametrize(
    "kafka",
    [
        SECRET,
        [SECRET],
        ("sasl.plain.password", SECRET),
        {"sasl.plain.password": [SECRET]},
        {"sasl.plain.password": SECRET.encode()},
        {"sasl.plain.password": {"value": SECRET}},
        {"sasl.plain.password": Secret(SECRET)},
        {"proxy.url": Secret(f"http://{CANARY}@proxy:1")},
        {"proxy.url": [f"http://{CANARY}@proxy:1"]},
    ],
    ids=repr,
)
def test_the_settings_of_a_run_take_no_secret_of_another_type(kafka: Any) -> None:
    refused(lambda: RunSettings(**NEEDED, kafka=kafka))
    refused(lambda: RunSettings.checked(**NEEDED, kafka=kafka))


def test_the_text_of_an_error_of_pydantic_shows_no_setting_of_kafka() -> None:
    """Not even one that is no secret by its name or value, but may be one all the same."""
    with pytest.raises(ValidationError, match="bootstrap_servers") as caught:
        RunSettings(bootstrap_servers="nowhere", tables="tables", kafka={"x": SECRET})
    assert not shows(str(caught.value) + repr(caught.value))
    refused(lambda: RunSettings.checked(kafka={"x": SECRET}))


@pytest.mark.parametrize("name", SPELT)
@pytest.mark.parametrize("way", ["", ".file", ".env"])
def test_clients_are_told_in_ways_that_show_nothing(name: str, way: str, tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text(SECRET)
    os.environ["THE_VARIABLE"] = SECRET
    given = {"": SECRET, ".file": str(file), ".env": "THE_VARIABLE"}[way]
    for others in ({}, {"zzz": "1"}, {"security.protocol": "SSL", "sasl.mechanism": "PLAIN"}):
        hidden_or_refused({f"{name}{way}": given, **others})


def test_an_address_or_a_key_with_a_secret_is_hidden_or_refused() -> None:
    for name, value in BY_VALUE:
        assert set(hidden_or_refused({name: value})) <= {"proxy_url"}


def hidden_or_refused(settings: dict[str, str]) -> dict[str, Any]:
    """The arguments of a client, which show no secret; none if the settings are refused."""
    try:
        config = kafka_client_config(settings)
    except ConfigurationError:
        refused(lambda: kafka_client_config(settings))
        return {}
    assert not shows(repr(config) + str(config))
    return config


ALL_SETTINGS = sorted({*client_config._KNOWN, *client_config._OTHER_NAMES, "zzz"})


@pytest.mark.parametrize("name", ALL_SETTINGS)
def test_no_setting_takes_what_is_not_utf_8(name: str, tmp_path: Path) -> None:
    """Any of them would be encoded together with the password, in an error whose repr has both."""
    text = NOT_UTF_8.decode("utf-8", "surrogateescape")
    (tmp_path / "secret").write_bytes(NOT_UTF_8)
    os.environb[b"THE_VARIABLE"] = NOT_UTF_8
    ways = {"": text, "_file": str(tmp_path / "secret"), "_env": "THE_VARIABLE"}
    settings = [{f"{name}{way}": given} for way, given in ways.items()]
    for setting in (*settings, {name: f"a\0{CANARY}"}):
        refused(partial(kafka_client_config, setting))


@pytest.mark.parametrize("secret", [SECRET, "plain-" + CANARY])
def test_what_a_token_endpoint_answers_is_not_repeated(secret: str) -> None:
    """It may echo what it was sent."""
    with token_endpoint() as endpoint:
        endpoint.refusal = {"error": secret, "error_description": secret}
        provider = kafka_client_config(
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
            | {ENDPOINT: f"{endpoint.url}?tenant={CANARY}"}
            | {"sasl.oauthbearer.client.credentials.client.id": CLIENT_ID}
            | {"sasl.oauthbearer.client.credentials.client.secret": secret}
        )["sasl_oauth_token_provider"]
        for endpoint.answer in (200, 302, 400, 401, 403, 429, 503):
            refused(provider.token, Exception)


# --- The command line

ARGUMENTS: Mapping[str, tuple[str, ...]] = {
    "run": ("run", "--tables", "tables"),
    "verify": ("verify", "--tables", "tables"),
    "decode": ("decode",),
    "simulate": ("simulate",),
    "partition-for": ("partition-for", "g"),
}
BROKER = ("--bootstrap-servers", "127.0.0.1:1")


def all_that_a_command_shows(*arguments: str, **options: Any) -> str:
    result = call(*arguments, "--verbose", exit_code=2, **options)
    assert not shows(result.output)
    return result.output


def test_every_command_with_kafka_settings_is_here() -> None:
    with_kafka = {
        name
        for name, command in COMMANDS.items()
        if "kafka" in {option.name for option in command.params}
    }
    assert with_kafka == set(ARGUMENTS)


@pytest.mark.parametrize(
    ("command", "log_format"), [*zip(ARGUMENTS, cycle(["text", "json"]), strict=False)]
)
def test_no_command_repeats_a_secret(command: str, log_format: str) -> None:
    arguments = (*ARGUMENTS[command], "--log-format", log_format)
    for pair in (f"sasl.plain.password={SECRET}", SECRET, f"={SECRET}", f"a:{SECRET}"):
        all_that_a_command_shows(*arguments, *BROKER, "--kafka", pair)
    for address in (f"me:{CANARY}@127.0.0.1:1", f"127.0.0.1:1,{CANARY}@127.0.0.1"):
        all_that_a_command_shows(*arguments, "--bootstrap-servers", address)


@pytest.mark.parametrize(
    "variable",
    [
        SECRET,
        json.dumps([SECRET]),
        json.dumps(SECRET),
        json.dumps({"sasl.plain.password": SECRET})[:-1],
        json.dumps({"sasl.plain.password": f"{CANARY}\ud800"}),
        json.dumps({"sasl.plain.password": f"{CANARY}\0"}),
        json.dumps({"sasl.plain.password": SECRET, "zzz": "1"}),
        json.dumps({"sasl.plain.password": SECRET, "sasl_plain_password.file": "/no/such"}),
        json.dumps({"ssl.keyfile": PEM}),
        json.dumps({ENDPOINT: f"https://{CANARY}@idp/token"}),
    ],
)
def test_the_variable_of_the_settings_is_not_repeated(variable: str) -> None:
    for command in ("run", "verify"):
        all_that_a_command_shows(
            *ARGUMENTS[command], *BROKER, env={"COORDINATOR_STATE_KAFKA": variable}
        )


@pytest.mark.parametrize(
    "content",
    [
        f'kafka = "{CANARY}"',
        f'kafka = ["{CANARY}"]',
        f"[kafka]\nsasl.plain.password = {CANARY}",
        f'[kafka]\nsasl.plain.password = "{CANARY}',
        f'[kafka]\n"sasl.plain.password" = "{CANARY}\\q"',
        f'[kafka]\n"sasl.plain.password" = "{CANARY}\\u0000"',
        f'[kafka]\n"sasl.plain.password" = "{CANARY}"\n"sasl.plain.password" = "{CANARY}"',
        f'[kafka]\n"sasl.plain.password" = "{CANARY}"\n"client.id" = "a"\nclient_id = "b"',
        f'[kafka]\n"sasl.plain.password" = "{CANARY}"\n"security.protocol" = "TLS"',
        f'[kafka]\n"sasl.plain.passwort" = "{CANARY}"',
        f'[kafka]\n"ssl.keyfile" = """{PEM}"""',
        f'[kafka]\n"proxy.url" = "http://{CANARY}@a:b"',
        f'[kafka]\n"proxy.url" = "ftp://me:{CANARY}@a:1"',
        b'[kafka]\n"sasl.plain.password" = "' + NOT_UTF_8 + b'"',
    ],
)
def test_a_config_file_is_not_repeated(content: str | bytes, tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    all_that_a_command_shows(*ARGUMENTS["run"], *BROKER, "--config", str(file))


# --- Alert rules


@pytest.mark.parametrize(
    "sink",
    [
        "{type: webhook, url: '%s'}",
        "{type: webhook, url: 'https://h/x', headers: {Authorization: ['%s']}}",
        "{type: webhook, url: 'https://h/x', headers: '%s'}",
        "{type: slack, url: ['%s']}",
        "{type: slack, url: 'https://[%s'}",
        "{type: slack, url: 'http://user:%s\u2100@h/'}",
        "{type: slack, url: *%s}",
        "{type: pagerduty, routing_key: {a: '%s'}}",
        "{type: pagerduty, routing_key: '%s', url: nowhere}",
        "{type: email, host: h, user: u, password: ['%s'], from: a, to: b}",
        "{type: email, host: h, password: '%s', from: a, to: b}",
        "{type: email, host: h, user: u, password: '%s', from: a, to: b, colour: red}",
        "{type: slack, url: '%s', url: '%s'}",
        "{type: slack, url: '%s}",
    ],
)
def test_a_file_of_alert_rules_is_not_repeated(sink: str, tmp_path: Path) -> None:
    file = tmp_path / "alerts.yaml"
    for secret in (CANARY.encode(), NOT_UTF_8):
        (tmp_path / "secret").write_bytes(secret)
        os.environb[b"THE_VARIABLE"] = secret
        for way in (CANARY, f"${{file:{tmp_path}/secret}}", "${THE_VARIABLE}"):
            file.write_text(f"rules: []\nsinks:\n  mine: {sink.replace('%s', way)}\n")
            refused(lambda: load_rules(file))
