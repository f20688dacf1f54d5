"""Why a broker does not let a client in, and what to mend."""

from __future__ import annotations

import re
from typing import Final

from kafka import errors as kafka_errors

REFUSED_LOGINS: Final = (
    kafka_errors.IllegalSaslStateError,
    kafka_errors.SaslAuthenticationFailedError,
    kafka_errors.UnsupportedSaslMechanismError,
)

# Words of OpenSSL, and of the alerts that it is sent (RFC 8446, section 6.2).
_TLS_FAULT: Final = re.compile(r"Handshake failed|\[SSL: \w*ALERT|\[SSL: TLSV")
_TLS_ADVICE: Final = (
    (
        r"Hostname mismatch|IP address mismatch",
        "the broker's certificate is for other names: give --bootstrap-servers, and the broker its "
        "advertised.listeners, by a name that is in it",
    ),
    (
        "CERTIFICATE_VERIFY_FAILED",
        "the broker's certificate is not trusted: --kafka ssl.cafile must name the PEM file of the "
        "authority that signed it",
    ),
    (
        "CERTIFICATE_REQUIRED|BAD_CERTIFICATE|CERTIFICATE_UNKNOWN|UNKNOWN_CA",
        "the broker wants a certificate of this client that it trusts: --kafka ssl.certfile and "
        "ssl.keyfile",
    ),
)
_ANY_ADVICE: Final = "check --kafka security.protocol and the ssl.* settings"


def is_tls_fault(error: Exception) -> bool:
    """Whether a connection came to its end in TLS."""
    return _TLS_FAULT.search(str(error)) is not None


def tls_advice(error: Exception) -> str:
    """What to mend after a fault of TLS."""
    for fault, advice in _TLS_ADVICE:
        if re.search(fault, str(error)):
            return advice
    return _ANY_ADVICE


def login_advice(mechanism: str) -> str:
    """What to check when a login is refused."""
    if mechanism == "OAUTHBEARER":
        return (
            "the broker does not accept the token of --kafka sasl.oauthbearer.token.endpoint.url: "
            "check its audience, its scope and when it expires"
        )
    return "check --kafka security.protocol, sasl.mechanism, sasl.plain.username and its password"
