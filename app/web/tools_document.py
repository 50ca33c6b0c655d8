"""The OpenAPI 3.1 document of the tools: one operation for each, in the way in which importers read it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from app import __version__
from app.extend import LOCAL, Json
from app.tools.offers import Offered
from app.web.tools_schemas import component

TOOLS_PATH = "/tools"
"""Paths of the document are below this one, which is in its ``servers``: importers know both ways to write that."""

_ERROR = "ToolError"
_FAULTS = {
    "401": "No key, or a wrong one",
    "403": "Refused: the code of the hour is wrong, or a person said no",
    "404": "There is no such tool",
    "413": "The arguments are too large",
    "422": "The arguments do not fit; path says where",
    "500": "The tool failed",
    "503": "The tool has no place to run; try again later",
    "504": "The tool took too long, or nobody decided",
}


Expand = Callable[[str], str]
"""Puts the operator's values into the description of a tool of this machine (D31)."""


def document(tools: Iterable[Offered], expand: Expand = str) -> dict[str, Json]:
    """The document without ``servers``. Operations are named as ``Offered.name``, schemas are components of theirs.

    Tools of MCP servers and of plugins are tagged with their groups, else with the tool that they are a command of.
    """
    paths: dict[str, Json] = {}
    # No tool can have the name of the error's schema: theirs end in _input and _output.
    schemas: dict[str, Json] = {
        _ERROR: {
            "type": "object",
            "properties": {
                "error": {"type": "string", "description": "What went wrong, for people"},
                "error_type": {"type": "string", "description": "The same in one word, for programs"},
                "path": {"type": "string", "description": "Which argument is at fault, such as $.unit"},
            },
            "required": ["error"],
        }
    }
    for tool in tools:
        given = f"{tool.name}_input"
        schemas[given] = component(tool.input_schema, given)
        answer: Json = {}
        if tool.command is not None and tool.command.output_schema is not None:
            gives = f"{tool.name}_output"
            schemas[gives] = component(tool.command.output_schema, gives)
            answer = _reference(gives)
        paths[f"/{tool.name}"] = {"post": _operation(tool, expand, given, answer)}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "vcp-server tools",
            "version": __version__,
            "description": "Every tool of this server; each operation runs one.",
        },
        "security": [{"key": []}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(tool: Offered, expand: Expand, given: str, answer: Json) -> dict[str, Json]:
    fault = {"application/json": {"schema": _reference(_ERROR)}}
    description = expand(tool.description) if tool.spec.origin == LOCAL else tool.description
    return {
        "operationId": tool.name,
        "summary": tool.title or tool.full_name,
        "description": description or tool.title or tool.full_name,
        "tags": sorted(tool.spec.groups) or [tool.spec.name],
        "requestBody": {
            "required": bool(tool.input_schema.get("required")),
            "content": {"application/json": {"schema": _reference(given)}},
        },
        "responses": {
            "200": {"description": "What the tool gave", "content": {"application/json": {"schema": answer}}},
            **{status: {"description": text, "content": fault} for status, text in _FAULTS.items()},
        },
    }


def _reference(name: str) -> dict[str, Json]:
    return {"$ref": f"#/components/schemas/{name}"}
