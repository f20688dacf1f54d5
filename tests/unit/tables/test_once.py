"""Values that are computed once: one computation for all threads, and none waits for others."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from streaming.tables.once import SPENT, once


class Computed:
    def __init__(self, go_on: threading.Event) -> None:
        self.lock = threading.RLock()
        self.go_on = go_on
        self.begun = threading.Event()
        self.count = 0

    @once
    def value(self) -> int:
        """A slow value."""
        self.begun.set()
        assert self.go_on.wait(60)
        self.count += 1
        return self.other + 1

    @once
    def other(self) -> int:
        return self.count


def test_threads_wait_for_one_computation() -> None:
    computed = Computed(threading.Event())
    with ThreadPoolExecutor(4) as pool:
        jobs = [pool.submit(lambda: computed.value) for _ in range(4)]
        computed.go_on.set()
        assert [job.result(60) for job in jobs] == [2, 2, 2, 2]
    assert computed.count == 1
    assert Computed.value.__doc__ == "A slow value."


def test_the_time_of_all_values_is_known() -> None:
    computed = Computed(threading.Event())
    threading.Timer(0.2, computed.go_on.set).start()
    assert computed.value
    spent_s = computed.__dict__[SPENT]
    assert spent_s >= 0.19
    assert computed.value
    assert computed.__dict__[SPENT] == spent_s


def test_a_slow_instance_holds_up_no_other() -> None:
    slow, ready = Computed(threading.Event()), threading.Event()
    ready.set()
    with ThreadPoolExecutor(1) as pool:
        job = pool.submit(lambda: slow.value)
        assert slow.begun.wait(60)
        assert Computed(ready).value == 2
        slow.go_on.set()
        assert job.result(60) == 2
