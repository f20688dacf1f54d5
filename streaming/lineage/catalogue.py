"""The catalogue that takes the events: its address, its API key, and one POST for each event."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from openlineage.client.event_v2 import JobEvent, RunEvent
from openlineage.client.serde import Serde
from pydantic import SecretStr

from streaming.alerts.delivery import post_once
from streaming.kafka.secrets import read_file

API_KEY: Final = "OPENLINEAGE_API_KEY"
"""The environment variable that OpenLineage's own clients read, too."""

_PATH: Final = "/api/v1/lineage"
_TIMEOUT_S: Final = (3.0, 5.0)
"""To connect, and to be answered. The end of `run` waits for a POST that has begun."""


class Catalogue:
    """An OpenLineage endpoint.

    It does not use the client's own HTTP transport, which follows redirects: an answer of 200 from
    a login page would count as success.

    Args:
        url: the address; one without a path gets that of OpenLineage's specification.
        key_file: the file with the API key. None: the environment variable, if it is set.

    Raises:
        ConfigurationError: the file cannot be read.
    """

    def __init__(self, url: str, key_file: str | None = None) -> None:
        parts = urlsplit(url)
        self.name = f"OpenLineage at {parts.netloc}"
        self._url = SecretStr(parts._replace(path=parts.path.rstrip("/") or _PATH).geturl())
        self._key_file = key_file
        self._headers()

    def post(self, event: JobEvent | RunEvent) -> None:
        """Send an event.

        Raises:
            TransientDeliveryError: the catalogue is unreachable or overloaded.
            DeliveryError: it refused the event.
            ConfigurationError: the file with the API key cannot be read any more.
        """
        post_once(self._url, Serde.to_dict(event), self._headers(), timeout_s=_TIMEOUT_S)

    def _headers(self) -> dict[str, str]:
        """The API key, read anew each time: keys are rotated."""
        key = os.environ.get(API_KEY, "")
        if self._key_file is not None:
            key = read_file("--openlineage-key-file", Path(self._key_file))
        return {"Authorization": f"Bearer {key}"} if key else {}
