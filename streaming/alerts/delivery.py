"""Delivery of notices: one POST of JSON, and errors without secrets.

Nothing is retried here: the next round of `alert run` sends again what a sink did not accept.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import requests
from pydantic import SecretStr

from streaming.views.text import json_line

# urllib3 logs the URL of an answer with malformed headers; the URL may be a secret.
logging.getLogger("urllib3").setLevel(logging.CRITICAL)

CONNECT_S: Final = 5
ANSWER_S: Final = 10
SERVER_ERROR: Final = 500
"""From this code on a failure is transient in HTTP and permanent in SMTP."""
_TRANSIENT: Final = frozenset({408, 429})
_AWAY: Final = frozenset({502, 503, 504})
"""The answers of a proxy in front of a sink that is away."""
_SUCCESS: Final = range(200, 300)

T = TypeVar("T")
_unfinished: dict[str, threading.Thread] = {}
"""The last attempt that took too long, by address."""


class DeliveryError(Exception):
    """A sink did not accept a notice; the message contains no secret."""


class TransientDeliveryError(DeliveryError):
    """The sink is unreachable or overloaded: a later attempt may succeed."""


class SinkAwayError(TransientDeliveryError):
    """Nobody accepts notices at the address: an attempt soon after sends none twice."""


def post(
    url: SecretStr,
    body: Any,
    headers: dict[str, str] | None = None,
    *,
    timeout_s: tuple[float, float] = (CONNECT_S, ANSWER_S),
) -> None:
    """POST JSON; `timeout_s` is the time to connect, and to be answered.

    Raises:
        DeliveryError: the host did not accept it. The message names only the host, because the
            path may be a secret.
    """
    address = url.get_secret_value()
    host = str(urlsplit(address).hostname)
    code = within(
        sum(timeout_s), host, address, lambda: _answer_code(address, body, headers, host, timeout_s)
    )
    if code in _TRANSIENT or code >= SERVER_ERROR:
        kind = SinkAwayError if code in _AWAY else TransientDeliveryError
        raise kind(f"{host} answered {code}")
    if code not in _SUCCESS:
        raise DeliveryError(f"{host} answered {code}")


def within(timeout_s: float, host: str, address: str, attempt: Callable[[], T]) -> T:
    """Return the result of an attempt that talks to an address, unless it takes too long.

    The timeouts of a socket are those of each read: a host that sends a byte now and then would
    hold the attempt for ever. Its thread goes on then, and does not hold up the end of the process.

    Raises:
        TransientDeliveryError: it took longer, or an earlier attempt there has not ended yet. It
            may still succeed, so an attempt soon after might send a notice twice.
        Exception: whatever the attempt raises.
    """
    if (earlier := _unfinished.get(address)) is not None and earlier.is_alive():
        raise TransientDeliveryError(f"{host}: the answer to an earlier attempt has not ended")
    outcome: Future[T] = Future()

    def run() -> None:
        try:
            outcome.set_result(attempt())
        except Exception as error:  # noqa: BLE001 - the caller raises it
            outcome.set_exception(error)

    thread = threading.Thread(target=run, name=f"sends to {host}", daemon=True)
    thread.start()
    try:
        return outcome.result(timeout_s)
    except FutureTimeoutError:
        _unfinished[address] = thread
        raise TransientDeliveryError(f"{host}: no whole answer within {timeout_s:g} s") from None


def _answer_code(
    address: str,
    body: Any,
    headers: dict[str, str] | None,
    host: str,
    timeout_s: tuple[float, float],
) -> int:
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
            return answer.status_code
    except (requests.RequestException, ValueError) as error:
        kind = SinkAwayError if _is_unsent(error) else TransientDeliveryError
        raise kind(f"{host}: {type(error).__name__}") from None


def _is_unsent(error: Exception) -> bool:
    """Whether no connection was made, so that the host has not seen the request.

    Then the cause is urllib3's `MaxRetryError`, which has a reason; later it is another one.
    """
    is_unsent: bool = hasattr(error.args[0] if error.args else None, "reason")
    return is_unsent
