"""Our server before MCP servers of others: from npm on all transports, and one with the older SDK."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from mcp_types import CreateMessageResult, ElicitResult, TextContent

from tests.external.mcp_world import ERAS, EVERYTHING, NODE, World, answers, begun, children, lives, until, world
from tests.server import call_text, run

pytestmark = pytest.mark.external

LONG = "trigger-long-running-operation"


@pytest.fixture(scope="module")
def our(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("home")) as made:
        yield made


@pytest.mark.parametrize("server", ["everything", "web", "sse"])
def test_tools_of_every_transport_are_used_at_every_door(our: World, server: str) -> None:
    """MCP-50, MCP-1: marked text, a person's call, OpenAPI and MCP lead to the same answer."""
    assert our.tool(f"{server}__get-sum", a=2, b=40).text == '"The sum of 2 and 40 is 42."'
    said = our.human(call_text(f"{server}.get-sum", a="2", b="40"))
    assert said["original_plugin_output"] == "The sum of 2 and 40 is 42."
    seen, answer = our.chat(call_text(f"{server}.get-structured-content", location="Chicago"))
    assert "temperature" in seen and "a word of the model" in answer["choices"][0]["message"]["content"]

    async def main() -> None:
        for era in ERAS:
            async with our.client(era) as client:
                result = await client.call_tool(f"{server}.get-structured-content", {"location": "Chicago"})
                assert result.structured_content is not None
                assert set(result.structured_content) == {"temperature", "conditions", "humidity"}
                assert result.content[0].type == "text" and json.loads(result.content[0].text)

    run(main())


def test_a_native_call_reaches_a_server(our: World) -> None:
    seen, answer = our.chat('NATIVE get-sum {"a": 2, "b": 40}')
    assert "The sum of 2 and 40 is 42." in seen and '"role": "tool"' in seen
    assert answer["choices"][0]["message"]["content"].endswith("a word of the model")


@pytest.mark.parametrize("server", ["everything", "web", "sse"])
def test_pictures_and_links_pass_through_unchanged(our: World, server: str) -> None:
    """MCP-61, MCP-55: links are not followed; a model gets the picture as a picture."""

    async def main() -> None:
        for era in ERAS:
            async with our.client(era) as client:
                picture = await client.call_tool(f"{server}.get-tiny-image", {})
                kinds = [part.type for part in picture.content]
                assert kinds == ["text", "image", "text"]
                links = await client.call_tool(f"{server}.get-resource-links", {"count": 2})
                assert [part.type for part in links.content] == ["text", "resource_link", "resource_link"]
                told = await client.call_tool(f"{server}.get-annotated-message", {"messageType": "error"})
                assert told.content[0].annotations is not None and told.content[0].annotations.priority == 1

    run(main())
    seen, _ = our.chat(call_text(f"{server}.get-tiny-image"))
    assert "data:image/png;base64," in seen


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("server", ["everything", "web", "sse", "old", "oldweb"])
def test_progress_passes_both_hops(our: World, server: str, era: str) -> None:
    """MCP-60: under the token of each hop, in order."""
    tool, arguments = (LONG, {"duration": 0.4, "steps": 2}) if server[:3] != "old" else ("slow", {"steps": 2})
    heard: list[tuple[float, float | None]] = []

    async def progressed(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, total))

    async def main() -> None:
        async with our.client(era) as client:
            result = await client.call_tool(f"{server}.{tool}", arguments, progress_callback=progressed)
            assert not result.is_error

    run(main())
    assert heard == [(1, 2), (2, 2)]


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("server", ["old", "oldweb"])
def test_a_cancelled_call_is_cancelled_at_the_server(our: World, server: str, era: str) -> None:
    """MCP-8, MCP-13, MCP-60, MCP-47: cancelled by the client of ours; the server of others notices."""
    notes = our.home / f"{server}.notes"
    notes.unlink(missing_ok=True)

    async def main() -> None:
        async with our.client(era) as client:
            call = asyncio.create_task(client.call_tool(f"{server}.slow", {"steps": 600}))
            await asyncio.to_thread(until, notes.exists)
            call.cancel()
            await asyncio.to_thread(until, lambda: notes.read_text() == "cancelled", "the cancellation")
            result = await client.call_tool(f"{server}.add", {"a": 1, "b": 2})
            assert result.structured_content == {"result": 3}

    run(main())


def test_the_older_sdk_as_a_server(our: World) -> None:
    """MCP-1 (client): structured results, pictures and failures, on both transports."""
    for server in ("old", "oldweb"):
        assert our.server(server)["protocol"] in ("2025-11-25", "2025-06-18")
        assert our.tool(f"{server}__add", a=40, b=2).json() == {"result": 42}
        failed = our.tool(f"{server}__broken")
        assert failed.status_code == 500 and "it cannot be done" in failed.text
        seen, _ = our.chat(call_text(f"{server}.picture"))
        assert "data:image/png;base64,iVBORw0KGgo=" in seen


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("server", ["everything", "web"])
def test_questions_of_a_server_are_answered_by_the_client_behind_the_call(our: World, server: str, era: str) -> None:
    """MCP-30, MCP-57, MCP-62: sampling and forms, of a legacy server, in both eras of the client."""
    asked: list[str] = []

    async def sample(context: Any, params: Any) -> CreateMessageResult:
        asked.append(params.messages[0].content.text)
        return CreateMessageResult(
            role="assistant", content=TextContent(type="text", text="a word of its own"), model="its model"
        )

    async def fill_in(context: Any, params: Any) -> ElicitResult:
        asked.append(params.message)
        return ElicitResult(action="accept", content={"name": "Ada", "check": True})

    async def main() -> None:
        async with our.client(era, sampling_callback=sample, elicitation_callback=fill_in) as client:
            said = await client.call_tool(f"{server}.trigger-sampling-request", {"prompt": "Say it"})
            assert "a word of its own" in str(said.content)
            form = await client.call_tool(f"{server}.trigger-elicitation-request", {})
            assert "Ada" in str(form.content)

    run(main())
    assert len(asked) == 2 and "Say it" in asked[0]


def test_without_such_a_client_our_model_and_a_person_answer(our: World) -> None:
    """D75: the server's entry allows sampling; a form waits at ``/v1/approvals``."""
    said = our.tool("everything__trigger-sampling-request", prompt="Say it")
    assert "a word of the model" in said.text
    assert our.tool("sse__trigger-sampling-request", prompt="Say it").status_code == 404  # its entry allows none
    said: list[Any] = []
    calling = threading.Thread(target=lambda: said.append(our.tool("everything__trigger-elicitation-request")))
    calling.start()
    (waiting,) = until(lambda: our.http.get("/v1/approvals").json()["approvals"], "the form")
    body = {"approved": True, "content": {"name": "Grace", "check": True}}
    assert our.http.post(f"/v1/approvals/{waiting['requestId']}", json=body).status_code == 200
    calling.join()
    assert "Grace" in said[0].text


def test_a_server_of_files_keeps_to_its_roots(our: World) -> None:
    """MCP-52: it is told of the folders of its entry, and its refusals are errors."""
    assert str(our.home / "books") in our.tool("files__list_allowed_directories").text
    book = str(our.home / "books" / "a.txt")
    assert "in the book" in our.tool("files__read_text_file", path=book).text
    outside = our.tool("files__read_text_file", path=str(our.home / "secret.txt"))
    assert (
        outside.status_code == 500 and "Access denied" in outside.text and "secret" not in outside.json()["error"][:9]
    )
    roots = our.tool("everything__get-roots-list").text
    assert str(our.home / "books") in roots

    async def main() -> None:
        async with our.client(ERAS[0]) as client:
            refused = await client.call_tool("files.read_text_file", {"path": str(our.home / "secret.txt")})
            assert refused.is_error and "Access denied" in str(refused.content)
            wrong = await client.call_tool("files.read_text_file", {"file": book})
            assert wrong.is_error and "path" in str(wrong.content)

    run(main())


def test_a_server_that_was_stopped_when_idle_goes_on_where_it_was(our: World) -> None:
    """P92: what it keeps in its file is there after the next start."""
    entities = [{"name": "Ada", "entityType": "person", "observations": ["wrote programs"]}]
    assert our.tool("memory__create_entities", entities=entities).status_code == 200
    first = our.server("memory")["pid"]
    until(lambda: our.server("memory")["state"] == "idle", "the idle stop")
    until(lambda: first is None or not lives(first), "its end")
    assert "wrote programs" in our.tool("memory__read_graph").text
    assert our.server("memory")["pid"] not in (None, first)


def test_a_server_that_is_killed_in_a_call_costs_that_call_only(our: World) -> None:
    """MOD-12, P92: the error names it, others go on, the next call starts it anew."""
    our.tool("everything__echo", message="x")
    other, pid = our.server("old")["pid"], our.server("everything")["pid"]
    said: list[Any] = []
    calling = threading.Thread(target=lambda: said.append(our.tool(f"everything__{LONG}", duration=50, steps=1)))
    calling.start()
    until(lambda: our.server("everything")["running"], "the call")
    os.kill(pid, signal.SIGKILL)
    calling.join()
    assert said[0].status_code == 500 and "everything" in said[0].text and "signal 9" in said[0].text
    assert our.tool("everything__echo", message="again").json() == "Echo: again"
    assert our.server("everything")["pid"] != pid and our.server("old")["pid"] == other
    assert not lives(pid)


def test_a_server_that_starts_anew_at_its_address_is_used_again(our: World) -> None:
    """MCP-58: its sessions are unknown to it afterwards, which no call notices; while it is gone calls are told so."""

    def restarted() -> None:
        our.others["web"] = begun(our.ports["web"], NODE, EVERYTHING, "streamableHttp")
        until(lambda: answers(our.ports["web"]), "its port")

    def killed() -> None:
        our.others["web"].kill()
        our.others["web"].wait()

    assert our.tool("web__echo", message="x").json() == "Echo: x"
    killed()
    restarted()
    assert our.tool("web__echo", message="y").json() == "Echo: y"
    killed()
    gone = our.tool("web__echo", message="x")
    assert gone.status_code == 500 and "web" in gone.text
    restarted()
    until(lambda: our.tool("web__echo", message="x").status_code == 200, "the server to be used again")


def test_the_logs_hold_no_arguments(our: World) -> None:
    assert "wrote programs" not in our.program.logged and "Say it" not in our.program.logged


def test_servers_end_with_ours(our: World) -> None:
    """What reads its input to its end is gone, even when our server is killed: P92. The last test: nothing is left."""
    for name, arguments in (("everything__echo", {"message": "x"}), ("memory__read_graph", {}), ("old__broken", {})):
        our.tool(name, **arguments)
    pids = children(our.program.process.pid)
    assert len(pids) >= 4
    our.program.process.kill()
    until(lambda: not any(lives(pid) for pid in pids), "the end of all servers")
