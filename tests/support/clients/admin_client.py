"""An admin client of an embedded broker."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

from kafka import KafkaAdminClient

from streaming.local.broker.embedded import EmbeddedBroker


@contextmanager
def admin_of(broker: EmbeddedBroker) -> Iterator[KafkaAdminClient]:
    with closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)) as admin:
        yield admin
