"""Resources and prompts of in-process plugins: taken in, run within limits, checked (mcp.md MCP-28, MCP-29)."""

from __future__ import annotations

import asyncio
import textwrap
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from app.errors import VcpError
from app.extend import (
    CallContext,
    Door,
    OfferedResource,
    OfferedTemplate,
    PromptArgument,
    ResourceContent,
    ShelfChanged,
)
from app.services import Services
from tests.plugins.modules import alone, call, reload_plugins, serving, write_module

__all__ = ["alone"]

WHO = CallContext("turn-1", Door.MCP, depth=2)

SHELVES = """
from app.extend import OfferedResource, OfferedTemplate, PromptArgument, ResourceContent

class Orders:
    scheme = "orders"
    def resources(self):
        return [OfferedResource("orders://1", "one")]
    async def templates(self):
        return [OfferedTemplate("orders://{id}", "order")]
    def read(self, uri):
        return ResourceContent(f"{VERSION} {uri}") if uri == "orders://1" else None
    def complete(self, template, argument, value, given):
        return [template, argument, value, *given]

class Greet:
    name = "greet"
    description = "says hello"
    arguments = [PromptArgument("who", required=True)]
    async def get(self, arguments, context):
        return f"Hello {arguments['who']} at {context.depth}"

class Plugin:
    def resources(self):
        return [Orders()]
    async def prompts(self):
        return (Greet(),)

def create(context):
    return Plugin()
"""


def meets(home: Path, test: Callable[[Services], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        async with serving(home) as services:
            await test(services)

    asyncio.run(main())


def source(body: str, brings: str = "resources") -> str:
    """A module with one source ``Source`` whose class body is given."""
    return (
        "from app.errors import VcpError\nfrom app.extend import *\n"
        f"class Source:\n{textwrap.indent(textwrap.dedent(body), '    ')}\n"
        f"class Plugin:\n    def {brings}(self):\n        return [Source()]\n"
        "def create(context):\n    return Plugin()\n"
    )


def test_mcp_28_mcp_29_what_a_plugin_brings_is_asked_for_in_its_own_way(alone: Path) -> None:
    """Methods may be plain or async, and what is optional may be missing."""
    write_module(alone, "Orders", f"VERSION = 'v1'\n{SHELVES}")

    async def test(services: Services) -> None:
        (orders,) = services.in_process.resources()
        assert orders.scheme == "orders"
        assert await orders.resources() == [OfferedResource("orders://1", "one")]
        assert await orders.templates() == [OfferedTemplate("orders://{id}", "order")]
        assert await orders.read("orders://1") == ResourceContent("v1 orders://1")
        assert await orders.read("orders://2") is None
        assert await orders.complete("orders://{id}", "id", "1", {"x": "y"}) == ["orders://{id}", "id", "1", "x"]
        (greet,) = services.in_process.prompts()
        assert (greet.name, greet.title, greet.description) == ("greet", "", "says hello")
        assert greet.arguments == [PromptArgument("who", required=True)]
        assert await greet.get({"who": "you"}, WHO) == "Hello you at 2"
        assert await greet.complete("who", "", {}) == ()

        write_module(alone, "Orders", f"VERSION = 'version 2'\n{SHELVES}")
        await reload_plugins(services)
        (orders,) = services.in_process.resources()
        assert await orders.read("orders://1") == ResourceContent("version 2 orders://1")

    meets(alone, test)


@pytest.mark.parametrize(
    ("module", "said"),
    [
        (source("scheme = 'a b'\ndef resources(self): ...\ndef read(self, uri): ..."), "scheme"),
        (source("scheme = 7\ndef resources(self): ...\ndef read(self, uri): ..."), "scheme"),
        (source("scheme = 'a'\ndef resources(self): ..."), "read"),
        (source("scheme = 'a'").replace("[Source()]", "Source()"), "list"),
        (source("scheme = 'a'").replace("[Source()]", "[Source()] * 101"), "100"),
        (source("name = ''\ndef get(self, arguments, context): ...", "prompts"), "name"),
        (source("name = 'a'\ndescription = 3\ndef get(self, arguments, context): ...", "prompts"), "description"),
        (source("name = 'a'", "prompts"), "get"),
        (source("name = 'a'\narguments = ['x']\ndef get(self, arguments, context): ...", "prompts"), "PromptArgument"),
    ],
)
def test_a_source_that_cannot_be_served_costs_its_plugin_and_nobody_else(alone: Path, module: str, said: str) -> None:
    write_module(alone, "Bad", module)
    write_module(alone, "Orders", f"VERSION = 'v1'\n{SHELVES}")

    async def test(services: Services) -> None:
        (problem,) = services.in_process.problems()
        assert problem.startswith("Bad: ")
        assert said in problem
        assert [one.scheme for one in services.in_process.resources()] == ["orders"]

    meets(alone, test)


ODD = """
scheme = 'a'
def resources(self):
    {resources}
def read(self, uri):
    {read}
"""


@pytest.mark.parametrize(
    ("resources", "read"),
    [
        ("return None", "return 'text'"),
        ("return ['a://1']", "return b'bytes'"),
        ("return (one for one in ())", "return {'data': 'x'}"),
        ("return [OfferedResource('b://1', 'of another')]", "raise ValueError('secret words')"),
        ("return [OfferedResource('a://1', 'x')] * 10_001", "raise SystemExit"),
        ("raise KeyError('secret words')", "raise VcpError('out of paper')"),
    ],
)
def test_an_odd_answer_and_an_exception_are_one_error_in_few_words(alone: Path, resources: str, read: str) -> None:
    write_module(alone, "Odd", source(ODD.format(resources=resources, read=read)))

    async def test(services: Services) -> None:
        (odd,) = services.in_process.resources()
        with pytest.raises(VcpError) as listed:
            await odd.resources()
        with pytest.raises(VcpError) as got:
            await odd.read("a://1")
        assert "secret words" not in f"{listed.value.message} {got.value.message}"
        assert ("out of paper" in got.value.message) == ("paper" in read)

    meets(alone, test)


def test_a_source_that_hangs_is_given_up_in_its_time(alone: Path) -> None:
    body = """
    name = 'slow'
    async def get(self, arguments, context):
        import asyncio
        await asyncio.Event().wait()
    """
    write_module(alone, "Slow", source(body, "prompts"), timeout=200)

    async def test(services: Services) -> None:
        (slow,) = services.in_process.prompts()
        with pytest.raises(VcpError, match=r"0\.2"):
            await slow.get({}, WHO)

    meets(alone, test)


@pytest.mark.parametrize("method", ["def", "async def"])
def test_mcp_16_a_change_is_told_from_the_loop_and_from_threads(alone: Path, method: str) -> None:
    write_module(
        alone,
        "Orders",
        f"""
        def create(context):
            class Plugin:
                {method} call(self, call, given):
                    context.shelf_changed("orders://1")
                    context.shelf_changed()
                    context.shelf_changed(7)
            return Plugin()
        """,
    )

    async def test(services: Services) -> None:
        seen: list[Any] = []
        services.events.listen(seen.append, ShelfChanged)
        result = await call(services, "Orders")
        assert "a text" in result.message
        await asyncio.sleep(0)
        assert seen == [ShelfChanged("Orders", "orders://1"), ShelfChanged("Orders")]

    meets(alone, test)
