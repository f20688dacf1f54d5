"""`coordinator-state verify`."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest
from click.testing import Result

import streaming.verify.verify
from streaming.verify.answer import AnswerKey
from streaming.verify.verification import Verification
from tests.support.clients.command_line import VERIFY, call, json_lines


class TestVerify:
    KEY = AnswerKey("offset", "g\x1b", "t", 0)
    DIFFERENT = Verification(
        equal={AnswerKey("group", "g")},
        differing={KEY: ({"committed_offset": 1}, {"committed_offset": 2})},
        moving={AnswerKey("offset", "h", "t", 1)},
        not_compared={"k": "of a kind"},
    )

    @pytest.fixture
    def verify(self, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
        self.group_counts: list[object] = []

        def verify(verification: Verification, *arguments: str, exit_code: int) -> Result:
            def verify_cluster(*given: object, **options: object) -> Verification:
                assert given == ("localhost:9092", "tables")
                assert options["log_partitions"] is None
                self.group_counts.append(options["group_count"])
                return verification

            monkeypatch.setattr(streaming.verify.verify, "verify_cluster", verify_cluster)
            return call(*VERIFY, *arguments, exit_code=exit_code)

        return verify

    def test_equal_is_exit_status_0(self, verify: Callable[..., Result]) -> None:
        result = verify(Verification(equal={AnswerKey("group", "g")}), exit_code=0)

        assert result.stdout == (
            "equal: 1 groups, 0 committed offsets, 0 pending offsets, 0 members\n"
        )

    def test_a_difference_is_exit_status_1_and_shown(self, verify: Callable[..., Result]) -> None:
        result = verify(self.DIFFERENT, exit_code=1)

        summary, header, difference = result.stdout.splitlines()
        assert summary.startswith("different: 1 answers; equal: 1 groups")
        assert header.split() == ["answer", "field", "broker", "tables"]
        assert difference.split() == ["offset", r"g\x1b", "t:0", "committed_offset", "1", "2"]
        note, where_to_look = result.stderr.splitlines()
        assert note == "1 group of a kind"
        assert where_to_look.endswith(r"show records --tables tables --group 'g\x1b'")
        assert self.group_counts == [None]

    def test_an_answer_that_was_not_compared_is_exit_status_1(
        self, verify: Callable[..., Result]
    ) -> None:
        incomplete = Verification(moving={AnswerKey("offset", "g", "t", 0)})

        result = verify(incomplete, exit_code=1)
        assert "1 answers changed in every round and were not compared" in result.stdout
        (found,) = json_lines(verify(incomplete, "--output", "json", exit_code=1))
        assert (found["is_equal"], found["is_complete"]) == (True, False)

    def test_some_groups_are_compared(self, verify: Callable[..., Result]) -> None:
        verify(Verification(), "--groups", "7", exit_code=0)
        assert self.group_counts == [7]

    @pytest.mark.parametrize("duration", ["60", "0s", "0 seconds", "5  m", "5 ss", "1w", "-1s"])
    def test_a_duration_has_a_unit(self, duration: str, verify: Callable[..., Result]) -> None:
        result = verify(Verification(), "--every", duration, exit_code=2)
        assert "is not a duration such as 60s, 5m, 1h or 7d" in result.stderr

    def test_a_watch_goes_on_until_it_is_stopped(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A broker that does not answer for a while does not end it, a difference is remembered."""
        answers: list[object] = [Verification(), TimeoutError("no answer"), self.DIFFERENT]

        def verify_cluster(*_given: object, **_options: object) -> Verification:
            answer = answers.pop(0)
            if not answers:
                signal.raise_signal(signal.SIGINT)
            if isinstance(answer, Verification):
                return answer
            raise TimeoutError("no answer")

        monkeypatch.setattr(streaming.verify.verify, "verify_cluster", verify_cluster)
        result = call(*VERIFY, "--every", "0.01s", exit_code=1)

        assert result.stdout.count("equal: ") == 2
        assert "not compared: no answer" in result.stderr

    def test_json_is_one_object(self, verify: Callable[..., Result]) -> None:
        (found,) = json_lines(verify(self.DIFFERENT, "--output", "json", exit_code=1))

        assert not found["is_equal"]
        assert found["equal"] == {"group": 1, "member": 0, "offset": 0, "pending": 0}
        (difference,) = found["differences"]
        assert (difference["group_id"], difference["broker"], difference["tables"]) == (
            "g\x1b",
            1,
            2,
        )
        assert [key["group_id"] for key in found["moving"]] == ["h"]

    def test_tables_that_are_behind_are_exit_status_1(self, verify: Callable[..., Result]) -> None:
        assert verify(Verification(behind={3: 5}), exit_code=1).stdout == (
            "behind: the tables lack 5 record offsets in 1 log partitions (3)\n"
        )
