"""Every setting of Kafka clients that is a secret by its name or its value."""

from __future__ import annotations

import pytest

from streaming.kafka import client_config
from tests.support.clients.canary import CANARY, SECRET, forms_of_a_user

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
SPELT = [
    spelt
    for name in NAMED
    for spelt in (name, name.replace("_", "."), name.replace("_", "-").upper())
]
# Settings whose value says so.
BY_VALUE = [
    *(("proxy.url", address) for address in forms_of_a_user()),
    ("PROXY_URL", forms_of_a_user()[0]),
    (ENDPOINT, f"https://{CANARY}@idp/token"),
    (ENDPOINT, f"https://me:{CANARY}@idp/token"),
    ("ssl.keyfile", PEM),
    ("ssl.cafile", PEM),
    ("client.id", PEM),
]
SAID_OUTRIGHT = [*((name, SECRET) for name in SPELT), *BY_VALUE]
as_each = pytest.mark.parametrize(
    ("name", "value"),
    SAID_OUTRIGHT,
    ids=[f"{name}-{n}" for n, (name, _) in enumerate(SAID_OUTRIGHT)],
)
