"""The log client in front of a broker with an authorizer, TLS and SASL."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from kafka.admin import ACL, ACLOperation, ACLPermissionType, ResourcePattern, ResourceType

from coordinator_state.lag import PRESENT
from streaming.broker.configuration import HOST, free_ports
from streaming.broker.embedded import EmbeddedBroker
from streaming.errors import ConfigurationError
from streaming.java import find_java
from streaming.kafka.client_config import kafka_client_config
from streaming.kafka.fetch import OFFSETS_TOPIC, LogClient
from streaming.kafka.log_offsets import UNAUTHORISED, LogOffsetsClient, TopicPartition
from tests.admin_client import admin_of

JAAS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'user_admin="admin-secret" user_nobody="nobody-secret";'
)


@dataclass(frozen=True)
class SecuredBroker:
    """A broker that also listens with SASL/PLAIN, in the clear and over TLS.

    Its ACLs give nothing to anyone but the admin, and to those who do not log in.
    """

    broker: EmbeddedBroker
    plain_address: str
    tls_address: str
    certificate: Path

    def config(
        self, user: str, password: str, *, tls: bool = False, **settings: str
    ) -> dict[str, Any]:
        options = {
            "security.protocol": "SASL_SSL" if tls else "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.plain.username": user,
            "sasl.plain.password": password,
            **({"ssl.cafile": str(self.certificate)} if tls else {}),
            **{name.replace("_", "."): text for name, text in settings.items()},
        }
        return kafka_client_config(options)

    def client(self, user: str, password: str, *, tls: bool = False, **settings: str) -> LogClient:
        return LogClient(
            self.tls_address if tls else self.plain_address,
            self.config(user, password, tls=tls, **settings),
            first_contact_timeout_ms=2_000,
        )


@pytest.fixture(scope="module")
def secured_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    folder = tmp_path_factory.mktemp("secured-broker")
    keystore, certificate = folder / "broker.p12", folder / "broker.pem"
    store = ("-alias", "broker", "-keystore", str(keystore), "-storepass", "changeit")
    keytool(
        *("-genkeypair", *store, "-keyalg", "EC", "-dname", "CN=broker"),
        *("-ext", f"SAN=ip:{HOST}", "-storetype", "PKCS12"),
    )
    keytool("-exportcert", *store, "-rfc", "-file", str(certificate))
    ports = dict(zip(("PLAINTEXT", "SASL", "TLS", "CONTROLLER"), free_ports(4), strict=True))
    listeners = {name: f"{name}://{HOST}:{port}" for name, port in ports.items()}
    advertised = [text for name, text in listeners.items() if name != "CONTROLLER"]
    properties = {
        "listeners": ",".join(listeners.values()),
        "advertised.listeners": ",".join(advertised),
        "controller.quorum.voters": f"1@{HOST}:{ports['CONTROLLER']}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,"
        "TLS:SASL_SSL,CONTROLLER:PLAINTEXT",
        "listener.name.sasl.plain.sasl.jaas.config": JAAS,
        "listener.name.tls.plain.sasl.jaas.config": JAAS,
        "listener.name.tls.ssl.keystore.location": keystore,
        "listener.name.tls.ssl.keystore.password": "changeit",
        "sasl.enabled.mechanisms": "PLAIN",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:admin",
    }
    with EmbeddedBroker(
        folder=folder / "broker", port=ports["PLAINTEXT"], properties=properties
    ) as broker:
        broker.create_offsets_topic()
        yield SecuredBroker(
            broker=broker,
            plain_address=f"{HOST}:{ports['SASL']}",
            tls_address=f"{HOST}:{ports['TLS']}",
            certificate=certificate,
        )


def keytool(*arguments: str) -> None:
    subprocess.run([find_java().with_name("keytool"), *arguments], check=True, capture_output=True)


def assert_refused(client: LogClient, complaint: str) -> None:
    with closing(client), pytest.raises(ConfigurationError, match=complaint) as refused:
        client.describe()
    assert "secret" not in str(refused.value)
    assert "\n" not in str(refused.value)


def test_who_may_not_read_the_log_is_told_why(secured_broker: SecuredBroker) -> None:
    login = secured_broker.client
    for tls in (False, True):
        with closing(login("admin", "admin-secret", tls=tls)) as client:
            assert len(client.high_watermarks()) == 50
            assert len(client.log_sizes()) == 50
        assert_refused(
            login("admin", "wrong-secret", tls=tls), "refuses the login: .*Authentication failed"
        )
        assert_refused(
            login("nobody", "nobody-secret", tls=tls), "needs the ACLs Read and Describe on topic"
        )
    assert_refused(
        login("admin", "admin-secret", sasl_mechanism="SCRAM-SHA-256"), "refuses the login"
    )
    describing_only(secured_broker.broker, "nobody")
    with closing(login("nobody", "nobody-secret")) as client:
        assert client.log_sizes() == {}
        with pytest.raises(ConfigurationError, match="ACLs Read and Describe"):
            client.fetch({0: 0})


def test_a_security_setting_that_does_not_fit_is_refused(
    secured_broker: SecuredBroker, broker: EmbeddedBroker
) -> None:
    for address in (secured_broker.plain_address, secured_broker.tls_address):
        assert_refused(
            LogClient(address, first_contact_timeout_ms=500), r"check .*security\.protocol"
        )
    config = kafka_client_config({"security.protocol": "SSL"})
    for address in (broker.bootstrap_servers, secured_broker.tls_address):
        assert_refused(LogClient(address, config), "no TLS connection to .* the ssl.. settings")
    empty = secured_broker.certificate.with_name("empty.pem")
    empty.touch()
    with pytest.raises(ConfigurationError, match="cannot use the files"):
        secured_broker.client("admin", "admin-secret", tls=True, ssl_cafile=str(empty))


def test_logs_that_may_not_be_described_are_a_state(secured_broker: SecuredBroker) -> None:
    with admin_of(secured_broker.broker) as admin:
        admin.create_topics({"secret": {"num_partitions": 1, "replication_factor": 1}})
    asked = [TopicPartition("secret", 0)]
    states = []
    for user in ("admin", "nobody"):
        config = secured_broker.config(user, f"{user}-secret")
        with LogOffsetsClient(secured_broker.plain_address, config) as client:
            states += [found.state for found in client.sample(asked)]
    assert states == [PRESENT, UNAUTHORISED]


def describing_only(broker: EmbeddedBroker, user: str) -> None:
    with admin_of(broker) as admin:
        admin.create_acls(
            [
                ACL(
                    principal=f"User:{user}",
                    host="*",
                    operation=ACLOperation.DESCRIBE,
                    permission_type=ACLPermissionType.ALLOW,
                    resource_pattern=ResourcePattern(ResourceType.TOPIC, OFFSETS_TOPIC),
                )
            ]
        )
