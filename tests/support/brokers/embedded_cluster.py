"""Several real Kafka brokers on this machine, one cluster: for trials of what befalls clusters.

A controller of its own and brokers beside it, so that any of the brokers, and all of them, may be
stopped, killed and stalled without the cluster losing its memory. Internal topics have a replica on
every broker, up to three.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType

from streaming.local.broker.configuration import (
    BROKER,
    CONTROLLER,
    ClusterNode,
    free_port,
    new_cluster_id,
)
from streaming.local.broker.embedded import EmbeddedBroker

_CONTROLLER_ID = 100
_MOST_REPLICAS = 3


def free_ports(count: int) -> list[int]:
    """Several different free ports."""
    ports: list[int] = []
    while len(ports) < count:
        ports.append(free_port(exclude=ports))
    return ports


class EmbeddedCluster:
    """Brokers 1 to `brokers` and a controller; a context manager that runs them.

    Args:
        brokers: how many.
        folder: where everything of the cluster lives; that of an earlier cluster is not continued.
        properties: broker properties that add to, or replace, those of `EmbeddedBroker`.
    """

    def __init__(self, brokers: int = 3, *, folder: Path, properties: Mapping[str, object]) -> None:
        controller_port, *ports = free_ports(1 + brokers)
        replicas = min(brokers, _MOST_REPLICAS)
        shared = {
            "default.replication.factor": replicas,
            "offsets.topic.replication.factor": replicas,
            "transaction.state.log.replication.factor": replicas,
            "share.coordinator.state.topic.replication.factor": replicas,
            **properties,
        }
        cluster_id = new_cluster_id()

        def node(node_id: int, role: str, port: int) -> EmbeddedBroker:
            return EmbeddedBroker(
                folder=folder / f"{role}-{node_id}",
                port=port,
                properties=shared,
                node=ClusterNode(
                    cluster_id=cluster_id,
                    node_id=node_id,
                    role=role,
                    controller_id=_CONTROLLER_ID,
                    controller_port=controller_port,
                ),
            )

        self._controller = node(_CONTROLLER_ID, CONTROLLER, controller_port)
        self.brokers = {
            node_id: node(node_id, BROKER, port) for node_id, port in enumerate(ports, start=1)
        }

    def __enter__(self) -> EmbeddedCluster:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def bootstrap_servers(self) -> str:
        """Where clients connect: every broker, as host:port with commas."""
        return ",".join(broker.bootstrap_servers for broker in self.brokers.values())

    def start(self) -> None:
        """Start whatever does not run, and return when all accept requests.

        Raises:
            BrokerError: a process ended or did not get ready in time.
        """
        away = [node for node in (self._controller, *self.brokers.values()) if not node.is_running]
        with ThreadPoolExecutor(len(away) or 1) as pool:
            for started in [pool.submit(node.start) for node in away]:
                started.result()

    def create_offsets_topic(self) -> None:
        """Make the cluster create `__consumer_offsets`, as the first consumer group does."""
        next(iter(self.brokers.values())).create_offsets_topic()

    def close(self) -> None:
        """End every process, the brokers first."""
        try:
            with ThreadPoolExecutor(len(self.brokers)) as pool:
                for ended in [pool.submit(broker.close) for broker in self.brokers.values()]:
                    ended.result()
        finally:
            self._controller.close()
