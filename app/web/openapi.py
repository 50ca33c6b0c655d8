"""OpenAPI descriptions of the chat routes, which are plain ASGI and so unknown to FastAPI."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fastapi import FastAPI

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


def describe_chat_routes(app: FastAPI, paths: Iterable[str]) -> None:
    """Add the chat routes to the app's OpenAPI document."""
    generate = app.openapi
    listed = list(paths)

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            schema = generate()
            for path in listed:
                schema["paths"][path] = {"post": _operation(path)}
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
            **{status: error for status in ("400", "401", "413", "500", "502", "503", "504")},
        },
    }
