"""Routes of in-process plugins: their access is the declared one; undeclared ones cost the plugin (spec 1.12)."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from app.extend import Reloaded
from tests.plugins.modules import alone, reload_plugins, serving, write_module
from tests.server import Running, running, write_plugin
from tests.waiting import until

__all__ = ["alone"]

HEAD = """
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route, WebSocketRoute
from app.extend import Access, DeclaredRoute, PathKey

async def said(request):
    return PlainTextResponse("{said} " + request.url.path)
"""


def routes(declared: str, said: str = "plugin") -> str:
    body = f"class P:\n    def routes(self):\n        return {declared}\ndef create(c):\n    return P()\n"
    return HEAD.format(said=said) + body


@asynccontextmanager
async def server(home: Path, *config: str) -> AsyncIterator[Running]:
    async with running(home, "http://127.0.0.1:9", config=config) as one:
        yield one


async def asked(one: Running, path: str, **headers: str) -> httpx.Response:
    """A request without the server's key."""
    async with httpx.AsyncClient(base_url=one.url, trust_env=False, headers=headers) as client:
        return await client.get(path)


def test_each_route_has_the_access_that_it_declares(alone: Path) -> None:
    declared = """[
        DeclaredRoute(Route("/api/plugins/X/key/{name}", said), Access.KEY),
        DeclaredRoute(Route("/api/plugins/X/open", said), Access.OPEN),
        DeclaredRoute(Route("/pw={key}/x/{path:path}", said), Access.PATH_KEY,
                      PathKey("key", lambda: "secret", "wrong key", "no key")),
        DeclaredRoute(Route("/admin_api/x", said), Access.ADMIN),
    ]"""
    write_module(alone, "X", routes(declared), pluginType="service")

    async def main() -> None:
        async with server(alone, "AdminUsername=a", "AdminPassword=b") as one:
            with_key = await one.client.get("/api/plugins/X/key/Ab")
            assert (with_key.status_code, with_key.text) == (200, "plugin /api/plugins/X/key/Ab")
            assert (await asked(one, "/api/plugins/X/key/Ab")).status_code == 401
            assert (await asked(one, "/API/plugins/x/OPEN")).status_code == 200
            assert (await asked(one, "/pw=secret/x/a/b")).text == "plugin /pw=secret/x/a/b"
            wrong = await asked(one, "/pw=Secret/x/a/b")
            assert (wrong.status_code, wrong.text) == (401, "wrong key")
            assert (await one.client.get("/admin_api/x")).status_code == 401
            basic = base64.b64encode(b"a:b").decode()
            assert (await asked(one, "/admin_api/x", Authorization=f"Basic {basic}")).status_code == 200

    asyncio.run(main())


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ('[Route("/api/plugins/X/a", said)]', "/api/plugins/X/a"),
        ('[DeclaredRoute(Route("/api/plugins/X/a", said), None)]', "declares no access"),
        ('[DeclaredRoute(Route("/api/plugins/X/a", said), "key")]', "declares no access"),
        ('[DeclaredRoute(Route("/v1/chat/extra", said), Access.KEY)]', "/v1 belongs to the server"),
        ('[DeclaredRoute(Route("/V1/extra", said), Access.KEY)]', "/v1 belongs to the server"),
        ('[DeclaredRoute(Route("/{any:path}", said), Access.KEY)]', "/v1 belongs to the server"),
        ('[DeclaredRoute(Mount("/api/plugins/X", routes=[]), Access.KEY)]', "only HTTP routes"),
        ('[DeclaredRoute(WebSocketRoute("/api/x", said), Access.KEY)]', "only HTTP routes"),
        ('[DeclaredRoute(Route("/pw={key}/x", said), Access.PATH_KEY)]', "path_key belongs to"),
        ("[5]", "declares no access"),
        ("5", "must return a list"),
        ("'routes'", "must return a list"),
        ("[None] * 501", "at most 500"),
    ],
)
def test_what_is_not_declared_is_refused_with_the_reason_and_only_that_plugin_is_left_out(
    alone: Path, declared: str, said: str
) -> None:
    write_module(alone, "X", routes(declared))
    write_module(alone, "Y", routes('[DeclaredRoute(Route("/api/plugins/Y", said), Access.OPEN)]'))

    async def main() -> None:
        async with server(alone) as one:
            (problem,) = one.services.in_process.problems()
            assert problem.startswith("X: ")
            assert said in problem
            assert (await asked(one, "/api/plugins/Y")).status_code == 200
            assert (await one.client.get("/api/plugins/X/a")).status_code == 404

    asyncio.run(main())


def test_a_path_of_the_servers_own_costs_that_route_and_nothing_else(
    alone: Path, caplog: pytest.LogCaptureFixture
) -> None:
    declared = '[DeclaredRoute(Route("/healthz", said), Access.KEY), DeclaredRoute(Route("/api/x", said), Access.KEY)]'
    write_module(alone, "X", routes(declared))

    async def main() -> None:
        async with server(alone) as one:
            assert (await asked(one, "/healthz")).text == "ok"
            assert (await one.client.get("/api/x")).status_code == 200

    asyncio.run(main())
    assert "/healthz" in caplog.text


def test_routes_follow_a_reload(alone: Path) -> None:
    write_module(alone, "X", routes('[DeclaredRoute(Route("/api/old", said), Access.OPEN)]'))

    async def main() -> None:
        async with server(alone) as one:
            assert (await asked(one, "/api/old")).status_code == 200
            new = routes('[DeclaredRoute(Route("/api/new", said), Access.OPEN)]')
            write_module(alone, "X", new, version="2")
            await reload_plugins(one.services)
            one.services.events.publish(Reloaded(("plugins",)))
            assert (await one.client.get("/api/old")).status_code == 404
            assert (await asked(one, "/api/new")).status_code == 200

    asyncio.run(main())


def test_a_request_that_runs_at_a_reload_ends_with_the_version_it_began_with(alone: Path) -> None:
    source = """
    import asyncio
    from pathlib import Path
    from starlette.responses import PlainTextResponse
    from starlette.routing import Route
    from app.extend import Access, DeclaredRoute
    class P:
        stopped = False
        async def slow(self, request):
            Path(request.query_params["begun"]).touch()
            while not Path(request.query_params["go"]).exists():
                await asyncio.sleep(0.005)
            return PlainTextResponse(f"stopped {self.stopped}")
        def routes(self):
            return [DeclaredRoute(Route("/api/slow", self.slow), Access.KEY)]
        def stop(self):
            self.stopped = True
    def create(context):
        return P()
    """
    write_module(alone, "X", source)
    begun, go = alone / "begun", alone / "go"

    async def main() -> None:
        async with server(alone) as one:
            asking = asyncio.create_task(one.client.get("/api/slow", params={"begun": str(begun), "go": str(go)}))
            await until(begun.exists)
            write_module(alone, "X", source, version="2")
            await reload_plugins(one.services)
            go.touch()
            assert (await asking).text == "stopped False"

    asyncio.run(main())


def test_of_several_plugins_at_one_path_the_first_by_name_that_finds_something_answers(alone: Path) -> None:
    source = """
    from starlette.exceptions import HTTPException
    from starlette.responses import PlainTextResponse, Response
    from starlette.routing import Route
    from app.extend import Access, DeclaredRoute
    def create(context):
        class P:
            async def found(self, request):
                name = request.path_params["name"]
                if context.name in name:
                    return PlainTextResponse(context.name)
                if "plain" in name:
                    return Response("not here", 404)
                raise HTTPException(404)
            def routes(self):
                return [DeclaredRoute(Route("/api/shared/{name}", self.found), Access.KEY)]
        return P()
    """
    for name in ("B", "A"):
        write_module(alone, name, source)

    async def main() -> None:
        async with server(alone) as one:
            said = {name: (await one.client.get(f"/api/shared/{name}")).text for name in ("AB", "A", "B", "B-plain")}
            assert said == {"AB": "A", "A": "A", "B": "B", "B-plain": "B"}
            nobody = await one.client.get("/api/shared/x")
            assert (nobody.status_code, list(nobody.json())) == (404, ["error"])
            plain = await one.client.get("/api/shared/plain")
            assert (plain.status_code, plain.text) == (404, "not here")

    asyncio.run(main())


def test_a_route_that_fails_is_a_500_without_a_stack_trace_and_blocking_is_named(
    alone: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source = HEAD.format(said="x") + (
        "import time\nasync def bad(request):\n    time.sleep(0.3)\n    raise ValueError('inside')\n"
        "class P:\n    def routes(self):\n        return [DeclaredRoute(Route('/api/bad', bad), Access.OPEN)]\n"
        "def create(c):\n    return P()\n"
    )
    write_module(alone, "X", source)

    async def main() -> None:
        async with server(alone) as one:
            answered = await asked(one, "/api/bad")
            assert answered.status_code == 500
            assert "inside" not in answered.text

    asyncio.run(main())
    assert "plugin X blocked the event loop" in caplog.text


def test_no_routes_are_brought_by_plugins_that_are_not_loaded(alone: Path) -> None:
    write_module(alone, "X", routes('[DeclaredRoute(Route("/api/x", said), Access.OPEN)]'))

    async def main() -> None:
        async with serving(alone) as services:
            assert len(services.in_process.routes()) == 1
        assert services.in_process.routes() == ()

    asyncio.run(main())


def test_what_a_route_calls_stands_as_deep_as_its_request(alone: Path) -> None:
    """A chain that leads through a plugin's route would otherwise never come to its end."""
    source = """
from starlette.responses import JSONResponse
from starlette.routing import Route
from app.extend import Access, DeclaredRoute

def create(context):
    class P:
        async def called(self, request):
            result = await context.call_tool("Depth", {})
            return JSONResponse([result.structured, result.message])
        def routes(self):
            return [DeclaredRoute(Route("/api/plugins/X/call", self.called), Access.KEY)]
    return P()
"""
    write_module(alone, "X", source, pluginType="service")
    tells = 'import os\nprint(\'{"status": "success", "result": {"depth": %s}}\' % os.environ[\'VCP_CALL_DEPTH\'])'
    write_plugin(alone, "Depth", tells)

    async def main() -> None:
        async with server(alone) as one:
            for given, depth in (({}, 2), ({"X-VCP-Call-Depth": "3"}, 5)):
                answer = await one.client.get("/api/plugins/X/call", headers=given)
                assert answer.json() == [{"depth": depth}, ""]
            too_deep = await one.client.get("/api/plugins/X/call", headers={"X-VCP-Call-Depth": "5"})
            assert too_deep.json()[0] is None
            assert "more than 5 deep" in too_deep.json()[1]
            senseless = await one.client.get("/api/plugins/X/call", headers={"X-VCP-Call-Depth": "many"})
            assert senseless.status_code == 400

    asyncio.run(main())
