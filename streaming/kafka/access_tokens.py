"""Access tokens for SASL/OAUTHBEARER, with the settings of Kafka's own clients (KIP-768, KIP-1139).

A token comes from a file, which another program renews, or from an identity provider by the client
credentials grant (RFC 6749, section 4.4). A token with an expiry is cached for 80 % of its
lifetime, like `sasl.login.refresh.window.factor` of the Java client.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from kafka.errors import KafkaConnectionError
from kafka.net.sasl.oauth import AbstractTokenProvider

from streaming.errors import ConfigurationError
from streaming.kafka.secrets import Secret, read_file

if TYPE_CHECKING:
    import requests

# urllib3 logs addresses for a redirect or a malformed header.
logging.getLogger("urllib3").setLevel(logging.CRITICAL)

ENDPOINT: Final = "sasl_oauthbearer_token_endpoint_url"
CLIENT_ID: Final = "sasl_oauthbearer_client_credentials_client_id"
CLIENT_SECRET: Final = "sasl_oauthbearer_client_credentials_client_secret"  # noqa: S105
SCOPE: Final = "sasl_oauthbearer_scope"
SETTINGS: Final = (ENDPOINT, CLIENT_ID, CLIENT_SECRET, SCOPE)

_CONNECT_S: Final = 5
_ANSWER_S: Final = 10
_REFRESH_WINDOW: Final = 0.8
_REFUSED: Final = range(400, 500)
_TRANSIENT: Final = frozenset({408, 429})
# RFC 6749, sections 4.1.2.1 and 5.2.
_ERROR_CODES: Final = (
    *("invalid_request", "invalid_client", "invalid_grant", "invalid_scope"),
    *("unauthorized_client", "unsupported_grant_type", "access_denied"),
    *("server_error", "temporarily_unavailable"),
)
_ADVICE: Final = "check sasl.oauthbearer.client.credentials.client.id, its secret and the scope"


def access_tokens(settings: Mapping[str, str]) -> AbstractTokenProvider:
    """Return the token provider for the settings `SETTINGS`; the client secret is a `Secret`.

    Raises:
        ConfigurationError: the endpoint is missing or unusable, or the client id or secret is
            missing.
    """
    endpoint = settings.get(ENDPOINT, "")
    parts = urlsplit(endpoint)
    if parts.scheme == "file":
        return FileTokens(Path(unquote(parts.path)))
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigurationError(
            "sasl.mechanism OAUTHBEARER needs sasl.oauthbearer.token.endpoint.url: https://... of "
            "an identity provider, or file:///... of a file with a token"
        )
    for name in (CLIENT_ID, CLIENT_SECRET):
        if name not in settings:
            raise ConfigurationError(
                f"sasl.oauthbearer.token.endpoint.url needs {name.replace('_', '.')}"
            )
    return EndpointTokens(
        endpoint, settings[CLIENT_ID], settings[CLIENT_SECRET], settings.get(SCOPE, "")
    )


@dataclass(frozen=True, slots=True)
class FileTokens(AbstractTokenProvider):
    """Reads the token from a file at each login."""

    path: Path

    def token(self) -> str:
        """Return the text of the file."""
        setting = "Kafka setting 'sasl.oauthbearer.token.endpoint.url'"
        return read_file(setting, self.path).strip()


@dataclass(slots=True)
class EndpointTokens(AbstractTokenProvider):
    """Fetches and caches tokens of an identity provider; connections may share an instance."""

    endpoint: str
    client_id: str
    client_secret: str
    scope: str = ""
    _token: Secret = field(default=Secret(), init=False)
    _refresh_at: float = field(default=0.0, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    def token(self) -> str:
        """Return the cached token, or a new one if the cached token is stale.

        Raises:
            ConfigurationError: the provider refuses this client.
            KafkaConnectionError: the provider is unreachable or answers without a token.
        """
        with self._lock:
            if time.monotonic() >= self._refresh_at:
                self._token, life_s = self._fetch()
                self._refresh_at = time.monotonic() + life_s * _REFRESH_WINDOW
            # kafka-python formats the token into a string, which would print a `Secret` as ***.
            return "".join(self._token)

    def discard(self) -> None:
        """Discard the cached token, for example because a broker refused it."""
        with self._lock:
            self._refresh_at = 0.0

    def _fetch(self) -> tuple[Secret, float]:
        # Every process of a query imports this module, and few logins need an identity provider.
        import requests
        from requests.auth import HTTPBasicAuth

        where = f"the token endpoint {_shown(self.endpoint)}"
        form = {"grant_type": "client_credentials"} | ({"scope": self.scope} if self.scope else {})
        try:
            answer = requests.post(
                self.endpoint,
                data=form,
                auth=HTTPBasicAuth(self.client_id.encode(), self.client_secret.encode()),
                headers={"Accept": "application/json"},
                timeout=(_CONNECT_S, _ANSWER_S),
                allow_redirects=False,
            )
        except requests.exceptions.SSLError:
            raise ConfigurationError(
                f"no TLS connection to {where}: its certificate is not trusted; name the "
                "authority's PEM file in the environment variable REQUESTS_CA_BUNDLE"
            ) from None
        except (requests.RequestException, ValueError) as error:
            raise KafkaConnectionError(f"{where}: {type(error).__name__}") from None
        code = answer.status_code
        if code in _REFUSED and code not in _TRANSIENT:
            raise ConfigurationError(
                f"{where} refuses client {self.client_id!r} ({code}{_reason(answer)}); {_ADVICE}"
            )
        body = _json_of(answer)
        if code != requests.codes.ok or not isinstance(body.get("access_token"), str):
            raise KafkaConnectionError(f"{where} answered {code} without a token")
        life_s = body.get("expires_in")
        return Secret(body["access_token"]), life_s if isinstance(life_s, int | float) else 0.0


def _shown(endpoint: str) -> str:
    parts = urlsplit(endpoint)
    return (
        f"{parts.scheme}://{parts.hostname}:{parts.port}{parts.path}"
        if parts.port
        else (f"{parts.scheme}://{parts.hostname}{parts.path}")
    )


def _reason(answer: requests.Response) -> str:
    """Return the OAuth error code if it is a standard one; other texts may repeat the request."""
    reason = _json_of(answer).get("error")
    return f", {reason}" if reason in _ERROR_CODES else ""


def _json_of(answer: requests.Response) -> dict[str, Any]:
    try:
        body = answer.json()
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}
