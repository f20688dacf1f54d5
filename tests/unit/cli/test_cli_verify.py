"""`coordinator-state verify`."""

from __future__ import annotations

import itertools
import signal
from collections.abc import Callable
from functools import partial

import pytest
from click.testing import Result

import streaming.verify.verify
from streaming.cli import verify as verify_command
from streaming.run.progress_display import LiveLine
from streaming.verify.answer import AnswerKey
from streaming.verify.verification import Verification
from streaming.verify.verify import OnBehind
from tests.support.clients.command_line import VERIFY, call, json_lines

GROUP = AnswerKey("group", "g")
DIFFERENT = Verification(
    equal={GROUP},
    differing={
        AnswerKey("offset", "g\x1b", "t", 0): ({"committed_offset": 1}, {"committed_offset": 2})
    },
    moving={AnswerKey("offset", "h", "t", 1)},
    not_compared={"k": "of a kind"},
)
MOVING = Verification(moving={AnswerKey("offset", "g", "t", 0)})
Verify = Callable[..., Result]


@pytest.fixture
def verify(monkeypatch: pytest.MonkeyPatch) -> Verify:
    """Calls the command with a verification that has this result."""

    def verify(verification: Verification, *arguments: str, exit_code: int) -> Result:
        def verify_cluster(*given: object, **options: object) -> Verification:
            assert given == ("localhost:9092", "tables")
            groups = 7 if "--groups" in arguments else None
            assert (options["log_partitions"], options["group_count"]) == (None, groups)
            return verification

        monkeypatch.setattr(streaming.verify.verify, "verify_cluster", verify_cluster)
        return call(*VERIFY, *arguments, exit_code=exit_code)

    return verify


@pytest.mark.parametrize(
    ("verification", "exit_code", "summary"),
    [
        (Verification(equal={GROUP}), 0, "equal: 1 groups, 0 committed offsets, 0 pending offsets"),
        (DIFFERENT, 1, "different: 1 answers; equal: 1 groups"),
        (MOVING, 1, "1 answers changed in every round and were not compared"),
        (Verification(behind={3: 5}), 1, "behind: the tables lack 5 record offsets in 1 log part"),
    ],
)
def test_only_equal_answers_are_exit_status_0(
    verify: Verify, verification: Verification, exit_code: int, summary: str
) -> None:
    arguments = ("--groups", "7")
    assert summary in verify(verification, *arguments, exit_code=exit_code).stdout


def test_a_difference_is_shown(verify: Verify) -> None:
    result = verify(DIFFERENT, exit_code=1)

    _, header, difference = result.stdout.splitlines()
    assert header.split() == ["answer", "field", "broker", "tables"]
    assert difference.split() == ["offset", r"g\x1b", "t:0", "committed_offset", "1", "2"]
    note, where_to_look = result.stderr.splitlines()
    assert note == "1 group of a kind"
    assert where_to_look.endswith(r"show records --tables tables --group 'g\x1b'")


def test_json_is_one_object(verify: Verify) -> None:
    (document,) = json_lines(verify(DIFFERENT, "--output", "json", exit_code=1))

    assert (document["is_equal"], document["is_complete"]) == (False, False)
    assert document["equal"] == {"group": 1, "member": 0, "offset": 0, "pending": 0}
    (difference,) = document["differences"]
    sides = (difference["group_id"], difference["broker"], difference["tables"])
    assert sides == ("g\x1b", 1, 2)
    assert [key["group_id"] for key in document["moving"]] == ["h"]


@pytest.mark.parametrize("duration", ["60", "0s", "0 seconds", "5  m", "5 ss", "1w", "-1s"])
def test_a_duration_has_a_unit(duration: str) -> None:
    refused = call(*VERIFY, "--every", duration, exit_code=2)
    assert "is not a duration such as 60s, 5m, 1h or 7d" in refused.stderr


def test_a_watch_goes_on_until_it_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that does not answer for a while does not end it, a difference is remembered."""
    answers: list[Verification | None] = [Verification(), None, DIFFERENT]

    def verify_cluster(*_given: object, **_options: object) -> Verification:
        answer = answers.pop(0)
        if not answers:
            signal.raise_signal(signal.SIGINT)
        if answer is None:
            raise TimeoutError("no answer")
        return answer

    monkeypatch.setattr(streaming.verify.verify, "verify_cluster", verify_cluster)
    result = call(*VERIFY, "--every", "0.01s", exit_code=1)

    assert result.stdout.count("equal: ") == 2
    assert "not compared: no answer" in result.stderr


def test_it_says_what_it_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def verify_cluster(*_: object, on_behind: OnBehind, **__: object) -> Verification:
        on_behind({3: 5, 4: 1})
        return Verification(equal={GROUP})

    monkeypatch.setattr(streaming.verify.verify, "verify_cluster", verify_cluster)
    seconds = itertools.count(step=4)
    monkeypatch.setattr(verify_command, "LiveLine", partial(LiveLine, clock=seconds.__next__))
    waited = call(*VERIFY, "--timeout", "60")
    line = "waiting up to 60 s for the tables: 2 log partitions lack 6 record offsets"
    assert line in waited.stderr
