"""Faults of a cluster of three brokers while `run` reads it: `python -m tests.cluster_faults`.

The groups of the demo commit, rebalance, set back, delete and use transactions; their clients begin
anew where a fault is too much for them. `run` is a process of its own that nobody helps. After each
fault the tables are held against the brokers' answers, and, history included, row by row against
those of one load that nobody disturbed. The last fault takes records away: an unclean election,
which the query must notice.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

import click
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka import TopicPartition as Position
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._metadata import PartitionMetadata
from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import AlterConfigOp, ConfigResource, ConfigResourceType

from coordinator_state.replay.partitioner import OFFSETS_TOPIC, partition_for
from streaming.errors import ConfigurationError
from streaming.kafka.fetch import LogClient
from streaming.local.demo.groups import (
    BROKER_PROPERTIES,
    INVOICES,
    ORDERS,
    Clients,
    Steps,
    create_topics,
)
from streaming.local.demo.traffic import Traffic, TrafficThread
from streaming.run.stderr import write_note
from streaming.tables.reader import TableReader
from streaming.tables.schemas import LOAD_PROGRESS
from streaming.verify.broker_answers import BrokerAnswers
from streaming.verify.table_answers import TableAnswers
from streaming.verify.verify import verify
from streaming.views.output import output_of
from tests.support.brokers.embedded_cluster import EmbeddedCluster
from tests.support.tables.undisturbed import differences, load, run_command, table_rows

LOG_PARTITIONS = 6
CLUSTER_PROPERTIES: Mapping[str, object] = {
    **BROKER_PROPERTIES,
    "offsets.topic.num.partitions": LOG_PARTITIONS,
    # Preferred leaders come back when a fault is to have them, and not by a timer.
    "auto.leader.rebalance.enable": "false",
}

_PATIENCE_S = 240.0
_POLL_S = 0.2
_ANSWER_S = 10.0
_STALL_S = 30.0
_OUTAGE_S = 60.0
_LEADERLESS_S = 15.0
_TRAFFIC_S = 5.0
"""Of the groups, before a fault and once `run` is there again: it is to have something to do."""
_LOST_S = 10.0
"""What is committed for so long is on one broker only. `run`, which faults do not ask, has to have
read some of it by then: else it has nothing that the next leader lacks."""
_DIFFERENCES_SHOWN = 20
_PREFERRED = 0
_IS_USUAL = " INFO "
_RESTARTED = "restarting it in"
_TRUNCATED = "the log was truncated to"


class PersistentTraffic(Traffic):
    """The demo's traffic; a client that fails is closed and begins anew."""

    def _thread(
        self, name: str, steps: Callable[[], Steps], stop: threading.Event
    ) -> TrafficThread:
        return super()._thread(name, lambda: _again_and_again(steps), stop)


def _again_and_again(steps: Callable[[], Steps]) -> Steps:
    while True:
        try:
            yield from steps()
        except Exception:  # noqa: BLE001 - what clients raise in the face of these faults is theirs
            yield False


@dataclass(frozen=True, slots=True, kw_only=True)
class Endured:
    """One fault and what became of it; `current_after_s` counts from the fault's end."""

    fault: str
    lasted_s: float
    current_after_s: float
    restarts: int
    lines: int
    records: int
    differences: list[str] = field(default_factory=list)


class Stage:
    """A cluster with `__consumer_offsets`, on which faults are done.

    Attributes:
        cluster: three brokers.
        choose: what faults choose by.
    """

    def __init__(self, cluster: EmbeddedCluster, seed: int) -> None:
        self.cluster = cluster
        self.choose = random.Random(seed)

    def leaders(self) -> dict[int, int]:
        """The leader of each log partition; -1 is none."""
        with closing(LogClient(self.cluster.bootstrap_servers)) as log:
            return {p: node_id for p, (node_id, _) in log.describe().leaders.items()}

    def await_leaders(self, but_not: int | None = None) -> None:
        """Wait until every log partition has a leader, and none has that one."""
        self._await(lambda: not {-1, but_not} & set(self.leaders().values()))

    def await_in_sync(self, brokers: set[int]) -> None:
        """Wait until exactly these brokers are in sync, for every log partition."""
        self._await(lambda: all(set(p.isrs) == brokers for p in self._described().values()))

    def whole(self) -> None:
        """Start what is away, and wait until everything is in sync."""
        self.cluster.start()
        self.await_in_sync(set(self.cluster.brokers))

    def move_leaders(self) -> None:
        """Make other brokers the preferred leaders, and have them elected."""
        with self.admin() as admin:
            moved = {
                TopicPartition(OFFSETS_TOPIC, p): [*one.replicas[1:], one.replicas[0]]
                for p, one in self._described().items()
            }
            admin.alter_partition_reassignments(moved)
            admin.elect_leaders(_PREFERRED, {OFFSETS_TOPIC: [at.partition for at in moved]})
        wanted = {at.partition: nodes[0] for at, nodes in moved.items()}
        self._await(lambda: self.leaders() == wanted)

    def allow_unclean_election(self) -> None:
        """Let a replica that lacks records lead `__consumer_offsets`."""
        config = {"unclean.leader.election.enable": (AlterConfigOp.SET, "true")}
        with self.admin() as admin:
            admin.alter_configs(
                [ConfigResource(ConfigResourceType.TOPIC, OFFSETS_TOPIC, configs=config)]
            )

    @contextmanager
    def admin(self) -> Iterator[KafkaAdminClient]:
        """An admin client; every broker must be there."""
        servers = self.cluster.bootstrap_servers
        with closing(KafkaAdminClient(bootstrap_servers=servers)) as admin:
            yield admin

    def commit(self, group_id: str, *offsets: int) -> None:
        """Commit offsets of a partition of orders, one after another."""
        with closing(Consumer(self._client(group_id))) as consumer:
            for offset in offsets:
                consumer.commit(offsets=[Position(ORDERS, 0, offset)], asynchronous=False)

    def commit_across_a_move(self, group_id: str, offset: int) -> None:
        """Kill the coordinator in the middle of a transaction, and commit at the next one."""
        producer = Producer(self._client() | {"transactional.id": group_id})
        producer.init_transactions(_PATIENCE_S)
        producer.begin_transaction()
        producer.produce(INVOICES, b"in the middle")
        with closing(Consumer(self._client(group_id))) as consumer:
            producer.send_offsets_to_transaction(
                [Position(ORDERS, 0, offset)], consumer.consumer_group_metadata(), _PATIENCE_S
            )
        coordinator = self.leaders()[partition_for(group_id, LOG_PARTITIONS)]
        self.cluster.brokers[coordinator].kill()
        self.await_leaders(but_not=coordinator)
        producer.commit_transaction(_PATIENCE_S)

    def _client(self, group_id: str | None = None) -> dict[str, str | int | float | bool]:
        servers = self.cluster.bootstrap_servers
        client: dict[str, str | int | float | bool] = {"bootstrap.servers": servers, "log_level": 0}
        return client if group_id is None else client | {"group.id": group_id}

    def _described(self) -> Mapping[int, PartitionMetadata]:
        topics = AdminClient(self._client()).list_topics(OFFSETS_TOPIC, timeout=_ANSWER_S).topics
        partitions: Mapping[int, PartitionMetadata] = topics[OFFSETS_TOPIC].partitions
        return partitions

    def _await(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            with suppress(KafkaException):  # the broker that was asked is away
                if condition():
                    return
            if time.monotonic() > deadline:
                raise TimeoutError(f"the cluster is not as awaited after {_PATIENCE_S:.0f} s")
            time.sleep(_POLL_S)


def leader_moves(stage: Stage) -> None:
    """Every log partition gets another leader, five times."""
    for _ in range(5):
        stage.move_leaders()
        # The fault itself: the next election comes now at once, now when the query goes on.
        time.sleep(stage.choose.uniform(0, 2))


def broker_killed(stage: Stage) -> None:
    """A leader is killed and comes back when others lead."""
    node_id = stage.choose.choice(sorted(stage.leaders().values()))
    stage.cluster.brokers[node_id].kill()
    stage.await_leaders(but_not=node_id)
    time.sleep(_LEADERLESS_S)
    stage.whole()


def broker_stalled(stage: Stage) -> None:
    """A leader is stopped (SIGSTOP) and goes on when others lead."""
    broker = stage.cluster.brokers[stage.choose.choice(sorted(stage.leaders().values()))]
    broker.pause()
    time.sleep(_STALL_S)
    broker.resume()
    stage.whole()


def all_brokers_down(stage: Stage) -> None:
    """Every broker is killed, and all come back after a minute."""
    for broker in stage.cluster.brokers.values():
        broker.kill()
    time.sleep(_OUTAGE_S)
    stage.whole()


def coordinator_moved(stage: Stage) -> None:
    """The coordinator is killed between the offsets of a transaction and its commit."""
    stage.commit_across_a_move("moved", stage.choose.randrange(1_000_000))
    stage.whole()


def unclean_election(stage: Stage) -> None:
    """The records of some seconds are gone: they were on the leader only, and it is away."""
    leader = stage.leaders()[partition_for("truncated", LOG_PARTITIONS)]
    followers = [node_id for node_id in stage.cluster.brokers if node_id != leader]
    stage.allow_unclean_election()
    for node_id in followers:
        stage.cluster.brokers[node_id].kill()
    stage.await_in_sync({leader})
    stage.commit("truncated", *range(1, 11))
    time.sleep(_LOST_S)
    stage.cluster.brokers[leader].kill()
    stage.cluster.brokers[followers[0]].start()
    stage.await_leaders(but_not=leader)


FAULTS: Mapping[str, Callable[[Stage], None]] = {
    "leader-moves": leader_moves,
    "broker-killed": broker_killed,
    "broker-stalled": broker_stalled,
    "all-brokers-down": all_brokers_down,
    "coordinator-moved": coordinator_moved,
    "unclean-election": unclean_election,
}


class Run:
    """A `run` in a process of its own; its standard error is a file."""

    def __init__(self, servers: str, tables: Path) -> None:
        self.tables = tables
        self.log = tables.with_suffix(".log")
        with self.log.open("wb") as stderr:
            self._process = subprocess.Popen(
                run_command(servers, tables), stdin=subprocess.DEVNULL, stderr=stderr
            )

    def lines(self) -> list[str]:
        """What it said so far."""
        return self.log.read_text().splitlines()

    def await_offsets(self, ends: Mapping[int, int]) -> None:
        """Wait until the tables are there.

        Raises:
            RuntimeError: it ended, or it took too long.
        """
        deadline = time.monotonic() + _PATIENCE_S
        while any(self._next_offsets().get(p, -1) < end for p, end in ends.items()):
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"run is not at {ends}: " + "\n".join(self.lines()[-20:]))
            time.sleep(_POLL_S)

    def await_truncation(self) -> None:
        """Wait until it loads the log partition again."""
        deadline = time.monotonic() + _PATIENCE_S
        while not any(_TRUNCATED in line for line in self.lines()):
            if time.monotonic() > deadline:
                raise RuntimeError("the truncation was not noticed: " + "\n".join(self.lines()))
            time.sleep(_POLL_S)

    def close(self) -> None:
        """Stop it as Ctrl-C does."""
        self._process.send_signal(signal.SIGINT)
        self._process.wait(_PATIENCE_S)

    def _next_offsets(self) -> dict[int, int]:
        try:
            rows = TableReader(str(self.tables)).read(LOAD_PROGRESS.name)
        except ConfigurationError:  # they are not there yet
            return {}
        return dict(
            zip(rows["log_partition"].to_pylist(), rows["next_offset"].to_pylist(), strict=True)
        )


def endure(folder: Path, faults: list[str], seed: int) -> Iterator[Endured]:
    """Do one fault after another; everything that is written is below `folder`."""
    with EmbeddedCluster(folder=folder / "cluster", properties=CLUSTER_PROPERTIES) as cluster:
        cluster.create_offsets_topic()
        create_topics(Clients(cluster.bootstrap_servers))
        stage = Stage(cluster, seed)
        with closing(Run(cluster.bootstrap_servers, folder / "tables")) as run:
            run.await_offsets(_log_ends(cluster))
            for name in faults:
                yield _endure(folder, stage, run, name)
        for line in run.lines():
            if _IS_USUAL not in line:
                write_note(line)


def _endure(folder: Path, stage: Stage, run: Run, name: str) -> Endured:
    cluster = stage.cluster
    said, records = len(run.lines()), sum(_log_ends(cluster).values())
    with closing(PersistentTraffic(cluster.bootstrap_servers)) as traffic:
        traffic.start()
        time.sleep(_TRAFFIC_S)
        began_at = time.monotonic()
        FAULTS[name](stage)
        ended_at = time.monotonic()
        if FAULTS[name] is unclean_election:
            run.await_truncation()
            stage.whole()
        run.await_offsets(_log_ends(cluster))
        current_at = time.monotonic()
        time.sleep(_TRAFFIC_S)
    run.await_offsets(_log_ends(cluster))
    found = _differences(cluster.bootstrap_servers, run.tables, folder / f"undisturbed-{name}")
    lines = [line for line in run.lines()[said:] if _IS_USUAL not in line]
    return Endured(
        fault=name,
        lasted_s=round(ended_at - began_at, 1),
        current_after_s=round(current_at - ended_at, 1),
        restarts=sum(_RESTARTED in line for line in lines),
        lines=len(lines),
        records=sum(_log_ends(cluster).values()) - records,
        differences=found,
    )


def _log_ends(cluster: EmbeddedCluster) -> dict[int, int]:
    with closing(LogClient(cluster.bootstrap_servers)) as log:
        return log.high_watermarks()


def _differences(servers: str, tables: Path, undisturbed: Path) -> list[str]:
    """Against the brokers and against a fresh load; `run` goes on meanwhile."""
    with BrokerAnswers(servers) as answers:
        verification = verify(
            answers, lambda: TableAnswers(TableReader(str(tables))), timeout_s=_PATIENCE_S
        )
    load(servers, undisturbed)
    found, expected = table_rows(tables), table_rows(undisturbed)
    return [*map(str, verification.differences), *differences(found, expected)]


@click.command()
@click.option("--fault", "faults", multiple=True, type=click.Choice(list(FAULTS)), help="Which.")
@click.option("--seed", default=time.time_ns, help="What is chosen by.  [default: new]")
def main(faults: tuple[str, ...], seed: int) -> None:
    """Do faults to a cluster, all of them without --fault, and compare."""
    rows = []
    with tempfile.TemporaryDirectory(prefix="coordinator-state-faults-") as folder:
        for endured in endure(Path(folder), list(faults or FAULTS), seed):
            write_note(f"{endured.fault}: {len(endured.differences)} differences")
            for difference in endured.differences[:_DIFFERENCES_SHOWN]:
                write_note(difference)
            rows.append({**asdict(endured), "differences": len(endured.differences)})
    output_of("text").rows(rows, list(rows[0]))
    sys.exit(1 if any(row["differences"] for row in rows) else 0)


if __name__ == "__main__":
    main()
