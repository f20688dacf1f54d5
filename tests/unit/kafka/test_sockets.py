"""The sockets given to kafka-python: nothing that a broker said last is lost."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from streaming.errors import ConfigurationError
from streaming.kafka.sockets import PlainSocket, TlsSocket, tls_context


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
