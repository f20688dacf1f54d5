"""`coordinator-state broker`; Python twin: `streaming.local.broker.embedded.EmbeddedBroker`."""

from __future__ import annotations

import threading
from typing import Any

import click

from streaming.cli.options import option, output_option
from streaming.errors import ConfigurationError
from streaming.run.signals import interrupt_on_sigterm
from streaming.views.output import output_of

_POLL_S = 0.5


@click.command()
@option(
    "--kafka-version",
    metavar="VERSION",
    help="Version of Kafka. The jars of 4.2.0 and 3.9.1 are verified, those of others are not. "
    "[default: 4.2.0]",
)
@option(
    "--folder",
    metavar="DIR",
    help="Where the broker keeps its data; an earlier broker's folder is continued. "
    "[default: a temporary one]",
)
@option("--port", type=click.IntRange(1, 65535), help="Port on 127.0.0.1. [default: a free one]")
@option(
    "--broker-property",
    multiple=True,
    metavar="KEY=VALUE",
    help="A broker property, such as offsets.topic.num.partitions=4; repeatable.",
)
@output_option
def broker(
    *,
    kafka_version: str | None,
    folder: str | None,
    port: int | None,
    broker_property: tuple[str, ...],
    output: str,
) -> None:
    """Run a Kafka broker on this machine until Ctrl-C, for trials and tests.

    Needs a JDK 17 or later; Kafka's jars are fetched into a cache the first time. Listens on
    127.0.0.1 only. The Python twin is streaming.local.broker.embedded.EmbeddedBroker.

    \b
    Examples:
      coordinator-state broker --port 9092
      coordinator-state broker --folder kafka --broker-property offsets.topic.num.partitions=4
    """
    from streaming.local.broker.embedded import EmbeddedBroker

    properties = _pairs(broker_property)
    options: dict[str, Any] = {"folder": folder, "port": port, "properties": properties}
    if kafka_version is not None:
        options["version"] = kafka_version
    with interrupt_on_sigterm(), EmbeddedBroker(**options) as running:
        output_of(output).result(
            {
                "bootstrap_servers": running.bootstrap_servers,
                "kafka_version": running.version,
                "folder": str(running.folder),
                "log_file": str(running.log_file),
            },
            f"Kafka {running.version} on {running.bootstrap_servers}, "
            f"data and log in {running.folder}",
        )
        never = threading.Event()
        while running.is_running:
            never.wait(_POLL_S)
        raise RuntimeError(f"the broker ended by itself, see {running.log_file}")


def _pairs(properties: tuple[str, ...]) -> dict[str, str]:
    pairs = [pair.partition("=") for pair in properties]
    for name, equals, _ in pairs:
        if not name or not equals:
            raise ConfigurationError(f"--broker-property {name!r} is not KEY=VALUE")
    return {name: value for name, _, value in pairs}
