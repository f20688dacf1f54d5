"""docs/api-reference.md: addresses, parameters and answers, from the OpenAPI description."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from docsite.markdown import Parts, anchor, blocks, code, paragraph, prose, table
from streaming.api.openapi import description
from streaming.api.operations import ADDRESSES

Json = Mapping[str, Any]

_SUCCESS: Final = "200"
_FORMATS: Final = {"date-time": "timestamp"}
_REFERENCE: Final = "#/components/schemas/"


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


def _document() -> Json:
    return description(ADDRESSES)


def _paths() -> Mapping[str, Json]:
    return {path: path_item["get"] for path, path_item in _document()["paths"].items()}


API_REFERENCE: Final[Parts] = {
    "addresses": lambda: table(
        ["address", "answer"],
        [
            (f"[{code(path)}](#{anchor(_title(path))})", prose(operation["summary"]) + ".")
            for path, operation in _paths().items()
        ],
    ),
    "parameters": lambda: blocks(
        part for path, operation in _paths().items() for part in _address(path, operation)
    ),
    "errors": lambda: table(["status", "meaning"], _errors(next(iter(_paths().values())))),
    "answers": lambda: blocks(
        part
        for name, schema in _document()["components"]["schemas"].items()
        for part in _schema(name, schema)
    ),
}
