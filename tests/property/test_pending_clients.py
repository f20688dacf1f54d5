"""The clients of pending offsets against a replay record by record: any log, any cut."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator_state.log.log_decoder import decode_record_set
from coordinator_state.log.record_batch import RecordBatch, read_record_batches
from coordinator_state.replay.groups import Group, GroupMember
from coordinator_state.replay.loader import ReferenceLoader
from coordinator_state.replay.offsets import OffsetKey, Semantics
from coordinator_state.wire.primitives import uuid_text
from tests.support.logs.logs import segment
from tests.support.logs.random_logs import TOPICS, logs
from tests.support.tables.plan_tables import LOG_PARTITION, PlanTables

NAMES = {uuid_text(topic_id): name for topic_id, name in TOPICS}
Clients = dict[int, tuple[str, str] | None]


def _owner(group: Group, key: OffsetKey) -> GroupMember | None:
    for member in group.members:
        for one in member.assignment or ():
            topic = NAMES.get(one.topic_id or "", one.topic)
            if (topic, one.partition) == (key.topic, key.partition):
                return member
    return None


def _client(
    group: Group | None, producer_id: int, key: OffsetKey, before: Mapping[int, int], found: Clients
) -> tuple[str, str] | None:
    """The client of a commit; `before` has the producer id of each pending record offset."""
    member = None if group is None else _owner(group, key)
    if member is None:
        carried = [
            found[record_offset]
            for record_offset in sorted(before, reverse=True)
            if before[record_offset] == producer_id and found[record_offset]
        ]
        if carried:
            return carried[0]
        if group is None or len(group.members) != 1:
            return None
        (member,) = group.members
    return member.client_id, member.client_host


def _expected(buffer: bytes, semantics: Semantics) -> Clients:
    """The client of each offset that is pending at the end, by record offset."""
    loader, found = ReferenceLoader(semantics), Clients()
    for batch in read_record_batches(buffer):
        assert isinstance(batch, RecordBatch)
        groups, before = dict(loader.groups), _producers(loader)
        loader.load([batch])
        for record_offset in _producers(loader).keys() - before.keys():
            key, producer_id = _producers(loader)[record_offset]
            of_group = {at: one for at, (of, one) in before.items() if of.group_id == key.group_id}
            group = groups.get(key.group_id)
            found[record_offset] = _client(group, producer_id, key, of_group, found)
    return {record_offset: found[record_offset] for record_offset in _producers(loader)}


def _producers(loader: ReferenceLoader) -> dict[int, tuple[OffsetKey, int]]:
    return {
        record.record_offset: (key, producer_id)
        for producer_id, pending in loader.pending.items()
        for key, record in pending.items()
    }


@pytest.mark.parametrize("semantics", list(Semantics))
@pytest.mark.parametrize("with_history", [True, False])
@settings(max_examples=100)
@given(data=st.data())
def test_any_cut_gives_the_clients_of_a_replay_record_by_record(
    semantics: Semantics, with_history: bool, data: st.DataObject
) -> None:
    buffer, end = segment(data.draw(logs()))
    cuts = sorted(data.draw(st.sets(st.integers(0, end), max_size=6)) | {end})
    tables = PlanTables(semantics, with_history=with_history, topic_names=NAMES)
    for start, cut in zip(chain([0], cuts), cuts, strict=False):
        decoded = decode_record_set(
            buffer, log_partition=LOG_PARTITION, from_offset=start, to_offset=cut, compact=True
        )
        rows = pa.Table.from_batches([decoded.rows])
        if data.draw(st.booleans()):
            tables.apply(rows, cut, crash_after="groups")
        tables.apply(rows, cut)
        if data.draw(st.booleans()):
            tables.apply(rows, cut)
    found = {
        row["record_offset"]: (row["client_id"], row["client_host"])
        for row in tables.pending.to_pylist()
    }
    expected = _expected(buffer, semantics)
    assert found == {at: client or (None, None) for at, client in expected.items()}
