"""How notices leave: a POST of JSON and its attempts, and faults that hold no secret."""

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

# It logs addresses, which may be secrets, where an answer has odd headers.
logging.getLogger("urllib3").setLevel(logging.CRITICAL)

CONNECT_S: Final = 5
ANSWER_S: Final = 10
SERVER_ERROR: Final = 500
"""From here on codes of HTTP mean that it may be well later, and those of SMTP that it may not."""
FIRST_WAIT_S: Final = 0.5
LONGEST_WAIT_S: Final = 5.0
_ATTEMPTS: Final = 3
_GIVE_UP_AFTER_S: Final = 20
_HEALING: Final = frozenset({408, 429})
_GOOD: Final = range(200, 300)


class DeliveryError(Exception):
    """A sink did not take a notice, for a reason that holds no secret."""


class SinkAway(DeliveryError):
    """It may take it later."""


def attempts() -> Retrying:
    """Some attempts while a sink is away, further and further apart."""
    return Retrying(
        retry=retry_if_exception_type(SinkAway),
        stop=stop_after_attempt(_ATTEMPTS) | stop_after_delay(_GIVE_UP_AFTER_S),
        wait=wait_exponential(multiplier=FIRST_WAIT_S, max=LONGEST_WAIT_S),
        reraise=True,
    )


def post(url: SecretStr, body: Any, headers: dict[str, str] | None = None) -> None:
    """POST JSON; what may heal is tried again.

    Raises:
        DeliveryError: it was not taken; names the host only, since the path may be a secret.
    """
    address = url.get_secret_value()
    host = urlsplit(address).hostname
    told = {"Content-Type": "application/json", **(headers or {})}
    text = json_line(body).encode()
    for attempt in attempts():
        with attempt:
            try:
                # Nobody asked for the body. A credential of ~/.netrc is not meant for this host.
                with requests.post(
                    address,
                    data=text,
                    headers=told,
                    timeout=(CONNECT_S, ANSWER_S),
                    allow_redirects=False,
                    stream=True,
                    auth=lambda request: request,
                ) as answer:
                    code = answer.status_code
            except (requests.RequestException, ValueError) as error:
                raise SinkAway(f"{host}: {type(error).__name__}") from None
            if code in _HEALING or code >= SERVER_ERROR:
                raise SinkAway(f"{host} answered {code}")
            if code not in _GOOD:
                raise DeliveryError(f"{host} answered {code}")
