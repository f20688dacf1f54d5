"""The conditions for access to a server of the tables: open on this machine, guarded elsewhere.

A server answers only to its own host names, see `streaming.http.own_names`. If it listens on
another address than 127.0.0.1, it asks for a token, or trusts the header of a reverse proxy.
"""

from __future__ import annotations

import hmac
from base64 import b64decode
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

from streaming.errors import ConfigurationError
from streaming.http.own_names import HostNames, is_loopback

SHORTEST_TOKEN: Final = 16
HOST_ADVICE: Final = "Use localhost, an IP address, or a name set with --allowed-host."
PROXY_ADVICE: Final = "Use the address of the reverse proxy: this request lacks its header."


@dataclass(frozen=True, slots=True)
class AccessRules:
    """The conditions for access to a server.

    Args:
        host: the address to listen on.
        token: entered once per browser, or sent with each request: as a bearer token, or as the
            password of HTTP Basic, with any user name.
        auth_header: a header that a reverse proxy adds to each authenticated request.
        allowed_hosts: host names to accept besides localhost, `host` and IP addresses.

    Raises:
        ConfigurationError: the server would be open to other machines without a token or a proxy,
            the token is short enough to guess, or a name is not a host name.
    """

    host: str
    token: str | None = None
    auth_header: str | None = None
    allowed_hosts: tuple[str, ...] = ()
    names: HostNames = field(init=False)

    def __post_init__(self) -> None:
        if any(given is not None and not given.strip() for given in (self.token, self.auth_header)):
            raise ConfigurationError("the token or the header name is empty")
        if self.token is not None and len(self.token) < SHORTEST_TOKEN:
            raise ConfigurationError(
                f"the token has {len(self.token)} characters and needs at least {SHORTEST_TOKEN}; "
                "`openssl rand -hex 16` generates one"
            )
        if self.token is None and self.auth_header is None and not is_loopback(self.host):
            raise ConfigurationError(
                f"on {self.host} other machines could read the tables: set a token "
                "(COORDINATOR_STATE_TOKEN, or token in the config file), or --auth-header for a "
                "reverse proxy that authenticates users"
            )
        names = HostNames((self.host, *self.allowed_hosts), advice=HOST_ADVICE)
        object.__setattr__(self, "names", names)

    def has_token(self, authorization: str) -> bool:
        """Whether the header `Authorization` has the token."""
        scheme, _, given = authorization.partition(" ")
        if scheme.lower() == "basic":
            with suppress(ValueError):
                _, _, password = b64decode(given).decode().partition(":")
                return self.is_token(password)
        return scheme.lower() == "bearer" and self.is_token(given)

    def is_token(self, given: str) -> bool:
        """Whether this is the token.

        Wrong tokens are not limited: whoever reaches the limit would lock out the right token.
        """
        # Digests have one length, so the time of a comparison does not reveal the token's length.
        digests = (sha256(text.encode()).digest() for text in (given, self.token or ""))
        return hmac.compare_digest(*digests)
