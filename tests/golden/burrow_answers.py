"""Record the answers of a running Burrow: each kind of address, for each of its groups.

    python -m tests.golden.burrow_answers http://127.0.0.1:8000 > tests/golden/burrow_answers.json

`tests/golden/burrow_answers.json` has those of linkedin/Burrow at commit ced55ba (after 1.9.5),
beside `coordinator-state demo` with Kafka 4.4.0. The group of Burrow itself is left out.
"""

from __future__ import annotations

import json
import sys
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

PREFIX = "/v3/kafka"


def answer(server: str, path: str) -> dict[str, Any]:
    """The status and the body of an answer, without the name of the machine."""
    try:
        with urlopen(f"{server}{path}") as found:  # noqa: S310 - a server of this machine
            status, body = found.status, json.load(found)
    except HTTPError as error:
        status, body = error.code, json.load(error)
    return {"status": status, "body": body | {"request": body["request"] | {"host": "burrow"}}}


def addresses(server: str) -> list[str]:
    """Each kind of address, also of what does not exist."""
    (cluster,) = answer(server, PREFIX)["body"]["clusters"]
    of_cluster = f"{PREFIX}/{cluster}"
    groups = answer(server, f"{of_cluster}/consumer")["body"]["consumers"]
    topics = answer(server, f"{of_cluster}/topic")["body"]["topics"]
    return [
        PREFIX,
        *(f"{PREFIX}/{name}" for name in (cluster, "nope", "nope/topic", "nope/consumer")),
        *(f"{PREFIX}/nope/consumer/nope{view}" for view in ("", "/status", "/lag")),
        *(f"{PREFIX}/nope/topic/nope{view}" for view in ("", "/consumers")),
        *(f"{of_cluster}/{kind}" for kind in ("topic", "consumer")),
        *(
            f"{of_cluster}/topic/{topic}{view}"
            for topic in (*sorted(topics), "nope")
            if not topic.startswith("__")
            for view in ("", "/consumers")
        ),
        *(
            f"{of_cluster}/consumer/{group}{view}"
            for group in (*sorted(groups), "nope")
            if not group.startswith("burrow-")
            for view in ("", "/status", "/lag")
        ),
    ]


if __name__ == "__main__":
    (server,) = sys.argv[1:]
    found = {path: answer(server, path) for path in addresses(server)}
    sys.stdout.write(json.dumps(found, indent=1) + "\n")
