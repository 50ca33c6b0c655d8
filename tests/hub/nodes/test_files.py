"""Files across nodes over real connections: one frame, pieces, and all that a node can get wrong (5.9, 6.4; D62)."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from app.demo.script import say
from app.demo.scripted import ScriptedUpstream
from app.extend import CallContext, CallFinished, CallStarted, Door, FetchedFile, FileCopy, Json
from app.hub.nodes import files as node_files
from app.hub.nodes.files import NodeFileError, NodeFiles
from tests.hub.nodes.wire_nodes import CONFIG, main_server, node
from tests.plugins.test_missing_files import NEEDS_FILES
from tests.server import Running, call_text, run, running, write_plugin

URL = "file:///home/n/%E5%9B%BE%201.png"
PICTURE = b"\x89PNG" + bytes(range(256)) * 8
CONTEXT = CallContext("t", Door.STREAM, client_ip="127.0.0.1")
PIECES = {"capabilities": {"cancelTool": True, "filePieces": True}}


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def whole(data: bytes = PICTURE, **fields: Any) -> dict[str, Any]:
    return {"status": "success", "fileData": encoded(data), "mimeType": "image/png", **fields}


class Disk:
    """Gives pieces of a file as our node does; ``change`` spoils an answer."""

    def __init__(self, data: bytes = PICTURE, version: str = "v1") -> None:
        self.data = data
        self.version = version
        self.change: Callable[[dict[str, Any]], Any] = lambda answer: answer

    def __call__(self, request: Mapping[str, Any]) -> Any:
        arguments = request["toolArgs"]
        offset, length = arguments["offset"], arguments["length"]
        piece = whole(self.data[offset : offset + length], offset=offset, size=len(self.data), version=self.version)
        return self.change(piece)


def fetcher(server: Running, *, max_bytes: int = 1_000_000, frame_bytes: int = 1_000_000) -> NodeFiles:
    return NodeFiles(server.services.nodes.holder_for, max_bytes=max_bytes, frame_bytes=lambda: frame_bytes)


async def fetched(server: Running, known: FileCopy | None = None, **limits: int) -> FetchedFile | None:
    return await fetcher(server, **limits).fetch(URL, CONTEXT, known)


def test_a_node_of_the_original_gives_the_file_in_one_frame_and_a_copy_of_it_skips_the_node(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            main_server(tmp_path) as server,
            node(server, "attic") as far,
            far.answering(lambda _: whole()) as came,
        ):
            file = FetchedFile(PICTURE, "image/png", "attic")
            assert await fetched(server) == file
            assert [(one["toolName"], one["toolArgs"]) for one in came] == [
                ("internal_request_file", {"fileUrl": URL}),
            ]
            assert await fetched(server, FileCopy("attic")) == FetchedFile(None, holder="attic")
            assert len(came) == 1
            assert await fetched(server, FileCopy("cellar")) == file, "a copy of another node is not the file"

    run(main())


@pytest.mark.parametrize(
    ("size", "frame", "asked"), [(2052, 1_000_000, 1), (2052, 5_096, 3), (2250, 5_096, 3), (0, 5_096, 1)]
)
def test_our_own_node_gives_it_in_pieces_that_fit_into_its_messages(
    tmp_path: Path, size: int, frame: int, asked: int
) -> None:
    async def main() -> None:
        disk = Disk((PICTURE * 2)[:size])
        async with (
            main_server(tmp_path) as server,
            node(server, "attic", **PIECES) as far,
            far.answering(disk) as came,
        ):
            file = await fetched(server, frame_bytes=frame)
            assert file == FetchedFile(disk.data, "image/png", "attic", "v1")
            assert len(came) == asked
            assert [one["toolArgs"]["offset"] for one in came] == [n * 750 for n in range(asked)]

    run(main())


def test_a_node_with_pieces_is_asked_whether_the_copy_still_is_the_file(tmp_path: Path) -> None:
    async def main() -> None:
        disk = Disk()
        async with (
            main_server(tmp_path) as server,
            node(server, "attic", **PIECES) as far,
            far.answering(disk) as came,
        ):
            assert await fetched(server, FileCopy("attic", "v1")) == FetchedFile(None, holder="attic", version="v1")
            assert [one["toolArgs"]["length"] for one in came] == [1]
            disk.data, disk.version = b"new", "v2"
            assert await fetched(server, FileCopy("attic", "v1")) == FetchedFile(b"new", "image/png", "attic", "v2")
            assert await fetched(server, FileCopy("cellar", "v2")) == FetchedFile(b"new", "image/png", "attic", "v2")
            assert await fetched(server, FileCopy("attic")) == FetchedFile(b"new", "image/png", "attic", "v2")

    run(main())


def test_a_node_that_gives_less_than_was_asked_for_is_asked_for_the_rest(tmp_path: Path) -> None:
    async def main() -> None:
        disk = Disk()
        disk.change = lambda answer: answer | {"fileData": encoded(base64.b64decode(answer["fileData"])[:1000])}
        async with main_server(tmp_path) as server, node(server, "a", **PIECES) as far, far.answering(disk) as came:
            file = await fetched(server)
            assert file is not None
            assert (file.content, len(came)) == (PICTURE, 3)

    run(main())


LATER = 1_000
"""Answers to offsets from here on are spoilt where a fault is to come in the middle."""


def later(**fields: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda answer: answer | fields if answer["offset"] >= LATER else answer


def always(**fields: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda answer: answer | fields


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (later(version="v2"), "was changed while it was read"),
        (later(size=len(PICTURE) + 1), "was changed while it was read"),
        (later(offset=0), "another piece"),
        (later(offset=-1), "another piece"),
        (always(offset=False), "another piece"),
        (always(offset="0"), "another piece"),
        (always(offset=None), "another piece"),
        (later(fileData=""), "an empty piece"),
        (later(fileData=encoded(b"x" * 1_500)), "more than"),
        (later(fileData=encoded(b"x" * 751)), "more than"),
        (always(fileData="A" * 3_000_000), "more than"),
        (always(fileData="!!!!"), "no base64"),
        (always(fileData="QQ"), "no base64"),
        (always(fileData="图图图图"), "no base64"),
        (always(fileData=None), "no fileData"),
        (always(fileData=["QQ=="]), "no fileData"),
        (always(size=-1), "sound size or version"),
        (always(size=None), "sound size or version"),
        (always(size=True), "sound size or version"),
        (always(size="9"), "sound size or version"),
        (always(size=2.0), "sound size or version"),
        (always(size=10**30), "more than 1000000 bytes"),
        (always(size=1_000_001), "more than 1000000 bytes"),
        (always(version=""), "sound size or version"),
        (always(version=7), "sound size or version"),
        (always(version="v" * 300), "sound size or version"),
        (always(status="error", error="no such file"), "no such file"),
        (always(status="error", error=["x"]), "no file and no reason"),
        (always(status=None), "no file and no reason"),
        (lambda _: None, "no object"),
        (lambda _: "text", "no object"),
        (lambda _: [], "no object"),
    ],
)
def test_pieces_that_do_not_fit_are_a_clear_error(
    tmp_path: Path, change: Callable[[dict[str, Any]], Any], told: str
) -> None:
    async def main() -> None:
        disk = Disk()
        disk.change = change
        request = Scripted(disk)
        with pytest.raises(NodeFileError) as refused:
            await NodeFiles(lambda *_: request, max_bytes=1_000_000, frame_bytes=lambda: 5_096).fetch(
                URL, CONTEXT, None
            )
        assert told in refused.value.message
        assert "attic" in refused.value.message

    run(main())


class Scripted:
    """A node whose answers come without a connection: a table of faults needs none."""

    name = "attic"

    def __init__(self, disk: Callable[[Mapping[str, Any]], Any], *, pieces: bool = True) -> None:
        self.disk = disk
        self.pieces = pieces
        self.asked = 0

    def announces(self, capability: str) -> bool:
        return capability == "filePieces" and self.pieces

    async def request(self, tool: str, arguments: Mapping[str, Json], seconds: float) -> Json:
        self.asked += 1
        assert (tool, seconds) == ("internal_request_file", 60.0)
        answer: Json = self.disk({"toolArgs": arguments})
        return answer


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (whole(fileData="%%%%"), "no base64"),
        (whole(fileData=5), "no fileData"),
        ({"status": "success"}, "no fileData"),
        (whole(b"x" * 101), "more than 100 bytes"),
        (whole(b"x" * 1_000), "more than 100 bytes"),
        ({"status": "error", "error": "denied"}, "denied"),
        (None, "no object"),
    ],
)
def test_one_frame_that_holds_no_file_is_a_clear_error(answer: Any, told: str) -> None:
    async def main() -> None:
        far = Scripted(lambda _: answer, pieces=False)
        with pytest.raises(NodeFileError) as refused:
            await NodeFiles(lambda *_: far, max_bytes=100, frame_bytes=lambda: 9_999).fetch(URL, CONTEXT, None)
        assert told in refused.value.message

    run(main())


@pytest.mark.parametrize("named", [None, 5, "", "x" * 300])
def test_a_senseless_media_type_is_left_to_the_ending(named: Any) -> None:
    async def main() -> None:
        far = Scripted(lambda _: whole(mimeType=named), pieces=False)
        files = NodeFiles(lambda *_: far, max_bytes=10_000, frame_bytes=lambda: 9_999)
        assert await files.fetch(URL, CONTEXT, None) == FetchedFile(PICTURE, "", "attic")

    run(main())


def test_a_file_in_endless_pieces_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        monkeypatch.setattr(node_files, "MAX_PIECES", 5)
        disk = Disk()
        disk.change = lambda answer: answer | {"fileData": "QQ=="}
        far = Scripted(disk)
        with pytest.raises(NodeFileError, match="more than 5 pieces"):
            await NodeFiles(lambda *_: far, max_bytes=10_000, frame_bytes=lambda: 9_999).fetch(URL, CONTEXT, None)
        assert far.asked == 6

    run(main())


def test_a_setting_that_allows_tiny_messages_only_still_moves_on() -> None:
    async def main() -> None:
        far = Scripted(Disk(b"abc"))
        files = NodeFiles(lambda *_: far, max_bytes=10_000, frame_bytes=lambda: 1)
        assert await files.fetch(URL, CONTEXT, None) == FetchedFile(b"abc", "image/png", "attic", "v1")

    run(main())


def test_nobody_is_asked_who_is_not_beside_the_client(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            main_server(tmp_path) as server,
            node(server, "attic") as far,
            far.answering(lambda _: whole()) as came,
        ):
            files = fetcher(server)
            for client in ("10.9.9.9", None):
                elsewhere = CallContext("t", Door.STREAM, client_ip=client)
                assert await files.fetch(URL, elsewhere, FileCopy("attic")) is None
                assert await files.fetch("file://cellar/a", elsewhere, None) is None
                assert await files.fetch("file://Attic/a", elsewhere, None) == FetchedFile(
                    PICTURE, "image/png", "attic"
                )
            assert [one["toolArgs"]["fileUrl"] for one in came] == ["file://Attic/a"] * 2

    run(main())


def test_a_node_that_is_lost_in_the_middle_is_an_error_at_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with main_server(tmp_path) as server, node(server, "attic", **PIECES) as far:
            fetching = asyncio.create_task(fetched(server, frame_bytes=5_096))
            disk = Disk()
            request = await far.asked()
            await far.answer(request, disk(request))
            await far.asked()
            await far.connection.close()
            with pytest.raises(NodeFileError, match=r"attic.*connection closed"):
                await fetching

    run(main())


@asynccontextmanager
async def beside(
    server: Running, disk: Callable[[Mapping[str, Any]], Any], *, pieces: bool = True
) -> AsyncIterator[None]:
    """A node on the machine of the client."""
    async with node(server, "attic", **(PIECES if pieces else {})) as far, far.answering(disk):
        yield


async def seen_by_model(home: Path, far_side: Callable[[Running], Any], url: str = URL) -> tuple[str, Running]:
    """What the model is told after a call of a plugin that lacks a file."""
    write_plugin(home, "Seer", NEEDS_FILES)
    script = [say(call_text("Seer", image_url_1=url, maid="Nova")), say("seen")]
    async with ScriptedUpstream(script) as upstream, running(home, upstream.base_url, config=CONFIG) as server:
        async with far_side(server):
            assert (await server.chat("look")).status_code == 200
        return json.dumps(upstream.bodies[1]["messages"][-1], ensure_ascii=False), server


def test_a_chat_beside_a_node_gets_its_file_and_one_call_is_seen(tmp_path: Path) -> None:
    """O17 over a real connection; a fetch is no tool call, so none can lead to another (loop guard)."""

    async def main() -> None:
        told, server = await seen_by_model(tmp_path, lambda server: beside(server, Disk()))
        assert "image_base64_1" in told
        assert encoded(PICTURE)[:200] in told
        calls = [event for event in server.events if isinstance(event, CallStarted | CallFinished)]
        assert [type(event) for event in calls] == [CallStarted, CallFinished]
        assert "internal_request_file" not in server.services.router.specs()
        assert server.services.router.find("attic#internal_request_file") is None

    run(main())


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ({"status": "error", "error": "not below a folder that this node shares"}, "not below a folder"),
        (whole(fileData="%"), "no base64"),
    ],
)
def test_a_refusal_of_the_node_is_told_with_the_plugins_own_error(
    tmp_path: Path, answer: dict[str, Any], told: str
) -> None:
    async def main() -> None:
        text, _ = await seen_by_model(tmp_path, lambda server: beside(server, lambda _: answer, pieces=False))
        assert "Plugin reported local file not found, but remote fetch failed" in text
        assert told in text

    run(main())
