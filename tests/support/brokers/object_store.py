"""An S3 on this machine, served by moto, for tables and checkpoints in an object store."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import requests

# In a process of its own: delta-rs's file system holds the interpreter's lock while it waits.
_SERVER = """
import logging, sys, threading
from moto.server import create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server
logging.getLogger("werkzeug").setLevel(logging.ERROR)
# Clients keep their connections. Of all services, moto would look for the one of each request.
WSGIRequestHandler.protocol_version = "HTTP/1.1"
is_conditional = sys.argv[1] == "conditional"
app, one_at_a_time = create_backend_app("s3"), threading.Lock()
def sound(environ, start_response):
    # In two threads, moto may see no object, and write it twice.
    if environ["REQUEST_METHOD"] == "GET":
        return app(environ, start_response)
    if not is_conditional:
        environ.pop("HTTP_IF_NONE_MATCH", None)
    with one_at_a_time:
        return list(app(environ, start_response))
server = make_server("127.0.0.1", 0, sound, threaded=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
print("127.0.0.1", server.port, sep=":", flush=True)
input()
"""


@contextmanager
def served_object_store(
    bucket: str = "bucket", *, writes: str = "conditional"
) -> Iterator[dict[str, str]]:
    """Serve an S3 with an empty bucket; give the environment that delta-rs and the SDKs read.

    With other `writes` than "conditional", the store ignores `If-None-Match`.
    """
    with subprocess.Popen(
        [sys.executable, "-c", _SERVER, writes],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdout is not None
        endpoint = f"http://{server.stdout.readline().strip()}"
        try:
            requests.put(f"{endpoint}/{bucket}", timeout=10).raise_for_status()
            yield {
                "AWS_ACCESS_KEY_ID": "key",
                "AWS_SECRET_ACCESS_KEY": "secret",
                "AWS_REGION": "us-east-1",
                "AWS_ENDPOINT_URL": endpoint,
                "AWS_ALLOW_HTTP": "true",
            }
        finally:
            server.kill()
