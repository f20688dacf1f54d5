"""The command `coordinator-state decode`; its Python API is `streaming.cli.record_json`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import click

from coordinator_state.records.internal_topics import INTERNAL_TOPICS, OFFSETS_TOPIC
from streaming.cli.options import (
    kafka_option,
    option,
    optional_bootstrap_servers_option,
    usage_error,
)
from streaming.errors import ConfigurationError
from streaming.views.output import output_of


@click.command()
@click.argument("key", required=False, metavar="[KEY")
@click.argument("value", required=False, metavar="[VALUE]]")
@option(
    "--topic",
    type=click.Choice(INTERNAL_TOPICS),
    default=OFFSETS_TOPIC,
    help="Topic of the records.",
)
@option("--file", metavar="FILE", help="Log segment, or lines of hex: KEY [VALUE]; - is stdin.")
@optional_bootstrap_servers_option()
@option("--log-partition", type=click.IntRange(min=0), help="Partition of the topic to read.")
@option(
    "--from-offset",
    type=click.IntRange(min=0),
    help="First record offset to read. [default: log start]",
)
@option(
    "--to-offset",
    type=click.IntRange(min=0),
    help="Record offset at which to stop, exclusive. [default: log end]",
)
@kafka_option
def decode(
    *,
    key: str | None,
    value: str | None,
    topic: str,
    file: str | None,
    bootstrap_servers: str | None,
    log_partition: int | None,
    from_offset: int | None,
    to_offset: int | None,
    kafka: Mapping[str, str],
) -> None:
    """Decode coordinator records from hex, a file or the log into JSON lines.

    The topics are __consumer_offsets, __transaction_state (the state of each transactional id) and
    __share_group_state (the delivery state of share groups). Every record type has the JSON form of
    Kafka's message formatters. Records of a segment or of the log also have recordOffset,
    producerId and isTransactional. Transaction markers are shown. A record that cannot be decoded
    is a line with "error", and decoding continues. A KEY without VALUE is a tombstone. Python API:
    record_json and record_set_json of streaming.cli.record_json.

    \b
    Examples:
      coordinator-state decode 000100016700017400000003
      coordinator-state decode --file 00000000000000000000.log
      coordinator-state decode --bootstrap-servers localhost:9092 --log-partition 12
      coordinator-state decode --topic __transaction_state --bootstrap-servers localhost:9092 \
        --log-partition 3
    """
    sources = [source for source in (key, file, log_partition) if source is not None]
    if len(sources) != 1:
        raise usage_error("give one of KEY [VALUE], --file and --log-partition")
    offsets = {"from_offset": from_offset, "to_offset": to_offset}
    set_offsets = {name: offset for name, offset in offsets.items() if offset is not None}
    if log_partition is not None:
        documents = _from_log(bootstrap_servers, kafka, topic, log_partition, set_offsets)
    elif file is not None:
        documents = _from_file(file, topic, set_offsets)
    else:
        documents = _from_hex(key, value, topic)
    output_of("json").rows(documents, ())


def _from_hex(key: str | None, value: str | None, topic: str) -> Iterable[dict[str, Any]]:
    from coordinator_state.records.record_json import record_json
    from streaming.cli.record_json import RECORD_TYPES_OF_TOPIC, bytes_of

    try:
        return [record_json(bytes_of(key), bytes_of(value), RECORD_TYPES_OF_TOPIC[topic])]
    except ValueError as error:
        raise ConfigurationError(str(error)) from error


def _from_file(file: str, topic: str, offsets: Mapping[str, int]) -> Iterable[dict[str, Any]]:
    from streaming.cli.record_json import RECORD_TYPES_OF_TOPIC, lines_json, record_set_json

    try:
        content = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise ConfigurationError(f"cannot read {file}: {error.strerror}") from error
    record_types = RECORD_TYPES_OF_TOPIC[topic]
    # Every segment has a zero byte, since it begins with a 64-bit record offset. Text has none.
    if b"\0" in content:
        return record_set_json(content, record_types, **offsets)
    return lines_json(content.decode("ascii", errors="replace"), record_types)


def _from_log(
    bootstrap_servers: str | None,
    kafka: Mapping[str, str],
    topic: str,
    log_partition: int,
    offsets: Mapping[str, int],
) -> Iterable[dict[str, Any]]:
    from streaming.cli.record_json import RECORD_TYPES_OF_TOPIC, log_json
    from streaming.kafka.client_config import kafka_client_config
    from streaming.kafka.fetch import LogClient

    if bootstrap_servers is None:
        raise usage_error("--log-partition needs --bootstrap-servers")
    with LogClient(bootstrap_servers, kafka_client_config(kafka), topic) as log:
        yield from log_json(log, log_partition, RECORD_TYPES_OF_TOPIC[topic], **offsets)
