"""What is done again and again beside a query."""

from __future__ import annotations

import threading
from datetime import timedelta

from streaming.run.beat import beating
from tests.support.eventually import Eventually


def test_it_beats_until_the_block_ends(eventually: Eventually) -> None:
    taken: list[int] = []
    with beating("a-beat", timedelta(milliseconds=10), lambda: taken.append(1)):
        eventually(lambda: len(taken) >= 3)
    found = len(taken)
    assert not [thread for thread in threading.enumerate() if thread.name == "a-beat"]
    assert len(taken) == found
