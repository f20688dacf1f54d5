"""Reasons for refused logins and TLS failures, and advice how to correct the settings."""

from __future__ import annotations

import re
from typing import Final

from kafka import errors as kafka_errors

REFUSED_LOGINS: Final = (
    kafka_errors.IllegalSaslStateError,
    kafka_errors.SaslAuthenticationFailedError,
    kafka_errors.UnsupportedSaslMechanismError,
)

# Error texts of OpenSSL, including the alerts that it receives (RFC 8446, section 6.2).
_TLS_FAULT: Final = re.compile(r"Handshake failed|\[SSL: \w*ALERT|\[SSL: TLSV")
_TLS_ADVICE: Final = (
    (
        r"Hostname mismatch|IP address mismatch",
        "the broker's certificate is for other names: use a name of the certificate in "
        "--bootstrap-servers and in the broker's advertised.listeners",
    ),
    (
        "CERTIFICATE_VERIFY_FAILED",
        "the broker's certificate is not trusted: --kafka ssl.cafile must be the PEM file of the "
        "authority that signed it",
    ),
    (
        "CERTIFICATE_REQUIRED|BAD_CERTIFICATE|CERTIFICATE_UNKNOWN|UNKNOWN_CA",
        "the broker requires a trusted client certificate: set --kafka ssl.certfile and "
        "ssl.keyfile",
    ),
)
_ANY_ADVICE: Final = "check --kafka security.protocol and the ssl.* settings"


def is_tls_fault(error: Exception) -> bool:
    """Return whether a connection failed in TLS."""
    return _TLS_FAULT.search(str(error)) is not None


def tls_advice(error: Exception) -> str:
    """Return advice for a TLS failure."""
    for fault, advice in _TLS_ADVICE:
        if re.search(fault, str(error)):
            return advice
    return _ANY_ADVICE


def login_advice(mechanism: str) -> str:
    """Return advice for a refused login."""
    if mechanism == "OAUTHBEARER":
        return (
            "the broker rejects the token of --kafka sasl.oauthbearer.token.endpoint.url: "
            "check its audience, its scope and when it expires"
        )
    return "check --kafka security.protocol, sasl.mechanism, sasl.plain.username and its password"
