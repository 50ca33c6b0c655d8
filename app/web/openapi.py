"""OpenAPI descriptions: of the chat routes, which are plain ASGI and so unknown to FastAPI, of bodies and the key."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fastapi import FastAPI

from app.extend import Access
from app.web.declared import AccessTable

_REQUEST: dict[str, Any] = {
    "type": "object",
    "required": ["messages"],
    "additionalProperties": True,
    "properties": {
        "model": {"type": "string", "description": "Passed to the upstream; also decides which Sar texts apply."},
        "messages": {"type": "array", "minItems": 1, "items": {"type": "object", "additionalProperties": True}},
        "stream": {"type": "boolean", "description": "Only the JSON boolean true asks for a stream."},
        "requestId": {"type": "string", "description": "Id for /v1/interrupt; messageId is taken as well."},
        "messageId": {"type": "string"},
    },
}

_ERROR: dict[str, Any] = {
    "type": "object",
    "properties": {
        "error": {
            "type": "object",
            "properties": {name: {"type": "string"} for name in ("message", "type", "code")},
        }
    },
}


_PLAIN_ROUTES: dict[str, dict[str, Any]] = {
    "/v1/embeddings": {
        "summary": "Vectors of texts, from the upstream",
        "operationId": "embeddings",
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": {"type": "object", "additionalProperties": True}}},
        },
        "responses": {
            "200": {"description": "The upstream's answer", "content": {"application/json": {"schema": {}}}},
            **{
                str(status): {"description": "Error", "content": {"application/json": {"schema": _ERROR}}}
                for status in (400, 401, 403, 404, 408, 413, 415, 500)
            },
        },
    }
}
_KEY = "key"
_ADMIN = "admin"
_SECURITY: dict[Access, list[dict[str, list[str]]]] = {Access.KEY: [{_KEY: []}], Access.ADMIN: [{_ADMIN: []}]}
_PLAIN_ERROR = {"type": "object", "properties": {"error": {"type": "string"}}}


def described(media_type: str, schema: Mapping[str, Any], answer: str, errors: Iterable[int]) -> dict[str, Any]:
    """What FastAPI cannot know of a route that reads its own body: the body, the answer, the errors (D26)."""
    fault = {"description": "Error", "content": {"application/json": {"schema": _PLAIN_ERROR}}}
    return {
        "requestBody": {"required": True, "content": {media_type: {"schema": dict(schema)}}},
        "responses": {
            "200": {"description": answer, "content": {"application/json": {"schema": {}}}},
            **{str(status): fault for status in (401, 403, *errors)},
        },
    }


def describe_routes(app: FastAPI, chat_paths: Iterable[str], table: Callable[[], AccessTable]) -> None:
    """Add the chat routes to the app's OpenAPI document, and what each route of the ``table`` of now needs."""
    generate = app.openapi
    listed = list(chat_paths)

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            schema = generate()
            for path in listed:
                schema["paths"][path] = {"post": _operation(path)}
            for path, operation in _PLAIN_ROUTES.items():
                schema["paths"][path] = {"post": dict(operation)}
            schema.setdefault("components", {})["securitySchemes"] = {
                _KEY: {"type": "http", "scheme": "bearer"},
                _ADMIN: {"type": "http", "scheme": "basic"},
            }
            access = table().access_by_path()
            for path, operations in schema["paths"].items():
                for operation in operations.values():
                    operation["security"] = _SECURITY.get(access.get(path, Access.KEY), [])
            app.openapi_schema = schema
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]  # the documented way to extend the document


def _operation(path: str) -> dict[str, Any]:
    error = {"description": "OpenAI error object", "content": {"application/json": {"schema": _ERROR}}}
    return {
        "summary": "Chat completion with tools; unknown fields go to the upstream untouched",
        "operationId": "chat_" + path.strip("/").replace("/", "_"),
        "requestBody": {"required": True, "content": {"application/json": {"schema": _REQUEST}}},
        "responses": {
            "200": {
                "description": "A completion, or an event stream of chunks",
                "content": {
                    "application/json": {"schema": {"type": "object", "additionalProperties": True}},
                    "text/event-stream": {"schema": {"type": "string"}},
                },
            },
            **{status: error for status in ("400", "401", "403", "408", "413", "415", "500", "502", "503", "504")},
        },
    }
