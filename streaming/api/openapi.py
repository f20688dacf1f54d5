"""The OpenAPI description of the API, made from its endpoints."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any, Final

from pydantic.json_schema import JsonSchemaMode, models_json_schema

from streaming.api.endpoints import Endpoint
from streaming.api.problems import MEDIA_TYPE, Problem

PREFIX: Final = "/api/v1"
_IN_PATH: Final = re.compile(r"{(\w+)}")
_PATH_PARAMETERS: Final = {"group": "Group id, URL-encoded.", "topic": "Topic name, URL-encoded."}
_REFERENCE: Final = "#/components/schemas/{model}"
_ERRORS: Final = {
    "400": "A parameter is unknown or wrong, or the tables cannot be read as of the moment.",
    "401": "A token is required.",
    "403": "The request lacks the header of the proxy, or comes from a page of another site.",
    "404": "There is no such cluster, group or topic.",
    "503": "The server is busy, or the value is unknown. Retry-After has the time to wait.",
}


def description(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """The description of all endpoints, as OpenAPI 3.1."""
    models: list[tuple[type, JsonSchemaMode]] = [
        *((endpoint.query, "validation") for endpoint in endpoints),
        *((endpoint.answer, "serialization") for endpoint in endpoints),
        (Problem, "serialization"),
    ]
    _, definitions = models_json_schema(
        list(dict.fromkeys(models)),
        ref_template=_REFERENCE,
    )
    schemas = definitions["$defs"]
    queries = {
        endpoint.query.__name__: schemas.get(endpoint.query.__name__) for endpoint in endpoints
    }
    for name in queries:
        schemas.pop(name, None)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "coordinator-state",
            "summary": "Kafka's consumer groups, their lag and their history",
            "version": version("coordinator-state"),
        },
        "servers": [{"url": "/"}],
        "paths": {
            f"{PREFIX}{endpoint.path}": {"get": _operation(endpoint, queries)}
            for endpoint in endpoints
        },
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "basic": {"type": "http", "scheme": "basic"},
            },
        },
        "security": [{}, {"bearer": []}, {"basic": []}],
    }


def _operation(endpoint: Endpoint, queries: dict[str, Any]) -> dict[str, Any]:
    answer = {"schema": {"$ref": _REFERENCE.format(model=endpoint.answer.__name__)}}
    problem = {MEDIA_TYPE: {"schema": {"$ref": _REFERENCE.format(model="Problem")}}}
    etag = {"description": "Changes with the answer.", "schema": {"type": "string"}}
    return {
        "operationId": endpoint.name,
        "summary": endpoint.summary,
        "parameters": [
            *(
                {
                    **{"name": name, "in": "path", "required": True},
                    **{"description": _PATH_PARAMETERS[name], "schema": {"type": "string"}},
                }
                for name in _IN_PATH.findall(endpoint.path)
            ),
            *(
                {
                    "name": name,
                    "in": "query",
                    "description": schema.pop("description", ""),
                    "schema": schema,
                }
                for name, schema in _properties(queries[endpoint.query.__name__])
            ),
        ],
        "responses": {
            "200": {
                "description": endpoint.answer.__doc__,
                "headers": {"ETag": etag},
                "content": {"application/json": answer},
            },
            "304": {"description": "The answer is unchanged: it has the ETag of If-None-Match."},
            **{
                status: {"description": text, "content": problem}
                for status, text in _ERRORS.items()
            },
        },
    }


def _properties(schema: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [
        (name, {key: value for key, value in subschema.items() if key != "title"})
        for name, subschema in schema["properties"].items()
    ]
