"""A changing line on stderr."""

from __future__ import annotations

from streaming.run.live_line import LiveLine


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_plain_line_comes_every_five_seconds_and_the_first_one_after_a_while() -> None:
    clock, lines = Clock(), list[str]()
    with LiveLine(is_terminal=False, clock=clock, write=lines.append, first_after_s=3) as line:
        for second in range(20):
            clock.now = float(second)
            line.show(f"after {second} s")

    assert lines == ["after 3 s", "after 8 s", "after 13 s", "after 18 s"]
