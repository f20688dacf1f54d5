"""The sockets that kafka-python is given for its connections.

It reads from a socket until there is nothing more, and loses what it has read when the end of the
connection comes right behind: so does the answer to a wrong password, and the login seems merely
disconnected. It asks for little at a time, which record sets of megabytes do not deserve, and it
leaves the sockets of failed attempts open until they are collected. These sockets mend all three.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from kafka.net.inet import KafkaNetSocket

from streaming.errors import ConfigurationError

_RECEIVE_BYTES: Final = 256 << 10


class PlainSocket(socket.socket):
    """A TCP socket."""

    _has_unseen_bytes = False

    def recv(self, size_bytes: int, flags: int = 0) -> bytes:
        received = super().recv(max(size_bytes, _RECEIVE_BYTES), flags)
        if not received and self._has_unseen_bytes:
            # The end is still there when the next event says that the socket is readable.
            self._has_unseen_bytes = False
            raise BlockingIOError
        self._has_unseen_bytes = bool(received)
        return received


class TlsSocket(ssl.SSLSocket):
    """A TLS socket."""

    _has_unseen_bytes = False

    def recv(self, size_bytes: int = 1024, flags: int = 0) -> bytes:
        received = super().recv(max(size_bytes, _RECEIVE_BYTES), flags)
        if not received and self._has_unseen_bytes:
            self._has_unseen_bytes = False
            raise BlockingIOError
        self._has_unseen_bytes = bool(received)
        return received

    def do_handshake(self, block: bool = False) -> None:
        try:
            super().do_handshake(block)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except OSError:
            self.close()
            raise


class DirectConnector(KafkaNetSocket):
    """Connects without a proxy; kafka-python finds it by the scheme of `DIRECT`."""

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


def tls_context(kafka_config: Mapping[str, Any]) -> ssl.SSLContext:
    """Make the TLS context of the `ssl_*` settings, as kafka-python does, for `TlsSocket`s.

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
        with _using("ssl.certfile, ssl.keyfile and ssl.key.password, which belong together"):
            context.load_cert_chain(
                kafka_config["ssl_certfile"],
                kafka_config.get("ssl_keyfile"),
                # Without a password an encrypted key must not ask for one on the terminal.
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
