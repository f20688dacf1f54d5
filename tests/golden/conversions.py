"""Records a log in which groups change their type: `python -m tests.golden.conversions`.

Real clients make a broker convert them: classic to consumer and back while members stay, classic to
streams and back while the group is empty. Each recording has ids and times of its own, so it is
recorded by hand, for a new version of Kafka. `tests/unit/replay/test_conversions.py` compacts it.
"""

from __future__ import annotations

import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from streaming.jvm.jars import KAFKA_VERSION
from streaming.kafka.group_admin import GroupAdmin
from streaming.local.broker.embedded import EmbeddedBroker
from tests.support.clients.kafka_tools import running_kafka_client

CONVERSIONS = Path(__file__).parent / KAFKA_VERSION / "conversions.log"
CONSUMERS, STREAMS = "to-consumer-and-back", "to-streams-and-back"
_APPLICATION = Path(__file__).parents[1] / "integration" / "java" / "StreamsGroup.java"
_PATIENCE_S = 90
_PROPERTIES = {
    "offsets.topic.num.partitions": 1,
    "group.initial.rebalance.delay.ms": 0,
    "group.consumer.min.heartbeat.interval.ms": 200,
    "group.consumer.heartbeat.interval.ms": 500,
    "group.consumer.migration.policy": "bidirectional",
    "group.streams.heartbeat.interval.ms": 500,
    "group.streams.min.heartbeat.interval.ms": 200,
}


def record() -> bytes:
    """The log of the one log partition."""
    with ExitStack() as running:
        folder = Path(running.enter_context(tempfile.TemporaryDirectory()))
        broker = EmbeddedBroker(folder=folder / "broker", properties=_PROPERTIES)
        running.enter_context(broker)
        broker.create_offsets_topic()
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        for future in admin.create_topics([NewTopic(name, 3, 1) for name in ("a", "b")]).values():
            future.result()
        with GroupAdmin(broker.bootstrap_servers) as groups:
            _consumers(broker, groups)
            _streams(broker, groups, folder)
        broker.stop()
        return broker.read_log(0)


def _consumers(broker: EmbeddedBroker, groups: GroupAdmin) -> None:
    members: list[Consumer] = []

    def settle(group_type: str, state: str = "Stable") -> None:
        _settle(groups, CONSUMERS, group_type, state, members)

    def join(protocol: str) -> Consumer:
        members.append(_consumer(broker, CONSUMERS, protocol))
        return members[-1]

    def leave(member: Consumer) -> None:
        members.remove(member)
        member.close()

    first, second = join("classic"), join("classic")
    settle("classic")
    third = join("consumer")
    settle("consumer")
    leave(first)
    fourth = join("consumer")
    settle("consumer")
    leave(second)
    settle("consumer")
    # Back: the last member of the consumer protocol leaves those of the classic one alone.
    fifth = join("classic")
    settle("consumer")
    leave(third)
    settle("consumer")
    leave(fourth)
    settle("classic")
    leave(fifth)
    settle("classic", "Empty")


def _streams(broker: EmbeddedBroker, groups: GroupAdmin, folder: Path) -> None:
    for group_type in ("classic", "streams", "classic"):
        members: list[Consumer] = []
        if group_type == "classic":
            members.append(_consumer(broker, STREAMS, "classic"))
            _settle(groups, STREAMS, "classic", "Stable", members)
            members[0].close()
        else:
            arguments = (broker.bootstrap_servers, STREAMS, "a", "b", str(folder / "state"))
            log = folder / "application.log"
            with running_kafka_client(log, str(_APPLICATION), *arguments, "streams"):
                _settle(groups, STREAMS, "streams", "Stable", members)
        _settle(groups, STREAMS, group_type, "Empty", [])


def _consumer(broker: EmbeddedBroker, group_id: str, protocol: str) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": group_id,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 200,
        }
    )
    consumer.subscribe(["a", "b"])
    return consumer


def _settle(
    groups: GroupAdmin, group_id: str, group_type: str, state: str, members: list[Consumer]
) -> None:
    """Until the group is so and stays so for as long as a commit takes."""
    deadline = time.monotonic() + _PATIENCE_S
    settled_at: float | None = None
    while settled_at is None or time.monotonic() < settled_at + 1.5:
        for member in members:
            member.poll(0.05)
        group = groups.list_groups().get(group_id)
        is_so = group is not None and (group.group_type, group.state) == (group_type, state)
        settled_at = None if not is_so else settled_at or time.monotonic()
        if time.monotonic() > deadline:
            raise TimeoutError(f"{group_id} is {group} and not {group_type}, {state}")


if __name__ == "__main__":
    CONVERSIONS.write_bytes(record())
