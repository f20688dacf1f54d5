"""An identity provider in tests: a real HTTP server that gives unsigned tokens (RFC 7515)."""

from __future__ import annotations

import json
import ssl
import time
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import ThreadingHTTPServer
from itertools import count
from urllib.parse import parse_qsl

import trustme

from tests.support.brokers.receivers import QuietHandler, serving

CLIENT_ID = "materializer"
CLIENT_SECRET = "client-credentials-hush"  # noqa: S105
BY_CLIENT_CREDENTIALS = {
    "sasl.oauthbearer.client.credentials.client.id": CLIENT_ID,
    "sasl.oauthbearer.client.credentials.client.secret": CLIENT_SECRET,
}
"""Settings of a client that asks a token endpoint."""
_LIFE_S = 3600


@dataclass
class TokenEndpoint:
    """Gives tokens of `CLIENT_ID` while `answer` is 200.

    `life_s` is the announced life of a token. Otherwise, and to others, it answers with `refusal`.
    """

    url: str
    authority: trustme.CA | None = None
    answer: int = 200
    life_s: int = _LIFE_S
    refusal: Mapping[str, str] = field(default_factory=lambda: {"error": "invalid_client"})
    forms: list[dict[str, str]] = field(default_factory=list)


@contextmanager
def token_endpoint(*, tls: bool = False) -> Iterator[TokenEndpoint]:
    """The server, while the block runs."""
    numbers = count()

    class Handler(QuietHandler):
        def do_POST(self) -> None:
            form = self.rfile.read(int(self.headers["Content-Length"])).decode()
            endpoint.forms.append(dict(parse_qsl(form)))
            login = b64decode(self.headers["Authorization"].removeprefix("Basic ")).decode()
            is_known = login == f"{CLIENT_ID}:{CLIENT_SECRET}"
            code = endpoint.answer if is_known or endpoint.answer != 200 else 401
            token = unsecured_token(CLIENT_ID, number=next(numbers))
            token_answer = {"access_token": token, "expires_in": endpoint.life_s}
            body = json.dumps(token_answer if code == 200 else endpoint.refusal).encode()
            self.answer(code, body, Location="http://127.0.0.1:1/")

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    authority = None
    if tls:
        authority = trustme.CA()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("127.0.0.1").configure_cert(context)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    scheme = "https" if tls else "http"
    endpoint = TokenEndpoint(f"{scheme}://127.0.0.1:{server.server_port}/token", authority)
    with serving(server):
        yield endpoint


def unsecured_token(subject: str, *, number: int = 0, life_s: int = _LIFE_S) -> str:
    """A JWT without a signature, as Kafka's unsecured validator takes it."""
    now = time.time()
    claims = {"sub": subject, "iat": now, "exp": now + life_s, "jti": str(number)}
    parts = [json.dumps(part).encode() for part in ({"alg": "none"}, claims)]
    return ".".join([*(urlsafe_b64encode(part).decode().rstrip("=") for part in parts), ""])
