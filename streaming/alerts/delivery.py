"""Delivery of notices: POST of JSON with retries, and errors without secrets."""

from __future__ import annotations

import logging
from typing import Any, Final
from urllib.parse import urlsplit

import requests
from pydantic import SecretStr
from tenacity import (
    Retrying,
    retry_if_exception_type,
    stop_after_attempt,
    stop_after_delay,
    wait_exponential,
)

from streaming.views.text import json_line

# urllib3 logs the URL of an answer with malformed headers; the URL may be a secret.
logging.getLogger("urllib3").setLevel(logging.CRITICAL)

CONNECT_S: Final = 5
ANSWER_S: Final = 10
SERVER_ERROR: Final = 500
"""From this code on a failure is transient in HTTP and permanent in SMTP."""
FIRST_WAIT_S: Final = 0.5
LONGEST_WAIT_S: Final = 5.0
_ATTEMPTS: Final = 3
_GIVE_UP_AFTER_S: Final = 20
_TRANSIENT: Final = frozenset({408, 429})
_SUCCESS: Final = range(200, 300)


class DeliveryError(Exception):
    """A sink did not accept a notice; the message contains no secret."""


class TransientDeliveryError(DeliveryError):
    """The sink is unreachable or overloaded: a later attempt may succeed."""


def attempts() -> Retrying:
    """Up to 3 attempts within 20 s, with back-off, after transient failures."""
    return Retrying(
        retry=retry_if_exception_type(TransientDeliveryError),
        stop=stop_after_attempt(_ATTEMPTS) | stop_after_delay(_GIVE_UP_AFTER_S),
        wait=wait_exponential(multiplier=FIRST_WAIT_S, max=LONGEST_WAIT_S),
        reraise=True,
    )


def post(url: SecretStr, body: Any, headers: dict[str, str] | None = None) -> None:
    """POST JSON; transient failures are retried.

    Raises:
        DeliveryError: see `post_once`.
    """
    for attempt in attempts():
        with attempt:
            post_once(url, body, headers)


def post_once(
    url: SecretStr,
    body: Any,
    headers: dict[str, str] | None = None,
    *,
    timeout_s: tuple[float, float] = (CONNECT_S, ANSWER_S),
) -> None:
    """POST JSON in one attempt; `timeout_s` is the time to connect, and to be answered.

    Raises:
        DeliveryError: the host did not accept it. The message names only the host, because the
            path may be a secret.
    """
    address = url.get_secret_value()
    host = urlsplit(address).hostname
    try:
        # `stream`: the body is not read. `auth`: requests adds no credentials of ~/.netrc.
        with requests.post(
            address,
            data=json_line(body).encode(),
            headers={"Content-Type": "application/json", **(headers or {})},
            timeout=timeout_s,
            allow_redirects=False,
            stream=True,
            auth=lambda request: request,
        ) as answer:
            code = answer.status_code
    except (requests.RequestException, ValueError) as error:
        raise TransientDeliveryError(f"{host}: {type(error).__name__}") from None
    if code in _TRANSIENT or code >= SERVER_ERROR:
        raise TransientDeliveryError(f"{host} answered {code}")
    if code not in _SUCCESS:
        raise DeliveryError(f"{host} answered {code}")
