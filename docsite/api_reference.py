"""docs/api-reference.md: addresses, parameters and answers, from the OpenAPI description."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from docsite.markdown import anchor, code, page, paragraph, prose, table
from streaming.api.app import ENDPOINTS
from streaming.api.openapi import description

Json = Mapping[str, Any]

_SUCCESS: Final = "200"
_FORMATS: Final = {"date-time": "timestamp"}
_REFERENCE: Final = "#/components/schemas/"


def api_reference() -> str:
    """The page."""
    document = description(ENDPOINTS)
    paths: Json = document["paths"]
    schemas: Json = document["components"]["schemas"]
    return page(
        "API reference",
        paragraph(
            "This page lists every address, parameter and field of the HTTP API, for people who "
            "write programs that read groups and lag."
        ),
        paragraph(
            "`api` and `dashboard` serve the API. [api.md](api.md) explains access, pages, errors, "
            "autoscaling and the addresses of Burrow. This page is made from the OpenAPI 3.1 "
            "description, which the server has at `/api/v1/openapi.json`. Timestamps are in UTC, "
            "as ISO 8601. Every address is read with `GET`."
        ),
        "## Addresses",
        table(
            ["address", "answer"],
            [
                (
                    f"[{code(path)}](#{anchor(_title(path))})",
                    prose(path_item["get"]["summary"]) + ".",
                )
                for path, path_item in paths.items()
            ],
        ),
        *(part for path, path_item in paths.items() for part in _address(path, path_item["get"])),
        "## Errors",
        paragraph(
            "An error is a [`Problem`](#problem) with the media type `application/problem+json`. "
            "304 has no content."
        ),
        table(["status", "meaning"], _errors(next(iter(paths.values()))["get"])),
        "## Answers",
        paragraph(
            "A field without `null` in its type is never null. `list of X` is a JSON array of X."
        ),
        *(part for name, schema in schemas.items() for part in _schema(name, schema)),
    )


def _title(path: str) -> str:
    return f"GET {path}"


def _address(path: str, operation: Json) -> Iterator[str]:
    success = operation["responses"][_SUCCESS]
    answer = _type(success["content"]["application/json"]["schema"])
    yield f"### {code(_title(path))}"
    yield paragraph(f"{prose(operation['summary'])}. Answer: {answer}.")
    rows = [
        (
            code(parameter["name"]),
            "path" if parameter["in"] == "path" else _type(parameter["schema"], repeatable=True),
            _default(parameter["schema"]),
            prose(parameter["description"]),
        )
        for parameter in operation["parameters"]
    ]
    yield table(["parameter", "type", "default", "description"], rows)


def _default(schema: Json) -> str:
    default = schema.get("default")
    return "" if default in (None, "", []) else code(str(default).lower())


def _errors(operation: Json) -> Iterator[tuple[str, str]]:
    for status, response in operation["responses"].items():
        if status != _SUCCESS:
            yield status, prose(response["description"])


def _schema(name: str, schema: Json) -> Iterator[str]:
    yield f"### {name}"
    yield from (paragraph(prose(text)) for text in schema.get("description", "").split("\n\n"))
    if "enum" in schema:
        yield paragraph(f"One of {', '.join(map(code, schema['enum']))}.")
        return
    rows = [
        (code(field), _type(field_schema), prose(field_schema["description"]))
        for field, field_schema in schema["properties"].items()
    ]
    yield table(["field", "type", "description"], rows)


def _type(schema: Json, *, repeatable: bool = False) -> str:
    """The type of a value in words; types of answers are links."""
    match schema:
        case {"$ref": str(reference)}:
            name = reference.removeprefix(_REFERENCE)
            return f"[{code(name)}](#{anchor(name)})"
        case {"anyOf": list(types)}:
            return " or ".join(_type(subschema) for subschema in types)
        case {"enum": list(values)}:
            return " or ".join(map(code, values))
        case {"type": "array", "items": items}:
            return f"{_type(items)}; repeatable" if repeatable else f"list of {_type(items)}"
        case {"type": "object", "additionalProperties": values}:
            return f"object of {_type(values)} by {_type(schema['propertyNames'])}"
    return _scalar_type(schema)


def _scalar_type(schema: Json) -> str:
    match schema:
        case {"const": str(value)}:
            return code(value)
        case {"type": "string", "format": str(kind)}:
            return _FORMATS[kind]
        case {"type": "integer", "minimum": least, "maximum": most}:
            return f"integer, {least:,} to {most:,}"
        case {"type": str(name)}:
            return name
    raise AssertionError(f"no words for the type {schema}")
