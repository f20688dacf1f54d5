"""Clients of a real broker, over sockets.

Each client has its own connection: a broker reads no further request from a connection whose join
it has parked.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Callable
from typing import Any

from kafka.protocol import admin, consumer, metadata, producer
from kafka.protocol.parser import KafkaProtocol

from coordinator_state.model.log import Producer
from coordinator_state.model.offset_manager import Partition
from coordinator_state.model.requests import ErrorCode, OffsetCommitRequest, Reply
from tests.support.clients.kafka_requests import KafkaRequests, Message, Read
from tests.support.eventually import wait_until

_MESSAGES = (admin, consumer, metadata, producer)
_TRY_AGAIN = frozenset({14, 15, 16, 51})
"""Loading, not available, not the coordinator, concurrent transactions."""
_TRANSACTION_COORDINATOR = 1
_TRANSACTION_TIMEOUT_MS = 60_000
_PROTOCOL_TYPE_VERSION = 7
_PATIENCE_S = 30.0
_PARKED_S = 0.1


class _Connection:
    """A socket to the broker, which answers requests in their order."""

    def __init__(self, bootstrap_servers: str, client_id: str) -> None:
        host, _, port = bootstrap_servers.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=_PATIENCE_S)
        self._protocol = KafkaProtocol(client_id=client_id)

    def send(self, request: Any) -> None:
        self._protocol.send_request(request)
        self._socket.sendall(self._protocol.send_bytes())

    def await_taken(self) -> None:
        """Wait until the last request is answered, or the broker has had time to park it.

        Nothing tells that a join waits for others; requests of other connections come after it.
        """
        select.select([self._socket], [], [], _PARKED_S)

    def receive(self) -> Message:
        while True:
            received = self._socket.recv(1 << 16)
            assert received, "the broker closed the connection"
            responses = self._protocol.receive_bytes(received)
            if responses:
                ((_, response),) = responses
                message: Message = response.to_dict(json=False)
                return message

    def close(self) -> None:
        self._socket.close()


class BrokerClients(KafkaRequests):
    """Clients of a broker; `close` ends the connections."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._servers = bootstrap_servers
        self._connections: dict[str, _Connection] = {}
        self._waiting: dict[Reply[Any], Callable[[], Any]] = {}
        self._client_ids: dict[str, str] = {}
        self._producers: dict[str, Producer] = {}

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()

    def settle(self, *replies: Reply[Any]) -> None:
        """Wait for the answers."""
        for reply in replies:
            if not reply.is_done:
                reply.complete(self._waiting.pop(reply)())

    # --- transactions

    def producer(self, transactional_id: str) -> Producer:
        """The producer of a transactional id, which gets its producer id once."""
        if transactional_id not in self._producers:
            # The broker creates the topic of transactions now.
            sought = {"key": transactional_id, "key_type": _TRANSACTION_COORDINATOR}
            self._ask_until_ready("FindCoordinator", 3, sought)
            initial = {
                "transactional_id": transactional_id,
                "transaction_timeout_ms": _TRANSACTION_TIMEOUT_MS,
                "producer_id": -1,
                "producer_epoch": -1,
            }
            answer = self._ask_until_ready("InitProducerId", 4, initial)
            self._producers[transactional_id] = Producer(
                answer["producer_id"], answer["producer_epoch"]
            )
        return self._producers[transactional_id]

    def commit_offsets(
        self, request: OffsetCommitRequest, producer: Producer | None = None
    ) -> dict[Partition, ErrorCode]:
        if producer is not None:
            transaction = {
                "transactional_id": self._transactional_id(producer),
                "group_id": request.group_id,
                **producer._asdict(),
            }
            answer = self._ask_until_ready("AddOffsetsToTxn", 3, transaction)
            assert answer["error_code"] == 0
        return super().commit_offsets(request, producer)

    def end_transaction(self, producer: Producer, *, is_commit: bool) -> None:
        transactional_id = self._transactional_id(producer)
        end = {
            "transactional_id": transactional_id,
            "committed": is_commit,
            **producer._asdict(),
        }
        assert self._ask_until_ready("EndTxn", 3, end)["error_code"] == 0
        # The broker answers before it writes the markers.
        wait_until(lambda: self._is_complete(transactional_id), _PATIENCE_S)

    def _is_complete(self, transactional_id: str) -> bool:
        request = {"transactional_ids": [transactional_id]}
        (transaction,) = self._ask("DescribeTransactions", 0, request)["transaction_states"]
        return str(transaction["transaction_state"]).startswith("Complete")

    def _transactional_id(self, producer: Producer) -> str:
        return next(name for name, known in self._producers.items() if known == producer)

    def _ask_until_ready(self, api: str, version: int, message: Message) -> Message:
        """Ask until the transaction coordinator is there, and has ended the last transaction."""

        def final_answer() -> Message | None:
            answer = self._ask(api, version, message)
            return None if answer["error_code"] in _TRY_AGAIN else answer

        answer = wait_until(final_answer, _PATIENCE_S)
        assert answer is not None
        return answer

    # --- messages

    def _ask(self, api: str, version: int, message: Message, client_id: str = "") -> Message:
        connection = self._connection(client_id)
        connection.send(_request(api, version, message))
        return connection.receive()

    def _begin(
        self, api: str, version: int, message: Message, read: Read, client_id: str = ""
    ) -> Reply[Any]:
        reply: Reply[Any] = Reply()
        client_id = client_id or self._client_ids.get(message["member_id"], "")
        connection = self._connection(client_id)

        def receive() -> Any:
            answer = connection.receive()
            if api == "JoinGroup":
                self._client_ids[answer["member_id"]] = client_id
                if version < _PROTOCOL_TYPE_VERSION:
                    # These versions do not have the protocol type.
                    is_refused = answer["error_code"] != 0
                    answer["protocol_type"] = None if is_refused else message["protocol_type"]
            return read(answer)

        connection.send(_request(api, version, message))
        self._waiting[reply] = receive
        connection.await_taken()
        return reply

    def _connection(self, client_id: str) -> _Connection:
        if client_id not in self._connections:
            self._connections[client_id] = _Connection(self._servers, client_id or "another")
        return self._connections[client_id]


def _request(api: str, version: int, message: Message) -> Any:
    name = f"{api}Request"
    (kind,) = {getattr(module, name) for module in _MESSAGES if hasattr(module, name)}
    request = _filled(kind, message)
    request.API_VERSION = version
    return request


def _filled(kind: Any, message: Message) -> Any:
    """An object of kafka-python with those fields of the message that it knows."""
    values = {}
    for name in kind.fields.keys() & message.keys():
        field, value = kind.fields[name], message[name]
        if field.is_struct_array() and value is not None:
            value = [_filled(field.data_class, element) for element in value]
        values[name] = value
    return kind(**values)
