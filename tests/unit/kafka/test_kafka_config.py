"""Kafka settings by name: which are known, what they become, and that no secret shows."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.net.manager import KafkaConnectionManager

from streaming.errors import ConfigurationError
from streaming.kafka.client_config import kafka_client_config
from streaming.kafka.secrets import Secret

PASSWORD = "correct horse"  # noqa: S105
SASL = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.plain.username": "reader",
}

OAUTH = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
ENDPOINT = "sasl.oauthbearer.token.endpoint.url"


@pytest.mark.parametrize(
    ("name", "text", "setting", "value"),
    [
        ("request.timeout.ms", "5000", "request_timeout_ms", 5000),
        ("request_timeout_ms", "5000", "request_timeout_ms", 5000),
        ("Request.Timeout.MS", "5000", "request_timeout_ms", 5000),
        ("client.id", "materializer", "client_id", "materializer"),
        ("api_version", "3.9", "api_version", (3, 9)),
        ("security.protocol", "ssl", "security_protocol", "SSL"),
        ("ssl.check.hostname", "False", "ssl_check_hostname", False),
        ("ssl.endpoint.identification.algorithm", "", "ssl_check_hostname", False),
        ("ssl.endpoint.identification.algorithm", "https", "ssl_check_hostname", True),
        ("client.dns.lookup", "use_all_dns_ips", "client_dns_lookup", "use_all_dns_ips"),
        ("proxy.url", "http://proxy:3128", "proxy_url", "http://proxy:3128"),
        ("proxy-url", "socks5h://me:hush@[::1]:1080", "proxy_url", "socks5h://me:hush@[::1]:1080"),
    ],
)
def test_a_setting_becomes_a_typed_argument(
    name: str, text: str, setting: str, value: object
) -> None:
    assert kafka_client_config({name: text}) == {setting: value}


def test_names_of_other_clients_mean_the_same(tmp_path: Path) -> None:
    certificate = tmp_path / "ca.pem"
    certificate.touch()
    options = SASL | {"ssl.ca.location": str(certificate), "ssl.key.password": PASSWORD}
    del options["sasl.plain.username"]
    options |= {"sasl.username": "reader", "sasl.password": PASSWORD}
    assert kafka_client_config(options) == {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "reader",
        "sasl_plain_password": PASSWORD,
        "ssl_cafile": str(certificate),
        "ssl_password": PASSWORD,
    }


def test_every_client_of_kafka_python_knows_every_setting() -> None:
    from streaming.kafka import client_config as kafka_config

    for client in (KafkaAdminClient, KafkaConsumer, KafkaProducer, KafkaConnectionManager):
        assert set(kafka_config._DEFAULTS) <= set(client.DEFAULT_CONFIG)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"securty.protocol": "SSL"}, "unknown Kafka setting 'securty.protocol'; .*security.prot"),
        ({"zzz": "1"}, "^unknown Kafka setting 'zzz'$"),
        ({"request.timeout.ms": "soon"}, "'request.timeout.ms' must be a whole number, not 'soon'"),
        ({"ssl.check.hostname": "yes"}, "must be true or false"),
        ({"api.version": "new"}, "must be a version such as 3.9"),
        ({"ssl.endpoint.identification.algorithm": "http"}, "must be 'https' or empty"),
        ({"sasl.jaas.config": "x"}, "use sasl.plain.username and sasl.plain.password"),
        ({"ssl.truststore.location": "x.jks"}, "PEM files"),
        ({"bootstrap.servers": "x:1"}, "--bootstrap-servers"),
        ({"sasl.oauth.token.provider": "x"}, "use sasl.oauthbearer.token.endpoint.url"),
        ({"client.id": "a", "client_id": "b"}, "given twice"),
        ({"security.protocol": "TLS"}, "must be one of PLAINTEXT, SSL"),
        ({"security.protocol": "SSL", "ssl.cafile": "/no/such.pem"}, "no file '/no/such.pem'"),
        ({"security.protocol": "SASL_SSL"}, "needs sasl.mechanism, one of"),
        (OAUTH, "needs sasl.oauthbearer.token.endpoint.url"),
        (OAUTH | {ENDPOINT: "ftp://idp/token"}, "needs sasl.oauthbearer.token.endpoint.url"),
        (OAUTH | {ENDPOINT: "https://idp/token"}, "needs .*client.credentials.client.id"),
        ({ENDPOINT: "https://idp/token"}, "needs sasl.mechanism OAUTHBEARER"),
        ({"sasl.jaas.config.file": "x"}, "use sasl.plain.username and sasl.plain.password.file"),
        ({"request.timeout.ms.file": "x"}, "unknown Kafka setting 'request.timeout.ms.file'"),
        (SASL | {"sasl.plain.password.env": "NO_SUCH"}, "no environment variable NO_SUCH; exec"),
        ({"sasl.mechanism": "PLAIN"}, "needs security.protocol SASL_SSL"),
        (SASL, r"SCRAM-SHA-512 needs sasl.plain.password \(as sasl.plain.password.file or .env\)"),
        (SASL | {"sasl.plain.password.file": "/no/such"}, "cannot read '/no/such': No such file"),
        ({"proxy.url": "proxy:3128"}, "must be http:// or socks5://, .USER:PASSWORD@.HOST:PORT"),
        ({"proxy.url": "http://me:a/b@proxy:3128"}, "'proxy.url' must be http://"),
        ({"ssl.keyfile": "-----BEGIN PRIVATE KEY-----"}, "is a secret: .* the path of a PEM file"),
        ({ENDPOINT: "https://me@idp/token"}, "is a secret: use an address without a user"),
        ({"sasl.plain.username": "\udcff"}, "'sasl.plain.username' is not UTF-8 text"),
        ({"ssl.cafile": __file__}, "ssl.cafile needs security.protocol SSL"),
        (SASL | {"sasl.plain.password": "x", "sasl.plain.password.file": __file__}, "given twice"),
    ],
)
def test_what_cannot_work_is_refused_in_one_line(options: dict[str, str], complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint) as refused:
        kafka_client_config(options)
    assert "\n" not in str(refused.value)


def test_a_secret_is_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", PASSWORD)
    config = kafka_client_config(SASL | {"SASL_PLAIN_PASSWORD_ENV": "KAFKA_PASSWORD"})
    assert config["sasl_plain_password"] == PASSWORD
    assert PASSWORD not in repr(config)


@pytest.mark.parametrize("setting", ["sasl_plain_password", "ssl_password"])
def test_a_secret_is_read_from_its_file_without_the_line_end(tmp_path: Path, setting: str) -> None:
    file = tmp_path / "secret"
    file.write_text(f"{PASSWORD}\n")
    options = SASL | {"sasl.plain.password": "other"} if setting == "ssl_password" else SASL
    config = kafka_client_config({**options, f"{setting}_file": str(file)})
    assert config[setting] == PASSWORD


def test_a_secret_that_is_not_text_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    for content, complaint in ((b"\xff\xfe", "not UTF-8"), (b"\n", "it is empty")):
        file.write_bytes(content)
        with pytest.raises(ConfigurationError, match=complaint):
            kafka_client_config({**SASL, "sasl.plain.password.file": str(file)})


def shown(value: Any) -> list[str]:
    return [repr(value), str(value), f"{value}", f"{value!r}"]


def test_a_secret_shows_nowhere_and_is_still_the_secret() -> None:
    config = kafka_client_config(SASL | {"sasl.plain.password": PASSWORD})
    secret = config["sasl_plain_password"]
    for text in shown(config) + shown(secret):
        assert PASSWORD not in text
    assert secret.encode() == PASSWORD.encode()
    assert "\0".join(["reader", secret]) == f"reader\0{PASSWORD}"
    copy = pickle.loads(pickle.dumps(secret))  # noqa: S301
    assert copy == PASSWORD
    assert isinstance(copy, Secret)
