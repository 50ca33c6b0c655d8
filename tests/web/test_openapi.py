"""The OpenAPI document: behind the key, complete, and in order."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

from tests.web.asgi import BEARER, app_in, ask

METHODS = {"get", "put", "post", "delete", "options", "head", "patch", "trace"}
TYPES = {"object", "array", "string", "integer", "number", "boolean", "null"}


def document(tmp_path: Path) -> Any:
    answer = asyncio.run(ask(app_in(tmp_path), "GET", "/openapi.json", BEARER))
    assert answer.status == 200
    return answer.json


def check_schema(schema: Any, whole: Any) -> None:
    if "$ref" in schema:
        found = whole
        for step in schema["$ref"].removeprefix("#/").split("/"):
            found = found[step]
        return
    types = schema.get("type", [])
    assert set([types] if isinstance(types, str) else types) <= TYPES
    for inner in schema.get("properties", {}).values():
        check_schema(inner, whole)
    if "items" in schema:
        check_schema(schema["items"], whole)
    assert set(schema.get("required", ())) <= set(schema.get("properties", ()))


def check_content(content: Any, whole: Any) -> None:
    for media_type, described in content.items():
        assert re.fullmatch(r"[a-z]+/[a-z-]+", media_type)
        check_schema(described["schema"], whole)


def test_it_needs_the_key(tmp_path: Path) -> None:
    answer = asyncio.run(ask(app_in(tmp_path), "GET", "/openapi.json"))
    assert (answer.status, answer.json) == (401, {"error": "Unauthorized (Bearer token required)"})


def test_it_holds_every_route_and_says_which_are_open(tmp_path: Path) -> None:
    whole = document(tmp_path)
    secured = {path: bool(o["security"]) for path, item in whole["paths"].items() for o in item.values()}
    assert secured == {
        "/v1/chat/completions": True,
        "/v1/chatvcp/completions": True,
        "/v1/models": True,
        "/v1/embeddings": True,
        "/v1/interrupt": True,
        "/v1/human/tool": True,
        "/v1/schedule_task": True,
        "/v1/nodes": True,
        "/v1/approvals": True,
        "/v1/approvals/{request_id}": True,
        "/v1/mcp/servers": True,
        "/v1/mcp/servers/{name}/consent": True,
        "/v1/memory/status": True,
        "/v1/memory/check": True,
        "/v1/memory/rebuild": True,
        "/v1/memory/explain": True,
        "/v1/memory/reembed": True,
        "/v1/memory/import": True,
        "/healthz": False,
        "/readyz": False,
        "/plugin-callback/{plugin}/{task}": False,
        "/plugin-callback/{token}/{plugin}/{task}": False,
    }


def test_it_is_built_as_the_standard_wants(tmp_path: Path) -> None:
    whole = document(tmp_path)
    assert re.fullmatch(r"3\.1\.\d", whole["openapi"])
    assert whole["info"]["title"] and whole["info"]["version"]
    schemes = whole["components"]["securitySchemes"]
    assert schemes["key"] == {"type": "http", "scheme": "bearer"}
    ids = []
    for path, item in whole["paths"].items():
        assert path.startswith("/") and set(item) <= METHODS
        for method, operation in item.items():
            ids.append(operation["operationId"])
            assert all(set(wanted) <= set(schemes) for wanted in operation["security"])
            assert operation["responses"]
            for status, response in operation["responses"].items():
                assert re.fullmatch(r"[1-5]\d\d", status) and response["description"]
                check_content(response.get("content", {}), whole)
            assert ("requestBody" in operation) == (method == "post")
            check_content(operation.get("requestBody", {}).get("content", {}), whole)
    assert len(set(ids)) == len(ids)


def test_bodies_are_described_where_routes_read_them_by_themselves(tmp_path: Path) -> None:
    paths = document(tmp_path)["paths"]
    assert list(paths["/v1/human/tool"]["post"]["requestBody"]["content"]) == ["text/plain"]
    assert list(paths["/healthz"]["get"]["responses"]["200"]["content"]) == ["text/plain"]
    chat = paths["/v1/chat/completions"]["post"]
    assert chat["requestBody"]["content"]["application/json"]["schema"]["required"] == ["messages"]
    assert set(chat["responses"]["200"]["content"]) == {"application/json", "text/event-stream"}
