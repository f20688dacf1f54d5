"""The OpenAPI description of the API, made from its operations."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from typing import Any, Final

from pydantic.json_schema import JsonSchemaMode, models_json_schema

from streaming.api.operation import Operation
from streaming.api.responses import MEDIA_TYPE, Problem

PREFIX: Final = "/api/v1"
_REFERENCE: Final = "#/components/schemas/{model}"
_ERRORS: Final = {
    "400": "A parameter is unknown or wrong, or the tables cannot be read as of the moment.",
    "401": "A token is required.",
    "403": "The request lacks the header of the proxy, or comes from a page of another site.",
    "404": "There is no such cluster, group or topic.",
    "503": "The server is busy, or the value is unknown. Retry-After has the time to wait.",
}


def description(addresses: Mapping[str, Operation]) -> dict[str, Any]:
    """The description of operations by their paths, as OpenAPI 3.1."""
    operations = addresses.values()
    models: list[tuple[type, JsonSchemaMode]] = [
        *((operation.query, "validation") for operation in operations),
        *((operation.answer, "serialization") for operation in operations),
        (Problem, "serialization"),
    ]
    _, definitions = models_json_schema(
        list(dict.fromkeys(models)),
        ref_template=_REFERENCE,
    )
    schemas = definitions["$defs"]
    queries = {operation.query: schemas.get(operation.query.__name__) for operation in operations}
    for query in queries:
        schemas.pop(query.__name__, None)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "coordinator-state",
            "summary": "Kafka's consumer groups, their lag and their history",
            "version": version("coordinator-state"),
        },
        "servers": [{"url": "/"}],
        "paths": {
            f"{PREFIX}{path}": {"get": _operation(path, operation, queries[operation.query])}
            for path, operation in addresses.items()
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


def _operation(path: str, operation: Operation, query: dict[str, Any]) -> dict[str, Any]:
    answer = {"schema": {"$ref": _REFERENCE.format(model=operation.answer.__name__)}}
    problem = {MEDIA_TYPE: {"schema": {"$ref": _REFERENCE.format(model="Problem")}}}
    etag = {"description": "Changes with the answer.", "schema": {"type": "string"}}
    return {
        "operationId": operation.name,
        "summary": operation.description.partition("\n")[0].rstrip("."),
        "parameters": [
            _parameter(name, schema, is_in_path=f"{{{name}}}" in path)
            for name, schema in query["properties"].items()
        ],
        "responses": {
            "200": {
                "description": operation.answer.__doc__,
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


def _parameter(name: str, schema: Mapping[str, Any], *, is_in_path: bool) -> dict[str, Any]:
    text = schema["description"]
    return {
        "name": name,
        "in": "path" if is_in_path else "query",
        **({"required": True} if is_in_path else {}),
        "description": f"{text.rstrip('.')}, URL-encoded." if is_in_path else text,
        "schema": {
            key: value for key, value in schema.items() if key not in {"title", "description"}
        },
    }
