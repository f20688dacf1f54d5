"""A secret that is easily found again, and every setting of Kafka clients that may hold it."""

from __future__ import annotations

import re
import traceback
from base64 import b64decode
from collections.abc import Iterator
from urllib.parse import quote, unquote

import pytest

from streaming.kafka import client_config

CANARY = "Kanarienvogel"
"""A part of each secret; letters alone, so that `repr`, JSON and addresses leave it as it is."""
SECRET = f"s3cret:{CANARY}/+ü\"'\\"
NOT_UTF_8 = b"s3cret-\xff" + CANARY.encode() + b"-\xfe"

_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{8,}")


def shows(text: str) -> bool:
    """Whether a text shows the canary: as it is, percent-encoded, as base64, hex or escapes.

    >>> from base64 import b64encode
    >>> shows(repr(SECRET)), shows(b64encode(SECRET.encode()).decode()), shows("none")
    (True, True, False)
    """
    return any(CANARY.lower() in form.lower() for form in _forms(text))


def _forms(text: str) -> Iterator[str]:
    yield text
    yield unquote(text)
    yield re.sub(
        r"\\x([0-9a-f]{2})|\\u00([0-9a-f]{2})|([0-9a-f]{2})[ :]?",
        lambda match: chr(int(next(filter(None, match.groups())), 16)),
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
SPELT = [
    spelt
    for name in NAMED
    for spelt in (name, name.replace("_", "."), name.replace("_", "-").upper())
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
SAID_OUTRIGHT = [*((name, SECRET) for name in SPELT), *BY_VALUE]
as_each = pytest.mark.parametrize(
    ("name", "value"),
    SAID_OUTRIGHT,
    ids=[f"{name}-{n}" for n, (name, _) in enumerate(SAID_OUTRIGHT)],
)
