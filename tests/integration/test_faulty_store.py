"""The store of `tests.faults`, which holds writes and fails on request."""

from __future__ import annotations

import gc
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests

from tests.faults.faulty_store import DROP, ERROR, GO, HOLD, SOUND
from tests.faults.trial import Store
from tests.support.brokers.object_store import served_object_store

COMMIT = "/bucket/tables/groups/_delta_log/00000000000000000007.json"
POINT = "before the commit of groups"


def is_stored(address: str) -> bool:
    # Without a login, the answer for an object that is there is 403.
    return requests.get(address, timeout=10).status_code != 404


def test_a_held_write_is_done_or_dropped_and_half_a_write_is_not_stored() -> None:
    with served_object_store() as sound, ThreadPoolExecutor(1) as pool:
        store, behind = Store(sound), sound["AWS_ENDPOINT_URL"]
        address = store.environment["AWS_ENDPOINT_URL"]
        for command, is_done in ((DROP, False), (GO, True)):
            store.obey(f"{HOLD} {POINT}")
            writing = pool.submit(requests.put, address + COMMIT, data=b"{}", timeout=30)
            assert store.held(30) == POINT
            assert not is_stored(behind + COMMIT)
            store.obey(command)
            if is_done:
                assert writing.result().ok
            else:
                with pytest.raises(requests.ConnectionError):
                    writing.result()
            assert is_stored(behind + COMMIT) == is_done
        host, _, port = address.removeprefix("http://").rpartition(":")
        with socket.create_connection((host, int(port))) as client:
            client.sendall(b"PUT /bucket/half HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhalf")
            client.shutdown(socket.SHUT_WR)
            assert client.recv(1) == b""
        assert not is_stored(f"{behind}/bucket/half")
        assert store.end() == {}
    del store
    gc.collect()


def test_a_store_that_answers_500_comes_back() -> None:
    with served_object_store() as sound:
        store = Store(sound)
        address = store.environment["AWS_ENDPOINT_URL"] + COMMIT
        store.obey(f"{HOLD} {POINT}")
        with ThreadPoolExecutor(1) as pool:
            writing = pool.submit(requests.put, address, data=b"{}", timeout=30)
            assert store.held(30) == POINT
            store.obey(ERROR)
            store.obey(GO)
            assert writing.result().status_code == 500
        store.obey(SOUND)
        store.obey(f"{HOLD} {POINT}")
        with ThreadPoolExecutor(1) as pool:
            writing = pool.submit(requests.put, address, data=b"{}", timeout=30)
            assert store.held(30) == POINT
            store.obey(GO)
            assert writing.result().ok
        assert store.end() == {ERROR: 1}
