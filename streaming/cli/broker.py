"""The command `coordinator-state broker`; its Python API is `EmbeddedBroker`."""

from __future__ import annotations

import threading
from typing import Any

import click

from streaming.cli.options import option, output_option
from streaming.errors import ConfigurationError
from streaming.run.signals import interrupt_on_signals
from streaming.views.output import output_of

_POLL_S = 0.5


@click.command()
@option(
    "--kafka-version",
    metavar="VERSION",
    help="Kafka version. 3.9.1, 4.0.0, 4.1.2, 4.2.0, 4.3.1 and 4.4.0 are tested, and their jars "
    "have locked checksums. [default: 4.4.0]",
)
@option(
    "--folder",
    metavar="DIR",
    help="Data folder of the broker; the folder of an earlier broker can be reused. "
    "[default: a temporary folder]",
)
@option("--port", type=click.IntRange(1, 65535), help="Port on 127.0.0.1. [default: a free port]")
@option(
    "--broker-property",
    multiple=True,
    metavar="KEY=VALUE",
    help="Broker property, such as offsets.topic.num.partitions=4; repeatable.",
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
    """Run a local Kafka broker until Ctrl-C, for trials and tests.

    Needs JDK 17 or later. Downloads Kafka's jars into a cache on first use. Listens on 127.0.0.1
    only. Python API: streaming.local.broker.embedded.EmbeddedBroker.

    \b
    Examples:
      coordinator-state broker --port 9092
      coordinator-state broker --kafka-version 3.9.1
      coordinator-state broker --folder kafka --broker-property offsets.topic.num.partitions=4
    """
    from streaming.local.broker.embedded import EmbeddedBroker
    from streaming.run.stderr import write_note

    properties = _pairs(broker_property)
    options: dict[str, Any] = {"folder": folder, "port": port, "properties": properties}
    if kafka_version is not None:
        options["version"] = kafka_version
    write_note("starting the broker; the first time its jars are fetched ...")
    with interrupt_on_signals(), EmbeddedBroker(**options) as running:
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
        raise RuntimeError(f"the broker exited unexpectedly, see {running.log_file}")


def _pairs(properties: tuple[str, ...]) -> dict[str, str]:
    pairs = [pair.partition("=") for pair in properties]
    for name, equals, _ in pairs:
        if not name or not equals:
            raise ConfigurationError(f"--broker-property {name!r} is not KEY=VALUE")
    return {name: value for name, _, value in pairs}
