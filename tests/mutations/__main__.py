"""Damaged records by the million: `python -m tests.mutations --records 10_000_000`.

Records of every type are damaged (bits flipped, cut off, filled with pieces of others, lengths made
huge) and put into sound record batches. Both decoders must make the same rows of them, and never
anything but rows.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import resource
import sys
import time
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise

from coordinator_state.log.kernel import decode_record_set as decode_compiled
from coordinator_state.log.log_decoder import decode_record_set as decode_readable
from coordinator_state.log.record_batch_writer import write_record_batch
from tests.support.logs.random_logs import RandomEvents

RECORDS_PER_BATCH = 500
BATCHES_PER_SET = 10
SAMPLES = 2_000
_HUGE = tuple(map(bytes.fromhex, ("7fffffff", "ffffffff", "7fff", "ffffffff0f", "8080808080")))

Bytes = bytes | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of damaged records, by row kind."""

    rows: Counter[str]
    max_rss_bytes: int


class Mutations:
    """Draws damaged records."""

    def __init__(self, seed: int) -> None:
        self._choose = random.Random(seed)
        draws = RandomEvents()
        events = [
            event for _ in range(SAMPLES) for event in draws.draw(self._choose.randrange(1 << 32))
        ]
        self._samples = [(e.key, e.value) for e in events if e.control_type is None]
        self._pieces = [raw for sample in self._samples for raw in sample if raw]

    def record(self) -> tuple[Bytes, Bytes]:
        """A key and a value, one of them damaged, or both."""
        key, value = self._choose.choice(self._samples)
        which = self._choose.randrange(4)
        if which in (0, 3):
            key = self.damaged(key)
        if which in (1, 2, 3):
            value = self.damaged(value)
        return key, value

    def record_set(self, records: int) -> bytes:
        """Record batches of damaged records."""
        offsets = range(0, records + RECORDS_PER_BATCH, RECORDS_PER_BATCH)
        return b"".join(
            write_record_batch(
                first,
                [(n, 1_700_000_000_000 + n, *self.record()) for n in range(last - first)],
            )
            for first, last in pairwise(min(offset, records) for offset in offsets)
            if last > first
        )

    def damaged(self, raw: Bytes) -> Bytes:
        if not raw:
            return self._choose.choice([None, b"", b"\x00"])
        for _ in range(self._choose.choice([1, 1, 1, 2, 5])):
            raw = self._damaged_once(raw)
        return raw

    def _damaged_once(self, raw: bytes) -> bytes:
        choose = self._choose
        at = choose.randrange(len(raw) + 1)
        kind = choose.randrange(4)
        if kind == 0:
            position = min(at, len(raw) - 1)
            if position < 0:
                return raw
            flipped = bytearray(raw)
            flipped[position] ^= 1 << choose.randrange(8)
            return bytes(flipped)
        if kind == 1:
            return raw[:at]
        if kind == 2:
            piece = choose.choice(self._pieces)
            start = choose.randrange(len(piece) + 1)
            end = choose.randrange(start, len(piece) + 1)
            return raw[:at] + piece[start:end] + raw[at + choose.choice([0, end - start]) :]
        huge = choose.choice(_HUGE)
        return raw[:at] + huge + raw[at + len(huge) :]


def try_record_set(raw: bytes, records: int) -> Counter[str]:
    """Decode a record set both ways and count its rows by kind.

    Raises:
        AssertionError: the decoders disagree, or a record is lost.
    """
    readable = decode_readable(raw, log_partition=0, from_offset=0, to_offset=records)
    compiled = decode_compiled(raw, log_partition=0, from_offset=0, to_offset=records)
    if not readable.rows.equals(compiled.rows):
        raise AssertionError("the decoders disagree")
    if readable.rows.num_rows != records:
        raise AssertionError(f"{readable.rows.num_rows} rows of {records} records")
    return Counter(readable.rows.column("row_kind").to_pylist())


def run(seed: int, records: int) -> Outcome:
    """Try so many damaged records."""
    mutations, rows = Mutations(seed), Counter[str]()
    while (left := records - rows.total()) > 0:
        size = min(left, RECORDS_PER_BATCH * BATCHES_PER_SET)
        rows += try_record_set(mutations.record_set(size), size)
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return Outcome(rows, kilobytes * 1024)


def _run_share(arguments: tuple[int, int]) -> Outcome:
    return run(*arguments)


def main() -> None:
    """Share the records among processes and print what became of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    started = time.monotonic()
    shares = [
        (options.seed + number, options.records // options.processes)
        for number in range(options.processes)
    ]
    with multiprocessing.get_context("spawn").Pool(options.processes) as pool:
        outcomes = pool.map(_run_share, shares, chunksize=1)
    rows = sum((outcome.rows for outcome in outcomes), Counter[str]())
    largest = max(outcome.max_rss_bytes for outcome in outcomes)
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(rows.items()))
    sys.stdout.write(
        f"{rows.total():,} damaged records: {kinds}; the decoders agree; at most "
        f"{largest >> 20} MiB a process, {time.monotonic() - started:.0f} s\n"
    )


if __name__ == "__main__":
    main()
