"""Access tokens of OAUTHBEARER: from a file, and by client credentials from a real HTTP server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from kafka.errors import KafkaConnectionError

from streaming.errors import ConfigurationError
from streaming.kafka.client_config import kafka_client_config
from tests.support.brokers.token_endpoint import CLIENT_ID, CLIENT_SECRET, token_endpoint

OAUTH = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}


def provider_of(endpoint: str, secret: str = CLIENT_SECRET, **settings: str) -> Any:
    config = kafka_client_config(
        OAUTH
        | {
            "sasl.oauthbearer.token.endpoint.url": endpoint,
            "sasl.oauthbearer.client.credentials.client.id": CLIENT_ID,
            "sasl.oauthbearer.client.credentials.client.secret": secret,
        }
        | settings
    )
    assert secret not in repr(config)
    return config["sasl_oauth_token_provider"]


def test_a_token_is_asked_for_once_and_again_before_it_expires() -> None:
    with token_endpoint() as endpoint:
        provider = provider_of(endpoint.url, **{"sasl.oauthbearer.scope": "kafka"})
        first = provider.token()
        assert provider.token() == first
        assert endpoint.forms == [{"grant_type": "client_credentials", "scope": "kafka"}]
        assert first not in repr(provider)
        endpoint.life_s = 0
        short_lived = provider_of(endpoint.url)
        assert short_lived.token() != short_lived.token()


@pytest.mark.parametrize(
    ("answer", "kind", "complaint"),
    [
        (401, ConfigurationError, r"/token refuses client 'materializer' \(401, invalid_client\)"),
        (403, ConfigurationError, "refuses client .* check sasl.oauthbearer.client"),
        (302, KafkaConnectionError, "answered 302 without a token"),
        (503, KafkaConnectionError, "answered 503 without a token"),
        (429, KafkaConnectionError, "answered 429 without a token"),
    ],
)
def test_an_endpoint_that_gives_no_token_is_told(
    answer: int, kind: type[Exception], complaint: str
) -> None:
    with token_endpoint() as endpoint:
        endpoint.answer = answer
        with pytest.raises(kind, match=complaint) as refused:
            provider_of(endpoint.url, "hush").token()
    assert "hush" not in str(refused.value)


def test_an_endpoint_that_is_away_may_come_back() -> None:
    with token_endpoint() as endpoint:
        pass
    with pytest.raises(KafkaConnectionError, match="token: ConnectionError"):
        provider_of(endpoint.url).token()


def test_a_token_in_a_file_is_read_anew_at_each_login(tmp_path: Path) -> None:
    file = tmp_path / "the token"
    settings = OAUTH | {"sasl.oauthbearer.token.endpoint.url": file.as_uri()}
    provider = kafka_client_config(settings)["sasl_oauth_token_provider"]
    with pytest.raises(ConfigurationError, match=r"endpoint.url.*cannot read .*the token"):
        provider.token()
    for token in ("first", "second"):
        file.write_text(f"{token}\n")
        assert provider.token() == token


def test_a_certificate_that_is_not_trusted_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with token_endpoint(tls=True) as endpoint:
        with pytest.raises(ConfigurationError, match="REQUESTS_CA_BUNDLE"):
            provider_of(endpoint.url).token()
        authority = tmp_path / "ca.pem"
        assert endpoint.authority is not None
        authority.write_bytes(endpoint.authority.cert_pem.bytes())
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(authority))
        assert provider_of(endpoint.url).token()
