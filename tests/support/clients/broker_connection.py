"""A socket to a broker, as raw as the scripts of `broker_clients` need it."""

from __future__ import annotations

import select
import socket
from typing import Any

from kafka.protocol.parser import KafkaProtocol

PATIENCE_S = 30.0
_PARKED_S = 0.1


class BrokerConnection:
    """A socket to the broker; requests are answered in their order."""

    def __init__(self, bootstrap_servers: str, client_id: str) -> None:
        host, _, port = bootstrap_servers.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=PATIENCE_S)
        self._protocol = KafkaProtocol(client_id=client_id)

    def send(self, request: Any, version: int) -> None:
        request.API_VERSION = version
        self._protocol.send_request(request)
        self._socket.sendall(self._protocol.send_bytes())

    def await_taken(self) -> None:
        """Wait until the last request is answered, or the broker has had time to park it.

        Nothing tells that a join waits for others; requests of other connections come after it.
        """
        select.select([self._socket], [], [], _PARKED_S)

    def receive(self) -> Any:
        while True:
            data = self._socket.recv(1 << 16)
            assert data, "the broker closed the connection"
            answered = self._protocol.receive_bytes(data)
            if answered:
                ((_, response),) = answered
                return response

    def close(self) -> None:
        self._socket.close()
