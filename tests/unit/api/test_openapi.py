"""The OpenAPI description is true: Schemathesis holds random requests and their answers to it."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from streaming.api.app import create_app
from streaming.api.operations import ADDRESSES
from streaming.http.access import Access
from streaming.served.cluster import Cluster
from tests.support.tables.dashboard_tables import HOSTILE, REWOUND, DashboardTables

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    response_headers_conformance,
    negative_data_rejection,
    unsupported_method,
]
PATHS = [f"/api/v1{path}" for path in ADDRESSES]
OF_GROUPS = [path for path in PATHS if "{" in path]
"""The addresses that name a group or a topic, which random requests hardly ever guess."""
FEW = settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module")
def described(tables: DashboardTables) -> Any:
    access = Access("127.0.0.1", allowed_hosts=("testserver",))
    app = create_app({"prod": Cluster("prod", tables.folder)}, access=access)
    return schemathesis.openapi.from_asgi("/api/v1/openapi.json", app)


@pytest.mark.parametrize("mode", list(GenerationMode))
@pytest.mark.parametrize("path", PATHS)
@FEW
@given(data=st.data())
def test_random_requests(described: Any, path: str, mode: GenerationMode, data: Any) -> None:
    case = data.draw(described[path]["GET"].as_strategy(generation_mode=mode))
    case.call_and_validate(checks=CHECKS)


@pytest.mark.parametrize("path", OF_GROUPS)
@FEW
@given(data=st.data())
def test_random_requests_about_a_group_that_exists(described: Any, path: str, data: Any) -> None:
    case = data.draw(described[path]["GET"].as_strategy())
    known = {"group": REWOUND, "topic": quote(HOSTILE, safe="")}
    case.path_parameters = {name: known[name] for name in case.path_parameters or {}}
    # Most texts are no time, no cursor and no cluster, and get the status 400.
    refused = {"at", "since", "until", "cursor", "cluster"}
    query = case.query or {}
    case.query = {name: value for name, value in query.items() if name not in refused}
    answer = case.call_and_validate(checks=CHECKS)
    assert answer.status_code == 200, answer.text
