"""The log client in front of a broker with an authorizer, TLS and SASL."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from typing import Any

import pytest
import trustme
from kafka.net.connection import KafkaConnection

from coordinator_state.insight.lag import PRESENT
from coordinator_state.records.internal_topics import OFFSETS_TOPIC
from streaming.errors import ConfigurationError
from streaming.kafka import fetch
from streaming.kafka.client_config import kafka_client_config
from streaming.kafka.fetch import LogClient
from streaming.kafka.group_admin import GroupAdmin
from streaming.kafka.loader_rules import ClusterRules
from streaming.kafka.log_offsets import LogOffsetsClient
from streaming.kafka.partition_offsets import TopicPartition
from streaming.local.broker.configuration import HOST
from streaming.local.broker.embedded import EmbeddedBroker
from tests.support.brokers.secured_broker import (
    READ_LOG,
    SCRAM_PASSWORD,
    SCRAM_USER,
    TLS_NAME,
    TOKEN_USER,
    SecuredBroker,
)
from tests.support.brokers.token_endpoint import (
    BY_CLIENT_CREDENTIALS,
    CLIENT_SECRET,
    token_endpoint,
    unsecured_token,
)
from tests.support.eventually import Eventually

pytestmark = pytest.mark.long


def assert_refused(client: LogClient, complaint: str) -> None:
    with closing(client), pytest.raises(ConfigurationError, match=complaint) as refused:
        client.describe()
    assert "-secret" not in str(refused.value)
    assert "\n" not in str(refused.value)


def test_who_may_not_read_the_log_is_told_why(secured_broker: SecuredBroker) -> None:
    login = secured_broker.client
    assert_refused(login("admin", "wrong-secret"), "refuses the login: .*Authentication failed")
    assert_refused(login("nobody", "nobody-secret"), "needs the ACLs Read and Describe on topic")
    assert_refused(login("admin", "admin-secret", "SCRAM-SHA-256"), "refuses the login")


def test_a_security_setting_that_does_not_fit_is_refused(
    secured_broker: SecuredBroker, broker: EmbeddedBroker
) -> None:
    without_login = LogClient(secured_broker.plain_address, first_contact_timeout_ms=500)
    assert_refused(without_login, r"check .*security\.protocol")
    config = kafka_client_config({"security.protocol": "SSL"})
    address = broker.bootstrap_servers
    assert_refused(LogClient(address, config), "no TLS connection to .* the ssl.. settings")


def test_every_mechanism_reads_and_asks(
    secured_broker: SecuredBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """And at the level of debugging nothing is logged of what a login sends."""
    for name in ("", "kafka.cluster", "kafka.net", "kafka.protocol"):
        caplog.set_level(logging.DEBUG, name or None)
    tls, mtls = secured_broker.tls_address, secured_broker.mtls_address
    with token_endpoint() as endpoint:
        logins = [
            ("reader", tls, secured_broker.plain("reader")),
            (SCRAM_USER, tls, secured_broker.scram()),
            (TOKEN_USER, tls, secured_broker.oauth()),
            (TOKEN_USER, tls, secured_broker.oauth(endpoint.url) | BY_CLIENT_CREDENTIALS),
            (TLS_NAME, mtls, secured_broker.mutual_tls()),
        ]
        for user, address, settings in logins:
            config = kafka_client_config(settings)
            with (
                secured_broker.allowing(user, READ_LOG, ("describe", "group", "*")),
                closing(LogClient(address, config)) as log,
                GroupAdmin(address, config) as admin,
                LogOffsetsClient(address, config) as log_offsets,
            ):
                assert len(log.high_watermarks()) == 50, user
                admin.await_coordinators(50)
                (sample,) = log_offsets.sample([TopicPartition(OFFSETS_TOPIC, 0)])
                assert sample.state == PRESENT, user
                rules = ClusterRules(address, config, "auto").known
                assert str(rules) == "coordinator of Kafka 4.4"
        assert len(endpoint.forms) == 1
    logged = caplog.text
    assert "reader" in logged and "SaslHandshakeRequest" in logged
    assert "SaslAuthenticate" not in logged
    for secret in ("reader-secret", "scram-secret", CLIENT_SECRET, "eyJhbGciOiAibm9uZSJ9"):
        assert secret not in logged


Wrong = Callable[[SecuredBroker], tuple[str, dict[str, str]]]


def _expired(broker: SecuredBroker) -> tuple[str, dict[str, str]]:
    settings = broker.oauth()
    broker.file("token", unsecured_token(TOKEN_USER, life_s=-100))
    return broker.tls_address, settings


def _untrusted(broker: SecuredBroker) -> tuple[str, dict[str, str]]:
    other = broker.folder / "other-ca.pem"
    trustme.CA().cert_pem.write_to_path(other)
    return broker.tls_address, broker.plain("reader") | {"ssl.cafile": str(other)}


def _without_certificate(broker: SecuredBroker) -> tuple[str, dict[str, str]]:
    settings = {"security.protocol": "SSL", "ssl.cafile": str(broker.certificate)}
    return broker.mtls_address, settings


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        (lambda b: (b.tls_address, b.scram("wrong-secret")), "refuses the login: .*its password"),
        (_expired, "refuses the login: .*sasl.oauthbearer.token.endpoint.url: check .*expires"),
        (_untrusted, "no TLS connection .* certificate is not trusted: --kafka ssl.cafile must"),
        (
            lambda b: (b.tls_address.replace(HOST, "localhost"), b.plain("reader")),
            "no TLS connection .* not valid for 'localhost'.*certificate is for other names",
        ),
        (
            _without_certificate,
            "requires a trusted client certificate: .*ssl.certfile and ssl.keyfile",
        ),
        (
            lambda b: (b.mtls_address, b.mutual_tls(trustme.CA())),
            "requires a trusted client certificate",
        ),
    ],
)
def test_what_is_wrong_with_a_login_is_told(
    secured_broker: SecuredBroker, wrong: Wrong, complaint: str
) -> None:
    address, settings = wrong(secured_broker)
    assert_refused(LogClient(address, kafka_client_config(settings)), complaint)


Steps = Generator[dict[str, str], None, None]
Fault = Callable[[SecuredBroker], Steps]
"""Three steps: it gives the settings, has logins fail, and has them work again."""


def _endpoint_refuses(broker: SecuredBroker) -> Steps:
    # A token of no life: each login asks for one.
    with token_endpoint() as endpoint:
        endpoint.life_s = 0
        yield broker.oauth(endpoint.url) | BY_CLIENT_CREDENTIALS
        endpoint.answer = 404
        yield {}
        endpoint.answer = 200
        yield {}


def _password_is_another(broker: SecuredBroker) -> Steps:
    yield broker.scram()
    broker.set_scram_password("another-secret")
    yield {}
    broker.set_scram_password(SCRAM_PASSWORD)
    yield {}


def _library_fails(broker: SecuredBroker) -> Steps:
    def send_request(*_arguments: Any, **_options: Any) -> None:
        raise KeyError("unexpected")

    yield broker.plain("reader")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(KafkaConnection, "send_request", send_request)
        yield {}
    yield {}


@pytest.mark.parametrize(
    ("fault", "complaint"),
    [
        (_endpoint_refuses, "refuses client .*404"),
        (_password_is_another, "refuses the login"),
        (_library_fails, "KeyError"),
    ],
)
def test_after_the_first_contact_a_refusal_is_waited_out(
    secured_broker: SecuredBroker,
    fault: Fault,
    complaint: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    eventually: Eventually,
) -> None:
    """By a client that has had contact, and by those of planner and workers, which start now."""
    address = secured_broker.tls_address
    faults = fault(secured_broker)
    settings = next(faults)
    config = kafka_client_config(settings)
    monkeypatch.setattr(fetch, "_shared_clients", {})
    # An error that was logged already is logged at DEBUG only.
    caplog.set_level(logging.DEBUG, "streaming.kafka.outage")

    def complaints() -> list[str]:
        lines = [record.getMessage() for record in caplog.records]
        return [line for line in lines if re.search(f"{complaint}.*, retrying in", line)]

    def ask_until_complaint() -> int:
        while True:
            answers = client.high_watermarks()
            if complaints():
                return len(answers)

    with ExitStack() as opened:
        for user in (TOKEN_USER, SCRAM_USER, "reader"):
            opened.enter_context(secured_broker.allowing(user, READ_LOG))
        opened.callback(faults.close)
        pool = opened.enter_context(ThreadPoolExecutor(2))
        client = opened.enter_context(closing(LogClient(address, config)))
        assert len(client.high_watermarks()) == 50
        next(faults)
        asking = pool.submit(ask_until_complaint)
        eventually(complaints, 120)
        assert_refused(LogClient(address, config), complaint)
        worker = fetch.shared_log_client(address, settings, retry_timeout_ms=300_000)
        opened.enter_context(closing(worker))
        also_asking = pool.submit(worker.high_watermarks)
        before = len(complaints())
        eventually(lambda: len(complaints()) > before + 2, 120)
        next(faults)
        assert (asking.result(120), len(also_asking.result(120))) == (50, 50)
