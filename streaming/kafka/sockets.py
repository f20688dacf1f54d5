"""Sockets and frames of kafka-python's connections, without four of its problems.

1. kafka-python reads until a socket is empty, and discards these bytes if the connection closes
   directly after them. That loses the answer to a wrong password: the login looks disconnected.
2. It reads small chunks, which is slow for record sets of megabytes.
3. It leaves the sockets of failed attempts open until they are garbage-collected.
4. It copies each byte of a response five times.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from kafka.net.inet import KafkaNetSocket
from kafka.protocol.parser import KafkaProtocol

from streaming.errors import ConfigurationError

_RECEIVE_BYTES: Final = 256 << 10


class PlainSocket(socket.socket):
    """A TCP socket."""

    _has_undelivered_bytes = False

    def recv(self, size_bytes: int = 1024, flags: int = 0) -> bytes:
        received = super().recv(max(size_bytes, _RECEIVE_BYTES), flags)
        if not received and self._has_undelivered_bytes:
            # The next read event reports the end of the connection again.
            self._has_undelivered_bytes = False
            raise BlockingIOError
        self._has_undelivered_bytes = bool(received)
        return received


class TlsSocket(PlainSocket, ssl.SSLSocket):
    """A TLS socket."""

    def do_handshake(self, block: bool = False) -> None:
        try:
            super().do_handshake(block)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except OSError:
            self.close()
            raise


class DirectConnector(KafkaNetSocket):
    """Connects without a proxy; kafka-python selects it by the scheme of `DIRECT`."""

    SCHEMES = ("direct",)

    def socket(self, *arguments: Any) -> socket.socket:
        return PlainSocket(*arguments)

    async def sock_connect(self, net: Any, sock: Any, *arguments: Any, **options: Any) -> Any:
        try:
            return await super().sock_connect(net, sock, *arguments, **options)
        except BaseException:
            sock.close()
            raise


DIRECT: Final = "direct://"


class FrameParser(KafkaProtocol):
    """Splits received bytes into frames and decodes them, both as views.

    It takes over the state of another parser, which has no response in progress.
    """

    def __init__(self, parser: KafkaProtocol) -> None:
        self.__dict__.update(vars(parser))

    def receive_bytes(self, data: bytes) -> Any:
        return super().receive_bytes(memoryview(data))

    def _process_response(self, frame: Any) -> Any:
        return super()._process_response(_FrameReader(frame))


class _FrameReader:
    """A file-like reader of a frame whose `read` returns views, not copies."""

    def __init__(self, frame: bytearray) -> None:
        self._view = memoryview(frame)
        self._position = 0

    def read(self, size_bytes: int | None = None) -> memoryview:
        start = self._position
        end = len(self._view) if size_bytes is None else start + size_bytes
        self._position = min(end, len(self._view))
        return self._view[start:end]

    def seek(self, position: int) -> None:
        self._position = position

    def tell(self) -> int:
        return self._position


def tls_context(kafka_config: Mapping[str, Any]) -> ssl.SSLContext:
    """Create the TLS context of the `ssl_*` settings, as kafka-python does, for `TlsSocket`s.

    Raises:
        ConfigurationError: a certificate or key cannot be loaded.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.sslsocket_class = TlsSocket
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = kafka_config.get("ssl_check_hostname", True)
    with _using("ssl.cafile"):
        if "ssl_cafile" in kafka_config:
            context.load_verify_locations(kafka_config["ssl_cafile"])
        else:
            context.load_default_certs()
    if "ssl_certfile" in kafka_config:
        with _using("ssl.certfile, ssl.keyfile and ssl.key.password, which must match"):
            context.load_cert_chain(
                kafka_config["ssl_certfile"],
                kafka_config.get("ssl_keyfile"),
                # Without a password OpenSSL would ask for one on the terminal for an encrypted key.
                kafka_config.get("ssl_password", ""),
            )
    if "ssl_crlfile" in kafka_config:
        with _using("ssl.crlfile"):
            context.load_verify_locations(kafka_config["ssl_crlfile"])
            context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    return context


@contextmanager
def _using(settings: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ConfigurationError(
            f"cannot use the files of the --kafka settings {settings}: {error}"
        ) from error
