"""``/tools/openapi.json`` and ``POST /tools/{name}`` over a real server: as importers of OpenAPI tools use them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from app.config.snapshot import load
from app.extend import CallContext, CallFinished, Door, ErrorKind, Outcome, ToolCall, ToolCommand, ToolResult, ToolSpec
from app.web.tools_openapi import STATUSES
from tests.fixed_tools import FixedTools
from tests.server import ECHO, KEY, Running, run, running, write_plugin
from tests.waiting import until
from tests.web.asgi import BEARER, ask
from tests.web.mcp_posts import NOWHERE

SHOWS_INPUT = """
import json, sys
print(json.dumps({"status": "success", "result": {"stdin": sys.stdin.read()}}))
"""

FORECAST = {
    "type": "object",
    "properties": {
        "place": {"$ref": "#/$defs/Place"},
        "days": {"type": "integer", "minimum": 1},
        "nested": {"type": "array", "items": {"type": "object", "properties": {"unit": {"enum": ["C", "F"]}}}},
    },
    "required": ["place"],
    "additionalProperties": False,
    "$defs": {"Place": {"type": "string", "minLength": 1, "description": "城市"}},
}


class Tools(FixedTools):
    """Tools whose calls give what the test says, and remember how they were called."""

    def __init__(self, *specs: ToolSpec, result: ToolResult | None = None) -> None:
        super().__init__(*specs)
        self.result = result or ToolResult(structured="fine")
        self.calls: list[tuple[ToolCall, CallContext]] = []

    async def call(
        self, spec: ToolSpec, call: ToolCall, context: CallContext, started: Callable[..., None]
    ) -> ToolResult:
        started()
        self.calls.append((call, context))
        return self.result


def weather(**fields: Any) -> ToolSpec:
    command = ToolCommand(
        "forecast", "forecast", "Tells the weather", parameters=FORECAST, typed=True, title="Forecast", **fields
    )
    return ToolSpec("meteo.weather", "mcp:meteo", "Weather", (command,), groups=frozenset({"meteo"}))


def imported(document: Mapping[str, Any], address: str) -> dict[str, tuple[str, dict[str, Any]]]:
    """The operations as an importer sees them: their whole address, and their arguments with references put in."""

    def expanded(schema: Any) -> Any:
        if "$ref" in schema:
            found: Any = document
            for part in schema["$ref"].strip("#/").split("/"):
                found = found[part]
            return expanded(found)
        copy = dict(schema)
        copy["properties"] = {name: expanded(inner) for name, inner in schema.get("properties", {}).items()}
        return copy

    operations = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            assert method == "post"
            schema = operation["requestBody"]["content"]["application/json"]["schema"]
            operations[operation["operationId"]] = (address + path, expanded(schema))
    return operations


def test_the_document_is_what_importers_read_and_its_operations_run(tmp_path: Path) -> None:
    """Both ways of them: the address in ``servers``, and the one that the document was found below."""

    async def main() -> None:
        write_plugin(tmp_path, "Echo", ECHO)
        tools = Tools(weather())
        async with running(tmp_path, NOWHERE, sources=[tools]) as server:
            told = await server.client.get("/tools/openapi.json")
            assert told.status_code == 200
            document = told.json()
            assert document["openapi"] == "3.1.0"
            assert document["servers"] == [{"url": f"{server.url}/tools"}]
            operations = imported(document, document["servers"][0]["url"])
            assert operations == imported(document, f"{server.url}/tools/openapi.json".removesuffix("/openapi.json"))
            address, schema = operations["meteo__weather"]
            assert address == f"{server.url}/tools/meteo__weather"
            assert schema["properties"]["place"] == {**FORECAST["$defs"]["Place"], "properties": {}}
            assert schema["required"] == ["place"]
            operation = document["paths"]["/meteo__weather"]["post"]
            assert (operation["summary"], operation["description"]) == ("Forecast", "Tells the weather")
            assert operation["tags"] == ["meteo"]
            assert {"200", "401", "404", "422", "500", "503"} <= operation["responses"].keys()
            answered = await server.client.post(address, json={"place": "上海", "days": 2})
            assert (answered.status_code, answered.json()) == (200, "fine")
            ((call, context),) = tools.calls
            assert (call.tool, call.arguments) == ("meteo.weather", {"place": "上海", "days": 2})
            assert (context.door, context.client_ip, context.depth) == (Door.OPENAPI, "127.0.0.1", 0)
            assert (await server.client.post("/tools/Echo", json={"text": "x"})).json() == {
                "original_plugin_output": "x"
            }

    run(main())


def test_the_document_is_sound_openapi(tmp_path: Path) -> None:
    """By hand, after the rules of OpenAPI 3.1: unique operations, components with legal names, references that lead."""

    async def main() -> None:
        async with running(
            tmp_path,
            NOWHERE,
            sources=[Tools(weather(output_schema={"$ref": "#/$defs/W", "$defs": {"W": {"type": "object"}}}))],
        ) as server:
            document = (await server.client.get("/tools/openapi.json")).json()
            assert set(document) == {"openapi", "info", "servers", "security", "paths", "components"}
            assert {"title", "version"} <= document["info"].keys()
            ids = [operation["post"]["operationId"] for operation in document["paths"].values()]
            assert len(ids) == len(set(ids)) > 5
            legal = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
            assert all(set(name) <= legal and len(name) <= 64 for name in ids)
            assert all(path == f"/{operation['post']['operationId']}" for path, operation in document["paths"].items())
            assert all(set(name) <= legal | {"."} for name in document["components"]["schemas"])
            answer = document["paths"]["/meteo__weather"]["post"]["responses"]["200"]["content"]["application/json"]
            assert answer["schema"] == {"$ref": "#/components/schemas/meteo__weather_output"}
            text = json.dumps(document)
            assert KEY not in text

    run(main())


@pytest.mark.parametrize(
    ("body", "status", "path"),
    [
        (b"", 422, "$"),  # no arguments, and one is required
        (b"[]", 422, "$"),
        (b'"x"', 422, "$"),
        (b"{oops", 422, "$"),
        (b"\xff", 422, "$"),
        (b"[" * 100_000, 422, "$"),
        (b'{"place": 7}', 422, "$.place"),
        (b'{"place": ""}', 422, "$.place"),
        (b'{"place": "x", "days": 0}', 422, "$.days"),
        (b'{"place": "x", "nested": [{}, {"unit": "K"}]}', 422, "$.nested[1].unit"),
        (b'{"place": "x", "more": 1}', 422, "$"),
        (b'{"place": "x"}', 200, None),
        (b'{"place": "x", "days": null, "nested": null}', 200, None),  # P86: left open
        (b'{"place": null}', 422, "$.place"),
    ],
)
def test_arguments_that_do_not_fit_are_422_with_their_place(
    tmp_path: Path, body: bytes, status: int, path: str | None
) -> None:
    async def main() -> None:
        app = create(tmp_path)
        answered = await ask(app.app, "POST", "/tools/meteo__weather", BEARER, blocks=[body])
        assert answered.status == status, answered.body
        if path is not None:
            assert answered.json["path"].startswith(path), answered.json
            assert answered.json["error_type"] == "invalid_arguments"
            assert " / " in answered.json["error"]  # in both languages
            assert app.tools.calls == []

    run(main())


class Created:
    """An application without a listener, and its tools."""

    def __init__(self, home: Path, *config: str, result: ToolResult | None = None) -> None:
        from app.config.home_folders import make_home
        from app.services import Services
        from app.web.app import create_app

        make_home(home)
        (home / "config.env").write_text("\n".join(("API_URL=http://127.0.0.1:9", *config)), encoding="utf-8")
        self.tools = Tools(weather(), result=result)
        self.services = Services(load(home, {}), KEY, sources=[self.tools])
        self.app = create_app(self.services)


def create(home: Path, *config: str, result: ToolResult | None = None) -> Created:
    return Created(home, *config, result=result)


PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
TEXT = {"type": "text", "text": "x"}


@pytest.mark.parametrize(
    ("result", "value"),
    [
        (ToolResult(structured={"a": 1}), {"a": 1}),
        (ToolResult(structured=[1, None]), [1, None]),
        (ToolResult(structured=None), None),
        (ToolResult(structured=2**70), 2**70),
        (ToolResult(parts=(TEXT, PICTURE)), [TEXT, PICTURE]),
        (ToolResult(structured={"content": [PICTURE]}, parts=(PICTURE,)), {"content": [PICTURE]}),
        (ToolResult(structured="text", mcp={"content": [], "structuredContent": {"b": 2}}), {"b": 2}),
        (ToolResult(structured="text", parts=(TEXT, PICTURE), mcp={"content": []}), [TEXT, PICTURE]),
        (ToolResult(structured="text", parts=(TEXT,), mcp={"content": []}), "text"),
    ],
)
def test_results_are_plain_json(tmp_path: Path, result: ToolResult, value: Any) -> None:
    async def main() -> None:
        app = create(tmp_path, result=result).app
        answered = await ask(app, "POST", "/tools/meteo__weather", BEARER, blocks=[b'{"place": "x"}'])
        assert (answered.status, answered.json) == (200, value)

    run(main())


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        (ErrorKind.PLUGIN, 500),
        (ErrorKind.EXECUTION, 500),
        (ErrorKind.QUEUE, 503),
        (ErrorKind.TIMEOUT, 504),
        (ErrorKind.REFUSED, 403),
        (ErrorKind.REJECTED, 403),
        (ErrorKind.UNANSWERED, 504),
    ],
)
def test_errors_have_a_status_by_their_kind(tmp_path: Path, kind: ErrorKind, status: int) -> None:
    async def main() -> None:
        app = create(tmp_path, result=ToolResult(error_kind=kind, message="what happened")).app
        answered = await ask(app, "POST", "/tools/meteo__weather", BEARER, blocks=[b'{"place": "x"}'])
        assert answered.status == status == STATUSES.get(kind, 500)
        assert answered.json == {"error": "what happened", "error_type": kind.value}

    run(main())


def test_full_names_work_too_and_what_the_door_does_not_show_is_404(tmp_path: Path) -> None:
    async def main() -> None:
        created = create(tmp_path, "OpenAPIDeny=Echo*")
        write_plugin(tmp_path, "EchoHidden", ECHO)

        async def status(name: str) -> int:
            path = f"/tools/{name}"
            return (await ask(created.app, "POST", path, BEARER, blocks=[b'{"place": "x"}'])).status

        assert await status("meteo.weather") == 200
        assert await status("EchoHidden") == await status("nothing") == await status("../x") == 404
        assert (await ask(created.app, "POST", "/tools/a/b", BEARER)).status == 404
        assert (await ask(created.app, "GET", "/tools/meteo.weather", BEARER)).status == 405
        assert (await ask(created.app, "POST", "/tools/meteo.weather")).status == 401
        assert (await ask(created.app, "GET", "/tools/openapi.json")).status == 401
        named = ("host", "evil/\x01")
        document = await ask(created.app, "GET", "/tools/openapi.json", BEARER, named)
        assert document.json["servers"] == [{"url": "/tools"}]

    run(main())


def test_a_proxy_that_is_trusted_says_which_protocol_the_client_speaks(tmp_path: Path) -> None:
    async def main() -> None:
        headers = (("host", "vcp.example"), ("x-forwarded-proto", "https"), ("x-forwarded-for", "203.0.113.5"))
        for config, address in (("TrustedProxies=127.0.0.1", "https"), ("Timezone=UTC", "http")):
            app = create(tmp_path, config).app
            document = await ask(app, "GET", "/tools/openapi.json", BEARER, *headers)
            assert document.json["servers"] == [{"url": f"{address}://vcp.example/tools"}]

    run(main())


def test_d39_untyped_commands_of_plugins_get_texts(tmp_path: Path) -> None:
    async def main() -> None:
        write_plugin(tmp_path, "Shows", SHOWS_INPUT)
        async with running(tmp_path, NOWHERE) as server:
            given = {"flag": True, "count": 3, "list": [1, {"a": None}], "gone": None, "text": "x"}
            answered = await server.client.post("/tools/Shows", json=given)
            assert json.loads(answered.json()["stdin"]) == {
                "flag": "true",
                "count": "3",
                "list": '[1,{"a":null}]',
                "text": "x",
            }

    run(main())


def test_a_body_over_the_limit_is_413_and_a_deep_chain_is_400(tmp_path: Path) -> None:
    async def main() -> None:
        created = create(tmp_path, "ToolBodyLimitMB=1", "MaxCallDepth=2")
        big = [b"x" * 1024] * 1025
        answered = await ask(created.app, "POST", "/tools/meteo__weather", BEARER, blocks=big)
        assert (answered.status, answered.json["error_type"]) == (413, "body_too_large")
        deep = await ask(
            created.app, "POST", "/tools/meteo__weather", BEARER, ("x-vcp-call-depth", "3"), blocks=[b"{}"]
        )
        assert (deep.status, deep.json["error_type"]) == (400, "call_depth_exceeded")
        assert created.tools.calls == []

    run(main())


def test_the_code_of_the_hour_is_no_argument(tmp_path: Path) -> None:
    async def main() -> None:
        created = create(tmp_path, "VCPToolCode=true", "VCPToolCodeEverywhere=false")
        body = json.dumps({"place": "x", "tool_password": "123456"}).encode()
        answered = await ask(created.app, "POST", "/tools/meteo__weather", BEARER, blocks=[body])
        assert answered.status == 200  # a closed schema knows nothing of it
        ((call, _),) = created.tools.calls
        assert (call.arguments, call.password) == ({"place": "x"}, "123456")

    run(main())


SLOW = """
import pathlib, sys, json, time
pathlib.Path(json.loads(sys.stdin.read())["mark"]).touch()
time.sleep(60)
"""


def test_hanging_up_cancels_the_call(tmp_path: Path) -> None:
    async def main() -> None:
        write_plugin(tmp_path, "Slow", SLOW)
        async with running(tmp_path, NOWHERE) as server:
            mark = tmp_path / "mark"
            asked = asyncio.create_task(server.client.post("/tools/Slow", json={"mark": str(mark)}))
            await until(mark.exists)
            asked.cancel()
            await until(lambda: finished(server))
            assert finished(server)[0].outcome is Outcome.CANCELLED

    run(main())


def finished(server: Running) -> list[CallFinished]:
    return [event for event in server.events if isinstance(event, CallFinished)]


def test_pages_may_ask_as_the_gate_allows_and_the_door_can_be_closed(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path, NOWHERE, sources=[Tools(weather())]) as server:
            preflight = await server.client.options(
                "/tools/meteo__weather",
                headers={
                    "origin": "https://webui.example",
                    "access-control-request-headers": "authorization,content-type",
                },
            )
            assert preflight.status_code == 204
            assert preflight.headers["access-control-allow-origin"] == "*"
            assert (await server.client.get("/tools/openapi.json")).status_code == 200
            file = tmp_path / "config.env"
            file.write_text(file.read_text(encoding="utf-8") + "OpenAPITools=false\n", encoding="utf-8")
            server.services.apply(load(tmp_path, {}))
            assert (await server.client.get("/tools/openapi.json")).status_code == 404
            assert (await server.client.post("/tools/meteo__weather", json={"place": "x"})).status_code == 404

    run(main())


def test_new_tools_are_in_the_next_document(tmp_path: Path) -> None:
    async def main() -> None:
        created = create(tmp_path)

        async def names() -> set[str]:
            return set((await ask(created.app, "GET", "/tools/openapi.json", BEARER)).json["paths"])

        before = await names()
        created.tools.specs = {**created.tools.specs, "new tool": ToolSpec("new tool", "mcp:x", "New")}
        assert await names() - before == {"/new_tool"}

    run(main())
