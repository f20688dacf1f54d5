"""The bytes of connections: responses however they arrive, and the last ones of a broker."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.consumer import FetchRequest, FetchResponse
from kafka.protocol.parser import KafkaProtocol

from streaming.errors import ConfigurationError
from streaming.kafka.sockets import FrameParser, PlainSocket, TlsSocket, tls_context

VERSION = 12


def _parser(kind: type[KafkaProtocol], requests: int) -> KafkaProtocol:
    parser = KafkaProtocol(client_id="test")
    for _ in range(requests):
        request = FetchRequest(
            version=VERSION, replica_id=-1, max_wait_ms=0, min_bytes=1, topics=[]
        )
        parser.send_request(request)
    return parser if kind is KafkaProtocol else FrameParser(parser)


def _response(correlation_id: int, records: list[bytes | None]) -> bytes:
    Topic = FetchResponse.FetchableTopicResponse
    partitions = [
        Topic.PartitionData(partition_index=index, high_watermark=7, records=of_partition)
        for index, of_partition in enumerate(records)
    ]
    response = FetchResponse(
        version=VERSION, responses=[Topic(topic="__consumer_offsets", partitions=partitions)]
    )
    response.with_header(correlation_id=correlation_id)
    encoded: bytes = response.encode(framed=True, header=True)
    return encoded


@given(
    responses=st.lists(st.lists(st.none() | st.binary(max_size=40), max_size=3), max_size=3),
    data=st.data(),
)
def test_responses_however_they_arrive(
    responses: list[list[bytes | None]], data: st.DataObject
) -> None:
    received = b"".join(
        _response(number + 1, response) for number, response in enumerate(responses)
    )
    cuts = sorted(data.draw(st.lists(st.integers(0, len(received)), max_size=5)))
    pieces = [
        received[start:end] for start, end in zip([0, *cuts], [*cuts, len(received)], strict=True)
    ]
    expected, parsed = (
        [
            (correlation_id, response.to_dict())
            for piece in pieces
            for correlation_id, response in parser.receive_bytes(piece)
        ]
        for parser in (_parser(kind, len(responses)) for kind in (KafkaProtocol, FrameParser))
    )
    assert parsed == expected
    assert len(parsed) == len(responses)


@pytest.fixture
def ends() -> Iterator[tuple[PlainSocket, socket.socket]]:
    """Our end, which does not block, and the broker's."""
    ours, theirs = socket.socketpair()
    with PlainSocket(fileno=ours.detach()) as plain, theirs:
        plain.setblocking(False)
        yield plain, theirs


def test_the_end_of_a_connection_waits_until_the_bytes_before_it_are_seen(
    ends: tuple[PlainSocket, socket.socket],
) -> None:
    ours, theirs = ends
    theirs.sendall(b"the password is wrong")
    theirs.close()
    assert ours.recv(4096) == b"the password is wrong"
    with pytest.raises(BlockingIOError):
        ours.recv(4096)
    assert ours.recv(4096) == b""


def test_more_comes_at_a_time_than_was_asked_for(
    ends: tuple[PlainSocket, socket.socket],
) -> None:
    ours, theirs = ends
    theirs.sendall(b"x" * 10_000)
    assert len(ours.recv(10)) == 10_000
    with pytest.raises(BlockingIOError):
        ours.recv(10)


def test_a_context_makes_our_sockets_and_checks_names_unless_told() -> None:
    assert tls_context({}).sslsocket_class is TlsSocket
    assert tls_context({}).check_hostname
    assert not tls_context({"ssl_check_hostname": False}).check_hostname
    with pytest.raises(ConfigurationError, match=r"files of the --kafka settings ssl\.certfile"):
        tls_context({"ssl_certfile": "/no/such.pem"})
