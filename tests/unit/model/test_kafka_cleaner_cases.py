"""Kafka's own cases of a cleaner that knows transactions: LogCleanerTest.scala at 4.2.0.

The log that the cleaner leaves loads to what the whole log loads to, at every step of a case.
"""

from __future__ import annotations

import pytest

from coordinator_state.log.record_batch_writer import write_record_batch
from coordinator_state.replay.offsets import Semantics
from tests.support.logs.loader_log import KeyAndValue, Log, commits, committed, waiting

FOO, BAR = ("foo", 0), ("bar", 0)
COMMIT, ABORT = 1, 0
both = pytest.mark.parametrize("semantics", list(Semantics))


class CleanedLog:
    """A log, and the same log after the cleaner: with the steps that it took away left out."""

    def __init__(self) -> None:
        self.whole, self.cleaned = Log(), Log()

    def commit(self, offset: int, *, producer_id: int = -1, key: tuple[str, int] = FOO) -> None:
        """A commit that stays."""
        self._add(commits({key: offset}), producer_id, is_cleaned=False)

    def cleaned_commit(
        self, offset: int, *, producer_id: int = -1, key: tuple[str, int] = FOO
    ) -> None:
        """A commit that is cleaned away."""
        self._add(commits({key: offset}), producer_id, is_cleaned=True)

    def marker(self, producer_id: int, control_type: int, *, is_cleaned: bool = False) -> None:
        self.whole.marker(producer_id, control_type)
        if is_cleaned:
            self.cleaned.next_offset = self.whole.next_offset
        else:
            self.cleaned.marker(producer_id, control_type)

    def empty_batch(self, producer_id: int, *, is_control: bool = False) -> None:
        """What the cleaner keeps of the last batch of a producer: only where it was."""
        self.cleaned.raw += write_record_batch(
            self.cleaned.next_offset - 1,
            [],
            producer_id=producer_id,
            producer_epoch=2,
            is_transactional=True,
            is_control=is_control,
        )

    def tombstone(self, *, is_cleaned: bool = False) -> None:
        (key, _), *_ = commits({FOO: 0})
        self.whole.append((key, None))
        if is_cleaned:
            self.cleaned.next_offset = self.whole.next_offset
        else:
            self.cleaned.append((key, None))

    def _add(self, records: list[KeyAndValue], producer_id: int, *, is_cleaned: bool) -> None:
        logs = [self.whole] if is_cleaned else [self.whole, self.cleaned]
        for log in logs:
            if producer_id < 0:
                log.append(*records)
            else:
                log.transactional(producer_id, *records)
        self.cleaned.next_offset = self.whole.next_offset

    def load(self, semantics: Semantics) -> dict[tuple[str, int], int]:
        """The committed offsets, of both logs alike."""
        whole, cleaned = self.whole.load(semantics), self.cleaned.load(semantics)
        assert (committed(whole), waiting(whole)) == (committed(cleaned), waiting(cleaned))
        return committed(whole)


@both
def test_basic_transaction_aware_cleaning(semantics: Semantics) -> None:
    """What was aborted is cleaned, what another producer commits beside it stays."""
    log = CleanedLog()
    log.cleaned_commit(1, producer_id=1)
    log.commit(2, producer_id=2, key=BAR)
    log.cleaned_commit(3, producer_id=1)
    log.marker(1, ABORT)
    log.marker(2, COMMIT)
    assert log.load(semantics) == {BAR: 2}


@both
def test_commit_marker_removal(semantics: Semantics) -> None:
    """The marker goes when no data of its transaction is left."""
    log = CleanedLog()
    log.cleaned_commit(1, producer_id=1)
    log.marker(1, COMMIT, is_cleaned=True)
    log.commit(2, producer_id=1)
    log.marker(1, COMMIT)
    assert log.load(semantics) == {FOO: 2}


@both
@pytest.mark.parametrize("outcome", [COMMIT, ABORT])
def test_marker_retention_with_empty_batch(semantics: Semantics, outcome: int) -> None:
    """Commit and abort markers of which the records are gone, and an empty batch is left."""
    log = CleanedLog()
    log.cleaned_commit(1, producer_id=1)
    log.empty_batch(1)
    log.marker(1, outcome)
    log.commit(2)
    assert log.load(semantics) == {FOO: 2}


@both
def test_abort_marker_removal(semantics: Semantics) -> None:
    log = CleanedLog()
    log.cleaned_commit(1, producer_id=1)
    log.marker(1, ABORT, is_cleaned=True)
    log.commit(2, producer_id=1)
    assert log.load(semantics) == {}
    log.marker(1, COMMIT)
    assert log.load(semantics) == {FOO: 2}


@both
def test_clean_empty_control_batch(semantics: Semantics) -> None:
    """A marker that was cleaned out of its batch ends nothing, and nothing waits for it."""
    log = CleanedLog()
    log.cleaned_commit(1, producer_id=1)
    log.marker(1, COMMIT, is_cleaned=True)
    log.empty_batch(1, is_control=True)
    log.commit(2, producer_id=2)
    log.marker(2, COMMIT)
    assert log.load(semantics) == {FOO: 2}


@both
def test_clean_tombstone(semantics: Semantics) -> None:
    log = CleanedLog()
    log.cleaned_commit(1)
    log.tombstone(is_cleaned=True)
    assert log.load(semantics) == {}
    log.commit(2)
    assert log.load(semantics) == {FOO: 2}


@both
def test_multi_pass_segment_cleaning_with_aborted_transactions(semantics: Semantics) -> None:
    log = CleanedLog()
    for committed_offset in range(3):
        log.cleaned_commit(committed_offset, producer_id=1)
        log.marker(1, ABORT, is_cleaned=committed_offset < 2)
    log.commit(7, key=BAR)
    assert log.load(semantics) == {BAR: 7}
