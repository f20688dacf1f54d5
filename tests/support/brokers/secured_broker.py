"""A broker with an authorizer, and every way to log in to it.

Listener SASL is SASL/PLAIN in the clear, TLS has PLAIN, SCRAM-SHA-512 and OAUTHBEARER, MTLS wants a
certificate of the client. Its ACLs give nothing to anyone but `admin`, and to those who come by the
plain listener without a login.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from coordinator_state.records.internal_topics import OFFSETS_TOPIC
from streaming.kafka.client_config import kafka_client_config
from streaming.kafka.fetch import LogClient
from streaming.local.broker.configuration import HOST
from streaming.local.broker.embedded import EmbeddedBroker
from tests.support.brokers.commits import admin_of
from tests.support.brokers.embedded_cluster import free_ports
from tests.support.brokers.token_endpoint import CLIENT_ID, unsecured_token
from tests.support.eventually import wait_until

PASSWORDS = {"admin": "admin-secret", "nobody": "nobody-secret", "reader": "reader-secret"}
SCRAM_USER, SCRAM_PASSWORD = "scrammer", "scram-secret"
TLS_NAME = "certified"
TOKEN_USER = CLIENT_ID
KEY_PASSWORD = "key-secret"  # noqa: S105
SESSION_MS = 1_500
READ_LOG = ("read", "topic", OFFSETS_TOPIC)
"""The permission without which nobody reads the log."""

_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required " + " ".join(
    f'user_{user}="{password}"' for user, password in PASSWORDS.items()
)
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
_OAUTH = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
    'unsecuredLoginStringClaim_sub="broker"'
)
_LISTENERS = ("PLAINTEXT", "SASL", "TLS", "MTLS", "CONTROLLER")


@dataclass(frozen=True)
class SecuredBroker:
    """The broker, where it listens, and the files that its clients have."""

    broker: EmbeddedBroker
    addresses: Mapping[str, str]
    folder: Path
    authority: trustme.CA

    @property
    def plain_address(self) -> str:
        """SASL/PLAIN in the clear."""
        return self.addresses["SASL"]

    @property
    def tls_address(self) -> str:
        """SASL over TLS."""
        return self.addresses["TLS"]

    @property
    def mtls_address(self) -> str:
        """TLS with a certificate of the client."""
        return self.addresses["MTLS"]

    @property
    def certificate(self) -> Path:
        """Of the authority that signed the broker's."""
        return self.folder / "ca.pem"

    def file(self, name: str, text: str) -> str:
        """The path of a file that holds a secret."""
        path = self.folder / name
        path.write_text(f"{text}\n")
        return str(path)

    def plain(self, user: str, password: str | None = None) -> dict[str, str]:
        """Settings by name: SASL/PLAIN over TLS with the password in a file."""
        password = PASSWORDS[user] if password is None else password
        return self._sasl("PLAIN", user, self.file(f"{user}-{hash(password)}", password))

    def scram(self, password: str = SCRAM_PASSWORD) -> dict[str, str]:
        """SCRAM-SHA-512 over TLS."""
        file = self.file(f"scram-{hash(password)}", password)
        return self._sasl("SCRAM-SHA-512", SCRAM_USER, file)

    def oauth(self, endpoint: str = "") -> dict[str, str]:
        """OAUTHBEARER over TLS: a token in a file, or of an endpoint."""
        token = Path(self.file("token", unsecured_token(TOKEN_USER)))
        return self._tls("SASL_SSL") | {
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": endpoint or token.as_uri(),
        }

    def mutual_tls(self, authority: trustme.CA | None = None) -> dict[str, str]:
        """A certificate of this client, whose key has a password, in a file too."""
        issued = (authority or self.authority).issue_cert(f"{TLS_NAME}.test", common_name=TLS_NAME)
        name = "other-client" if authority else "client"
        certificate, key = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        certificate.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        key.write_bytes(_pkcs8(issued, BestAvailableEncryption(KEY_PASSWORD.encode())))
        return self._tls("SSL") | {
            "ssl.certfile": str(certificate),
            "ssl.keyfile": str(key),
            "ssl.password.file": self.file("key-password", KEY_PASSWORD),
        }

    def _sasl(self, mechanism: str, user: str, password_file: str) -> dict[str, str]:
        return self._tls("SASL_SSL") | {
            "sasl.mechanism": mechanism,
            "sasl.plain.username": user,
            "sasl.plain.password.file": password_file,
        }

    def _tls(self, protocol: str) -> dict[str, str]:
        return {"security.protocol": protocol, "ssl.cafile": str(self.certificate)}

    def client(self, user: str, password: str, mechanism: str = "PLAIN") -> LogClient:
        """A log client that logs in in the clear."""
        options = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.plain.username": user,
            "sasl.plain.password": password,
        }
        config = kafka_client_config(options)
        return LogClient(self.plain_address, config, first_contact_timeout_ms=2_000)

    def set_scram_password(self, password: str) -> None:
        """Have the broker accept this password of `SCRAM_USER`, and no other."""
        login = UserScramCredentialUpsertion(SCRAM_USER, ScramMechanism.SCRAM_SHA_512, password)
        with admin_of(self.broker) as admin:
            admin.alter_user_scram_credentials([login])

    @contextmanager
    def allowing(self, user: str, *acls: tuple[str, str, str]) -> Iterator[None]:
        """Give a user ACLs while the block runs: (operation, kind of resource, its name)."""
        given = [_acl(f"User:{user}", *acl) for acl in acls]
        with admin_of(self.broker) as admin:
            admin.create_acls(given)
            # The controller has them now; the broker applies them a moment later.
            wait_until(lambda: len(self.acls_of(user)) >= len(given))
        with self.without_acls_afterwards(user):
            yield

    @contextmanager
    def without_acls_afterwards(self, user: str) -> Iterator[None]:
        """Take every ACL from a user at the end of the block."""
        try:
            yield
        finally:
            with admin_of(self.broker) as admin:
                admin.delete_acls([_any_of(f"User:{user}")])

    def acls_of(self, user: str) -> set[tuple[str, str, str]]:
        """The ACLs of a user: (operation, kind of resource, its name)."""
        with admin_of(self.broker) as admin:
            acls, _ = admin.describe_acls(_any_of(f"User:{user}"))
        return {
            (
                acl.operation.name.lower(),
                acl.resource_pattern.resource_type.name.lower(),
                acl.resource_pattern.resource_name,
            )
            for acl in acls
        }


@contextmanager
def running_secured_broker(folder: Path) -> Iterator[SecuredBroker]:
    """The broker, while the block runs."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.pem")
    issued = authority.issue_cert(HOST)
    keystore = folder / "broker.pem"
    keystore.write_bytes(
        _pkcs8(issued, NoEncryption()) + b"".join(blob.bytes() for blob in issued.cert_chain_pems)
    )
    ports = dict(zip(_LISTENERS, free_ports(len(_LISTENERS)), strict=True))
    listeners = {name: f"{name}://{HOST}:{port}" for name, port in ports.items()}
    advertised = [text for name, text in listeners.items() if name != "CONTROLLER"]
    properties: dict[str, object] = {
        "listeners": ",".join(listeners.values()),
        "advertised.listeners": ",".join(advertised),
        "controller.quorum.voters": f"1@{HOST}:{ports['CONTROLLER']}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,TLS:SASL_SSL,"
        "MTLS:SSL,CONTROLLER:PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl.plain.sasl.jaas.config": f"{_PLAIN};",
        "listener.name.tls.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512,OAUTHBEARER",
        "listener.name.tls.plain.sasl.jaas.config": f"{_PLAIN};",
        "listener.name.tls.scram-sha-512.sasl.jaas.config": f"{_SCRAM};",
        "listener.name.tls.oauthbearer.sasl.jaas.config": f"{_OAUTH};",
        # Clients log in again after nine tenths of it (KIP-368).
        "listener.name.tls.scram-sha-512.connections.max.reauth.ms": SESSION_MS,
        "listener.name.tls.oauthbearer.connections.max.reauth.ms": SESSION_MS,
        "listener.name.mtls.ssl.client.auth": "required",
        "listener.name.mtls.ssl.truststore.type": "PEM",
        "listener.name.mtls.ssl.truststore.location": folder / "ca.pem",
        "listener.name.mtls.ssl.principal.mapping.rules": r"RULE:^.*CN=([^,]+).*$/$1/",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:admin",
    }
    for listener in ("tls", "mtls"):
        properties |= {
            f"listener.name.{listener}.ssl.keystore.type": "PEM",
            f"listener.name.{listener}.ssl.keystore.location": keystore,
        }
    with EmbeddedBroker(
        folder=folder / "broker", port=ports["PLAINTEXT"], properties=properties
    ) as broker:
        broker.create_offsets_topic()
        addresses = {name: f"{HOST}:{port}" for name, port in ports.items()}
        secured = SecuredBroker(broker, addresses, folder, authority)
        secured.set_scram_password(SCRAM_PASSWORD)
        yield secured


def _pkcs8(issued: trustme.LeafCert, encryption: KeySerializationEncryption) -> bytes:
    """The private key in the form that Kafka takes."""
    key = load_pem_private_key(issued.private_key_pem.bytes(), None)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)


def _acl(principal: str, operation: str, kind: str, name: str) -> ACL:
    return ACL(
        principal=principal,
        host="*",
        operation=ACLOperation[operation.upper()],
        permission_type=ACLPermissionType.ALLOW,
        resource_pattern=ResourcePattern(ResourceType[kind.upper()], name),
    )


def _any_of(principal: str) -> ACLFilter:
    return ACLFilter(
        principal=principal,
        host=None,
        operation=ACLOperation.ANY,
        permission_type=ACLPermissionType.ANY,
        resource_pattern=ResourcePatternFilter(ResourceType.ANY, None, ACLResourcePatternType.ANY),
    )
