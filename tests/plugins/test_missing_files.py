"""Files that plugins lack: fetched, kept, and handed over in a second call (spec 5.9; vectors O17, O18)."""

from __future__ import annotations

import asyncio
import base64
import errno
import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from app.demo.script import say
from app.demo.scripted import ScriptedUpstream
from app.errors import BadRequestError
from app.extend import (
    CallContext,
    CallFinished,
    CallStarted,
    Door,
    ErrorKind,
    FetchedFile,
    FileCopy,
    FileFetcher,
    Json,
    ToolCall,
    ToolResult,
)
from app.plugins import file_copies, missing_files
from app.plugins.file_copies import old_name
from app.plugins.missing_files import MissingFiles, media_type_of, missing_file
from tests.server import call_text, run, running, write_plugin

NOW = time.time()
URL = "file:///C:/Users/n/图 1.png"
PICTURE = b"\x89PNG\r\n"
AS_URI = "data:image/png;base64," + base64.b64encode(PICTURE).decode()

NEEDS_FILES = """
import json, sys
arguments = json.loads(sys.stdin.read() or "{}")
for name, value in arguments.items():
    if value.startswith("file://"):
        print(json.dumps({"status": "error", "code": "FILE_NOT_FOUND_LOCALLY", "error": "no such file",
                          "fileUrl": value, "failedParameter": name}))
        break
else:
    print(json.dumps({"status": "success", "result": arguments}))
"""


class Node:
    """A fetcher in the place of a connected node; one with a version tells when a copy is still the file."""

    def __init__(
        self, files: Mapping[str, bytes], media_type: str = "image/png", name: str = "attic", version: str = ""
    ) -> None:
        self.files = files
        self.media_type = media_type
        self.name = name
        self.version = version
        self.sent = 0
        self.asked: list[tuple[str, str | None]] = []
        self.gate: asyncio.Event | None = None
        self.fault: Exception | None = None

    async def fetch(self, url: str, context: CallContext, known: FileCopy | None) -> FetchedFile | None:
        if known == FileCopy(self.name) and not self.version:
            return FetchedFile(None, holder=self.name)
        self.asked.append((url, context.client_ip))
        if self.gate is not None:
            await self.gate.wait()
        if self.fault is not None:
            raise self.fault
        if url not in self.files:
            return None
        if known == FileCopy(self.name, self.version):
            return FetchedFile(None, holder=self.name, version=self.version)
        self.sent += 1
        return FetchedFile(self.files[url], self.media_type, self.name, self.version)


class Plugin:
    """A plugin that lacks every file: it answers as NEEDS_FILES does, without a process."""

    def __init__(self, named: bool = True) -> None:
        self.named = named
        self.calls: list[Mapping[str, Json]] = []

    async def __call__(self, call: ToolCall) -> ToolResult:
        self.calls.append(call.arguments)
        assert set(call.texts) <= set(call.arguments), "the text of an argument that is gone"
        for name, value in call.arguments.items():
            if isinstance(value, str) and value.startswith("file://"):
                return lacks(value, name if self.named else None)
        return ToolResult(structured=dict(call.arguments))


class Clock:
    """In seconds since this test began."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def missing(folder: Path, fetchers: Sequence[FileFetcher], clock: Clock) -> MissingFiles:
    return MissingFiles(folder, fetchers, clock, lambda: NOW + clock())


def lacks(url: Any, parameter: str | None = None, **fields: Any) -> ToolResult:
    named = {} if parameter is None else {"failedParameter": parameter}
    answer = {"status": "error", "code": "FILE_NOT_FOUND_LOCALLY", "fileUrl": url, **named, **fields}
    return ToolResult(structured=answer, error_kind=ErrorKind.PLUGIN, message="no such file")


def call_of(**arguments: str) -> ToolCall:
    return ToolCall("c", "Seer", arguments, texts=dict(arguments))


def context(client_ip: str | None = "10.0.0.9", deadline: float | None = None) -> CallContext:
    return CallContext("t", Door.STREAM, client_ip=client_ip, deadline=deadline)


@pytest.mark.parametrize(
    ("given", "named", "handed"),
    [
        ("image_url_1", True, "image_base64_1"),  # O17
        ("image", True, "image_base64_image"),  # O18
        ("image_url", True, "image_base64_image_url"),
        ("image_url", False, "image_base64"),
    ],
)
def test_the_file_takes_the_place_of_the_argument_that_named_it(
    tmp_path: Path, given: str, named: bool, handed: str
) -> None:
    async def main() -> None:
        plugin = Plugin(named)
        files = missing(tmp_path / "cache", [Node({}), Node({URL: PICTURE})], Clock())
        result = await files.call(plugin, call_of(**{given: URL, "prompt": "p"}), context())
        assert result.structured == {"prompt": "p", handed: AS_URI}

    run(main())


def test_each_of_several_missing_files_is_fetched(tmp_path: Path) -> None:
    async def main() -> None:
        urls = {f"file:///{number}.png": PICTURE for number in range(3)}
        given = {f"image_url_{number}": url for number, url in enumerate(urls)}
        result = await missing(tmp_path / "c", [Node(urls)], Clock()).call(Plugin(), call_of(**given), context())
        assert result.structured == {f"image_base64_{number}": AS_URI for number in range(3)}

    run(main())


def test_a_copy_in_the_file_cache_skips_the_node_also_after_a_restart(tmp_path: Path) -> None:
    async def main() -> None:
        folder, node = tmp_path / ".file_cache", Node({URL: PICTURE})
        for _ in range(2):
            result = await missing(folder, [node], Clock()).call(Plugin(), call_of(image_url=URL), context())
            assert result.ok
        assert node.asked == [(URL, "10.0.0.9")]
        for copies in (folder / "content", folder / "index"):
            (copy,) = copies.iterdir()
            assert copy.stat().st_mode & 0o777 == 0o600
            assert copies.stat().st_mode & 0o777 == 0o700
            assert b"file:" not in copy.read_bytes(), "which files somebody has is nobody's business"

    run(main())


def test_without_a_fetcher_or_a_known_client_the_plugins_own_error_stays(tmp_path: Path) -> None:
    async def main() -> None:
        node = Node({URL: PICTURE})
        for fetchers, client in (([], "10.0.0.9"), ([node], None)):
            files = missing(tmp_path / "c", fetchers, Clock())
            result = await files.call(Plugin(), call_of(image_url=URL), context(client))
            assert (result.message, result.original_error) == ("no such file", "")
        assert node.asked == []

    run(main())


def test_a_failed_fetch_is_told_with_the_plugins_error_and_remembered_for_30_seconds(tmp_path: Path) -> None:
    async def main() -> None:
        clock, node = Clock(), Node({})
        files = missing(tmp_path / "c", [node], clock)
        for clock.now, asked in ((0.0, 1), (29.9, 1), (30.1, 2)):
            result = await files.call(Plugin(), call_of(image_url=URL), context())
            assert result.error_kind is ErrorKind.PLUGIN
            assert result.message.startswith(
                "Plugin reported local file not found, but remote fetch failed: 没有节点拥有该文件"
            )
            assert result.original_error == "no such file"
            assert len(node.asked) == asked

    run(main())


def test_a_file_that_cannot_be_kept_is_used_but_not_asked_for_again_within_5_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    async def main() -> None:
        clock, node = Clock(), Node({URL: PICTURE})
        files = missing(tmp_path / "c", [node], clock)
        monkeypatch.setattr(os, "fsync", full)
        assert (await files.call(Plugin(), call_of(image_url=URL), context())).ok
        clock.now = 4.9
        again = await files.call(Plugin(), call_of(image_url=URL), context())
        assert "within 5 s" in again.message
        clock.now = 5.1
        assert (await files.call(Plugin(), call_of(image_url=URL), context())).ok
        assert [path for path in (tmp_path / "c").rglob("*") if path.is_file()] == []

    run(main())


def test_calls_that_want_the_same_file_at_a_time_share_one_fetch(tmp_path: Path) -> None:
    async def main() -> None:
        node = Node({URL: PICTURE})
        node.gate = asyncio.Event()
        files = missing(tmp_path / "c", [node], Clock())
        calls = [asyncio.create_task(files.call(Plugin(), call_of(image_url=URL), context())) for _ in range(3)]
        while not node.asked:
            await asyncio.sleep(0)
        calls[0].cancel()  # whoever goes away takes nothing from the others
        node.gate.set()
        results = await asyncio.gather(*calls, return_exceptions=True)
        assert isinstance(results[0], asyncio.CancelledError)
        assert [result.ok for result in results[1:] if isinstance(result, ToolResult)] == [True, True]
        assert len(node.asked) == 1

    run(main())


def test_a_plugin_that_asks_for_the_same_file_again_and_again_is_stopped(tmp_path: Path) -> None:
    async def main() -> None:
        calls: list[ToolCall] = []

        async def stubborn(call: ToolCall) -> ToolResult:
            calls.append(call)
            return lacks(URL)

        async def endless(call: ToolCall) -> ToolResult:
            calls.append(call)
            return lacks(f"file:///{len(calls)}.png")

        files = missing(tmp_path / "c", [Node({URL: PICTURE})], Clock())
        assert "asked for it again" in (await files.call(stubborn, call_of(image_url=URL), context())).message
        assert len(calls) == 2

        class Everything:
            async def fetch(self, url: str, context: CallContext, known: FileCopy | None) -> FetchedFile:
                return FetchedFile(b"x", "image/png")

        calls.clear()
        files = missing(tmp_path / "c", [Everything()], Clock())
        assert "too many files" in (await files.call(endless, call_of(image_url=URL), context())).message
        assert len(calls) == missing_files.FILES_IN_A_CALL + 1

    run(main())


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (BadRequestError("the node says no"), "the node says no"),
        (RuntimeError("secret"), "fetching the file failed (RuntimeError)"),
        (TimeoutError(), "did not come within 300 s"),
    ],
)
def test_a_fault_of_a_fetcher_is_the_error_of_that_call_only(tmp_path: Path, fault: Exception, told: str) -> None:
    async def main() -> None:
        node = Node({})
        node.fault = fault
        result = await missing(tmp_path / "c", [node], Clock()).call(Plugin(), call_of(image_url=URL), context())
        assert told in result.message
        assert "secret" not in result.message

    run(main())


def test_a_fetch_ends_with_its_time_and_with_that_of_its_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        node = Node({URL: PICTURE})
        node.gate = asyncio.Event()
        files = missing(tmp_path / "c", [node], Clock())
        soon = asyncio.get_running_loop().time() + 0.02
        result = await files.call(Plugin(), call_of(image_url=URL), context(deadline=soon))
        assert "the time of the call is over" in result.message
        monkeypatch.setattr(missing_files, "FETCH_SECONDS", 0.02)
        result = await files.call(Plugin(), call_of(image_url=URL + "x"), context())
        assert "did not come within" in result.message

    run(main())


@pytest.mark.parametrize(
    "url",
    [
        None,
        5,
        ["file:///a"],
        "",
        "http://host/a",
        "/etc/passwd",
        "file:///a\0b",
        "file:///" + "a" * 9000,
        "file:///\ud800",
    ],
)
def test_what_is_no_file_address_is_not_fetched(url: Any) -> None:
    assert missing_file(lacks(url)) is None


def test_only_a_plugins_own_word_starts_a_fetch() -> None:
    assert missing_file(lacks(URL)) == URL
    fields = {"code": "FILE_NOT_FOUND_LOCALLY", "fileUrl": URL}
    assert missing_file(ToolResult(structured=fields)) is None
    assert missing_file(ToolResult(structured=fields, error_kind=ErrorKind.EXECUTION)) is None
    assert missing_file(lacks(URL, code="OTHER")) is None


def test_hostile_addresses_name_files_of_the_cache_and_nothing_else(tmp_path: Path) -> None:
    for url in (
        "file:///../../x.png",
        "file:///a.png?x=/..",
        "file://[half",
        "file:///a.%2e%2e%2fx",
        "file:///a.p/ng",
        "file:///%00.png",
    ):
        name = old_name(url)
        assert "/" not in name
        assert "\0" not in name
        assert len(name) <= 64 + 17
        assert media_type_of(url) in ("image/png", "application/octet-stream")


def test_too_large_a_file_and_a_senseless_media_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        files = missing(tmp_path / "c", [Node({URL: PICTURE}, "a;b,c")], Clock())
        assert (await files.call(Plugin(), call_of(image_url=URL), context())).structured == {
            "image_base64_image_url": AS_URI
        }
        monkeypatch.setattr(missing_files, "FILE_BYTES", 3)
        files = missing(tmp_path / "d", [Node({URL: PICTURE})], Clock())
        assert "3 are allowed" in (await files.call(Plugin(), call_of(image_url=URL), context())).message

    run(main())


class Two:
    """Two nodes beside two clients, each with a file of its own under the same address."""

    def __init__(self, **nodes: Node) -> None:
        self.nodes = {client.replace("_", "."): node for client, node in nodes.items()}

    async def fetch(self, url: str, context: CallContext, known: FileCopy | None) -> FetchedFile | None:
        node = self.nodes.get(context.client_ip or "")
        return None if node is None else await node.fetch(url, context, known)


async def handed(files: MissingFiles, client: str = "10.0.0.9") -> bytes:
    result = await files.call(Plugin(), call_of(image=URL), context(client))
    assert isinstance(result.structured, dict), result.message
    return base64.b64decode(str(result.structured["image_base64_image"]).partition(",")[2])


def test_two_clients_with_the_same_address_never_get_each_others_file(tmp_path: Path) -> None:
    async def main() -> None:
        clock, node = Clock(), Node({URL: b"a"}, name="a")
        both = Two(a=node, b=Node({URL: b"b"}, name="b"))
        files = missing(tmp_path / "c", [both], clock)
        for clock.now in (0.0, 10.0, 20.0):
            assert await handed(files, "a") == b"a"
            assert await handed(files, "b") == b"b"
        assert node.sent == 1
        both.nodes["a"] = Node({URL: b"another machine"}, name="c")  # the same address belongs to somebody else now
        clock.now = 30.0
        assert await handed(files, "a") == b"another machine"
        assert "nobody who has the file" in (await files.call(Plugin(), call_of(image=URL), context("d"))).message

    run(main())


def test_a_file_that_changed_behind_its_address_is_fetched_anew_when_the_node_tells(tmp_path: Path) -> None:
    async def main() -> None:
        clock, node = Clock(), Node({URL: b"1"}, version="v1")
        files = missing(tmp_path / "c", [node], clock)
        for clock.now, version, content, sent in (
            (0.0, "v1", b"1", 1),
            (4.0, "v2", b"1", 1),  # not asked again within 5 s
            (10.0, "v2", b"2", 2),
            (20.0, "v2", b"2", 2),
            (30.0, "v3", b"2", 3),
        ):
            node.version, node.files = version, {URL: b"2" if version != "v1" else b"1"}
            assert (await handed(files), node.sent) == (content, sent)

    run(main())


def test_the_same_bytes_are_stored_once(tmp_path: Path) -> None:
    async def main() -> None:
        nodes = Two(**{f"c{number}": Node({URL: PICTURE}, name=f"n{number}") for number in range(3)})
        files = missing(tmp_path / "c", [nodes], Clock())
        for number in range(3):
            assert await handed(files, f"c{number}") == PICTURE
        assert len(list((tmp_path / "c" / "content").iterdir())) == 1
        assert len(list((tmp_path / "c" / "index").iterdir())) == 3

    run(main())


def test_a_copy_serves_its_client_while_the_node_is_away_until_it_is_too_old(tmp_path: Path) -> None:
    async def main() -> None:
        clock, nodes = Clock(), Two(a=Node({URL: PICTURE}, version="1"))
        files = missing(tmp_path / "c", [nodes], clock)
        assert await handed(files, "a") == PICTURE
        nodes.nodes.clear()
        clock.now = file_copies.CACHE_DAYS * 86_400 - 1
        assert await handed(files, "a") == PICTURE
        clock.now += 60
        assert "nobody who has" in (await files.call(Plugin(), call_of(image=URL), context("a"))).message

    run(main())


def test_the_copies_of_an_older_installation_are_used_when_nobody_else_has_the_file(tmp_path: Path) -> None:
    async def main() -> None:
        (tmp_path / old_name(URL)).write_bytes(b"old")
        os.utime(tmp_path / old_name(URL), (NOW, NOW))
        nodes = Two(a=Node({URL: PICTURE}, name="a"))
        clock = Clock()
        files = missing(tmp_path, [nodes], clock)
        assert await handed(files, "a") == PICTURE
        assert await handed(files, "b") == b"old"
        assert not (await files.call(Plugin(), call_of(image=URL + "x"), context("b"))).ok
        clock.now = file_copies.CACHE_DAYS * 86_400 + 60
        assert not (await files.call(Plugin(), call_of(image=URL), context("b"))).ok
        await files.start()

    run(main())
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("client", [None, "10.0.0.9"])
def test_an_address_that_names_a_machine_is_asked_for_wherever_the_call_came_from(
    tmp_path: Path, client: str | None
) -> None:
    async def main() -> None:
        url = "file://Attic/a%20b.png"
        node = Node({url: PICTURE})
        result = await missing(tmp_path / "c", [node], Clock()).call(Plugin(), call_of(image=url), context(client))
        assert result.structured == {"image_base64_image": AS_URI}

    run(main())


def test_a_file_without_content_that_nobody_had_is_an_error(tmp_path: Path) -> None:
    async def main() -> None:
        class Empty:
            async def fetch(self, url: str, context: CallContext, known: FileCopy | None) -> FetchedFile:
                return FetchedFile(None)

        result = await missing(tmp_path / "c", [Empty()], Clock()).call(Plugin(), call_of(image=URL), context())
        assert "came without content" in result.message

    run(main())


def test_a_chat_gets_the_answer_of_the_second_call_as_one_call(tmp_path: Path) -> None:
    """O17 from the model's block to the text that it reads, with a real process."""

    async def main() -> None:
        write_plugin(tmp_path, "Seer", NEEDS_FILES)
        node = Node({URL: PICTURE})
        script = [
            say(call_text("Seer", image_url_1=URL, maid="Nova")),
            say("seen"),
        ]
        async with (
            ScriptedUpstream(script) as upstream,
            running(tmp_path, upstream.base_url, fetchers=[node]) as server,
        ):
            assert (await server.chat("look")).status_code == 200
            told = json.dumps(upstream.bodies[1]["messages"][-1], ensure_ascii=False)
            assert "image_base64_1" in told
            assert "image_url_1" not in told
            assert node.asked == [(URL, "127.0.0.1")]
            assert [type(event) for event in server.events if isinstance(event, CallStarted | CallFinished)] == [
                CallStarted,
                CallFinished,
            ]
            (kept,) = (tmp_path / ".file_cache" / "content").iterdir()
            assert kept.read_bytes() == PICTURE

    run(main())


def test_a_failed_fetch_reaches_the_model_with_both_errors(tmp_path: Path) -> None:
    async def main() -> None:
        write_plugin(tmp_path, "Seer", NEEDS_FILES)
        async with running(tmp_path, "http://127.0.0.1:9", fetchers=[Node({})]) as server:
            answer = await server.client.post(
                "/v1/human/tool",
                content=call_text("Seer", image_url=URL).encode(),
                headers={"Content-Type": "text/plain"},
            )
            assert answer.status_code == 500
            assert answer.json()["plugin_error"].startswith("Plugin reported local file not found, but remote fetch")
            assert answer.json()["original_plugin_error"] == "no such file"

    run(main())


def test_what_one_client_lacks_another_may_have(tmp_path: Path) -> None:
    async def main() -> None:
        class BesideOne:
            async def fetch(self, url: str, context: CallContext, known: FileCopy | None) -> FetchedFile | None:
                return FetchedFile(PICTURE, "image/png") if context.client_ip == "10.0.0.9" else None

        files = missing(tmp_path / "c", [BesideOne()], Clock())
        for client, ok in (("10.0.0.8", False), ("10.0.0.9", True)):
            assert (await files.call(Plugin(), call_of(image_url=URL), context(client))).ok is ok

    run(main())


def test_the_stop_of_the_server_leaves_no_fetch_running(tmp_path: Path) -> None:
    async def main() -> None:
        node = Node({})
        node.gate = asyncio.Event()
        before = asyncio.all_tasks()
        files = missing(tmp_path / "c", [node], Clock())
        call = asyncio.create_task(files.call(Plugin(), call_of(image_url=URL), context()))
        while not node.asked:
            await asyncio.sleep(0)
        call.cancel()
        await files.stop()
        await asyncio.gather(call, return_exceptions=True)
        assert asyncio.all_tasks() == before

    run(main())
