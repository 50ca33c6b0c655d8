"""ImageProcessor: media in user messages becomes text, kept by content (memory.md 6.3; vcp-core 3.8, 8.2; B35)."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from app.demo.script import Answer, Hold, Received, no_answer, say
from app.demo.scripted import ScriptedUpstream
from tests.server import Running, run, running
from tests.shipped.modules import modules_of

PLUGIN = Path(__file__).resolve().parents[2] / "Plugin" / "ImageProcessor"
SETTINGS = (
    "MultiModalModel=eyes",
    "MultiModalPrompt=Describe it.",
    "AdminUsername=admin",
    "AdminPassword=secret-password",
)
AUTH = ("admin", "secret-password")
LONG = "A description that is long enough to count, since it has more than fifty characters. "
LOG = logging.getLogger("test")


@pytest.fixture(scope="module")
def module() -> Iterator[Callable[[str], ModuleType]]:
    with modules_of("ImageProcessor") as modules:
        yield modules


def b64(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")


def medium(content: bytes, kind: str = "image/png") -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": f"data:{kind};base64,{b64(content)}"}}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def user(*parts: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(parts)}


class Eyes:
    """An upstream that describes what it is shown, and answers everything else."""

    def __init__(self) -> None:
        self.shown: list[bytes] = []
        self.bodies: list[Any] = []
        self.told: Callable[[bytes], str] = lambda content: f"{LONG}{content.decode()}"

    def __call__(self, received: Received) -> Answer:
        body = received.json
        if body["model"] != "eyes":
            self.bodies.append(body)
            return say("好")
        (message,) = body["messages"]
        prompt, part = message["content"]
        assert prompt == text("Describe it.")
        content = base64.b64decode(part["image_url"]["url"].partition("base64,")[2])
        self.shown.append(content)
        return say(self.told(content))


def served(home: Path, test: Callable[[Running, Eyes], Any], *config: str) -> None:
    async def main() -> None:
        eyes = Eyes()
        async with ScriptedUpstream(eyes) as up, running(home, up.base_url, config=(*SETTINGS, *config)) as server:
            await test(server, eyes)

    run(main())


async def sent(server: Running, eyes: Eyes, *messages: Any) -> list[Any]:
    answer = await server.chat(*messages)
    assert answer.status_code == 200, answer.text
    found: list[Any] = eyes.bodies[-1]["messages"]
    return found


def test_media_become_numbered_descriptions_behind_the_first_text(tmp_path: Path) -> None:
    """6.3: numbers over the whole request, one question for the same medium, other parts stay."""
    link = {"type": "image_url", "image_url": {"url": "https://example.com/x.png"}}

    async def test(server: Running, eyes: Eyes) -> None:
        system = {"role": "system", "content": [text("s"), medium(b"in system text")]}
        first = user(text("  look {{Date}} "), medium(b"cat"), link, text("more"))
        second = user(medium(b"dog", "audio/wav"), medium(b"cat", "video/mp4"))
        kept, one, two = await sent(server, eyes, system, first, second)
        assert kept == system
        head = "[多模态数据信息已提取:]"
        assert one["content"] == [
            text(f"look {{{{Date}}}}\n{head}\n[MULTIMODAL_DATA_1_Info: {LONG}cat]"),
            link,
            text("more"),
        ]
        assert two["content"] == [
            text(f"\n{head}\n[MULTIMODAL_DATA_2_Info: {LONG}dog]\n[MULTIMODAL_DATA_3_Info: {LONG}cat]")
        ]
        assert sorted(eyes.shown) == [b"cat", b"dog"]
        await sent(server, eyes, first, second)
        assert len(eyes.shown) == 2  # from the cache
        (plain,) = await sent(server, eyes, user(text("{{ShowBase64}}"), medium(b"new")))
        assert plain["content"] == [text(""), medium(b"new")]

    served(tmp_path, test)


def test_a_medium_that_fails_says_why_and_costs_the_others_nothing(tmp_path: Path) -> None:
    """Short descriptions are failures after three attempts; data that is no base64 is one; nothing of it is kept."""

    async def test(server: Running, eyes: Eyes) -> None:
        eyes.told = lambda content: "short" if content == b"bad" else f"{LONG}\x00\x1b{content.decode()}"
        odd = {"type": "image_url", "image_url": {"url": "data:image/png;base64,%%%"}}
        plain = {"type": "image_url", "image_url": f"data:image/x-y;base64,{b64(b'bare')}"}
        (message,) = await sent(server, eyes, user(text("q"), medium(b"bad"), medium(b"good"), odd, plain))
        lines = message["content"][0]["text"].split("\n")[2:]
        assert lines == [
            "[MULTIMODAL_DATA_1_Info: 多模态数据转译失败: the description has only 5 characters]",
            f"[MULTIMODAL_DATA_2_Info: {LONG}good]",
            "[MULTIMODAL_DATA_3_Info: 多模态数据转译失败: not base64]",
            f"[MULTIMODAL_DATA_4_Info: {LONG}bare]",
        ]
        assert sorted(eyes.shown) == [b"bad"] * 3 + [b"bare", b"good"]
        listed = (await server.client.get("/admin_api/multimodal-cache", auth=AUTH)).json()
        assert sorted(listed) == sorted([b64(b"good"), b64(b"bare")])

    served(tmp_path, test, "MultiModalModelAsynchronousLimit=4")


def test_with_half_a_configuration_each_medium_says_so(tmp_path: Path) -> None:
    async def test(server: Running, eyes: Eyes) -> None:
        (message,) = await sent(server, eyes, user(text("q"), medium(b"cat")))
        assert message["content"][0]["text"].endswith("\n[MULTIMODAL_DATA_1_Info: 多模态数据转译服务配置不完整]")

    served(tmp_path, test, "MultiModalPrompt=")


def test_without_any_of_it_media_reach_the_model_as_they_came(tmp_path: Path) -> None:
    async def test(server: Running, eyes: Eyes) -> None:
        given = user(text("q"), medium(b"cat"))
        assert await sent(server, eyes, given) == [given]

    served(tmp_path, test, "MultiModalPrompt=", "MultiModalModel=")


def test_settings_reach_the_question_and_at_most_so_many_are_asked_at_a_time(
    module: Callable[[str], ModuleType],
) -> None:
    rules = module("description").Rules.of(
        {
            "MultiModalModel": "eyes",
            "MultiModalPrompt": "p",
            "MultiModalModelThinkingBudget": "512",
            "MultiModalModelOutputMaxTokens": "9",
            "MultiModalModelAsynchronousLimit": "2",
        }
    )
    asked: list[Any] = []

    async def complete(body: Any) -> Any:
        asked.append(body)
        return {"choices": [{"message": {"content": LONG}}]}

    assert asyncio.run(module("description").describe(complete, rules, "data:x")) == LONG.strip()
    assert asked[0]["max_tokens"] == 9
    assert asked[0]["extra_body"] == {"thinking_config": {"thinking_budget": 512}}
    assert (rules.parallel, rules.insert_prompt) == (2, "[多模态数据信息已提取:]")


def test_descriptions_are_asked_for_side_by_side_within_the_limit_and_end_with_the_turn(tmp_path: Path) -> None:
    config = ("MultiModalModelAsynchronousLimit=2",)

    async def main() -> None:
        up = ScriptedUpstream(lambda received: no_answer(Hold("go")))
        async with up, running(tmp_path, up.base_url, config=(*SETTINGS, *config)) as server:
            parts = [medium(str(number).encode()) for number in range(5)]
            asking = asyncio.create_task(server.chat(user(text("q"), *parts)))
            await up.held(count=2)
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
            await up.gone(1)
            await up.gone(2)
            assert len(up.requests) == 2

    run(main())


def test_the_cache_is_read_replaced_and_described_anew_by_administrators(tmp_path: Path) -> None:
    """vcp-core 8.2: the shape of the old file, also under the older name; 400, 404, 500."""

    async def test(server: Running, eyes: Eyes) -> None:
        url = "/admin_api/multimodal-cache"
        assert (await server.client.get(url)).status_code in (401, 403)

        async def call(method: str, path: str, body: Any = None) -> tuple[int, Any]:
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            answer = await server.client.request(method, path, content=content, auth=AUTH)
            return answer.status_code, answer.json()

        assert await call("GET", url) == (200, {})
        await sent(server, eyes, user(text("q"), medium(b"cat"), medium(b"dog")))
        status, data = await call("GET", "/admin_api/image-cache")
        assert status == 200
        assert set(data) == {b64(b"cat"), b64(b"dog")}
        assert set(data[b64(b"cat")]) == {"id", "description", "timestamp", "mimeType"}
        assert data[b64(b"cat")]["mimeType"] == "data:image/png;"
        del data[b64(b"dog")]
        data[b64(b"cat")]["description"] = "A cat, said a person."
        assert (await call("POST", url, {"data": data}))[0] == 200
        assert (await call("GET", url))[1] == data
        (message,) = await sent(server, eyes, user(text("q"), medium(b"cat")))
        assert message["content"][0]["text"].endswith("_Info: A cat, said a person.]")
        status, answer = await call("POST", url + "/reidentify", {"base64Key": b64(b"cat")})
        assert (status, answer["newDescription"]) == (200, f"{LONG}cat")
        assert answer["newTimestamp"].endswith("Z")
        assert (await call("GET", url))[1][b64(b"cat")]["description"] == f"{LONG}cat"
        for body in (b"{", b"[]", {"data": []}, {"data": {"%": "x"}}, {"data": {b64(b"x"): 7}}, b"[" * 100_000):
            assert (await call("POST", url, body))[0] == 400, body
        assert (await call("POST", url + "/reidentify", {"base64Key": "%"}))[0] == 400
        assert (await call("POST", url + "/reidentify", {"base64Key": b64(b"none")}))[0] == 404
        eyes.told = lambda _content: "no"
        assert (await call("POST", url + "/reidentify", {"base64Key": b64(b"cat")}))[0] == 500
        assert list((await call("GET", url))[1]) == [b64(b"cat")]

    served(tmp_path, test)


def test_both_shapes_of_the_old_file_are_taken_over_once(tmp_path: Path) -> None:
    folder = tmp_path / "Plugin" / "ImageProcessor"
    folder.mkdir(parents=True)
    old = {
        b64(b"cat"): {
            "id": "1",
            "description": "old cat",
            "timestamp": "2025-01-02T03:04:05.678Z",
            "mimeType": "data:a;",
        },
        b64(b"\x89PNG dog"): "old dog",
        "%%%": "no key",
        b64(b"x"): {"description": 7},
        b64(b"y"): "",
    }
    (folder / "multimodal_cache.json").write_text(json.dumps(old), "utf-8")
    (folder / "image_cache.json").write_text("{half", "utf-8")

    async def test(server: Running, eyes: Eyes) -> None:
        (message,) = await sent(server, eyes, user(text("q"), medium(b"cat"), medium(b"\x89PNG dog")))
        assert message["content"][0]["text"].endswith("_1_Info: old cat]\n[MULTIMODAL_DATA_2_Info: old dog]")
        assert eyes.shown == []
        data = (await server.client.get("/admin_api/multimodal-cache", auth=AUTH)).json()
        assert data[b64(b"cat")] == old[b64(b"cat")]
        assert data[b64(b"\x89PNG dog")]["mimeType"] == "data:image/png;"
        emptied = await server.client.post("/admin_api/multimodal-cache", json={"data": {}}, auth=AUTH)
        assert emptied.status_code == 200

    served(tmp_path, test)

    async def again(server: Running, _eyes: Eyes) -> None:
        assert (await server.client.get("/admin_api/multimodal-cache", auth=AUTH)).json() == {}

    served(tmp_path, again)
    assert json.loads((folder / "multimodal_cache.json").read_text("utf-8")) == old


def test_the_cache_forgets_by_size_and_after_ninety_days_and_outlives_damage(
    module: Callable[[str], ModuleType], tmp_path: Path
) -> None:
    """LRU by bytes and 90 days; a damaged file is only a cache."""
    now = [1_700_000_000.0]
    cache_module = module("transcriptions")
    path = tmp_path / "c.sqlite3"
    cache = cache_module.Transcriptions(path, [], 3_200, lambda: now[0], LOG)
    shas = []
    for number in range(3):
        now[0] += 1
        content = bytes([number]) * 500
        shas.append(module("media").fingerprint(content))
        cache.keep(shas[-1], f"d{number}", "data:image/png;", content)
    now[0] += 1
    assert set(cache.known(shas[:1])) == {shas[0]}  # used: now the second one is the oldest
    cache.keep("f" * 64, "x" * 1_000, "data:image/png;", b"y" * 500)
    assert set(cache.known([*shas, "f" * 64])) == {shas[0], shas[2], "f" * 64}
    now[0] += 80 * 86_400
    assert cache.known([shas[0]]) == {shas[0]: "d0"}
    now[0] += 20 * 86_400
    cache.keep("e" * 64, "new", "data:image/png;", b"z")
    assert set(cache.known([*shas, "f" * 64, "e" * 64])) == {shas[0], "e" * 64}
    cache.close()
    path.write_bytes(b"this is no database, whatever its name says " * 100)
    for companion in (path.with_name("c.sqlite3-wal"), path.with_name("c.sqlite3-shm")):
        companion.unlink(missing_ok=True)
    assert cache.known(shas) == {}
    cache.close()
    assert sqlite3.connect(path).execute("SELECT count(*) FROM transcriptions").fetchone() == (0,)


@pytest.mark.parametrize("data", ["", "====", "%%%", "é", "A", "AAAA" * 2**25])
def test_what_is_no_base64_or_too_large_is_refused(module: Callable[[str], ModuleType], data: str) -> None:
    with pytest.raises(ValueError, match=r"base64|empty|larger"):
        module("media").decoded(data)


def test_odd_parts_are_left_alone(module: Callable[[str], ModuleType]) -> None:
    odd: list[Any] = [None, 7, {"type": "image_url"}, {"type": "image_url", "image_url": 7}, {"type": "text"}, "x"]
    odd += [{"type": "image_url", "image_url": {"url": "data:text/plain;base64,eA=="}}]
    messages: list[Any] = [{"role": "user", "content": odd}, {"role": "user", "content": None}, {"role": "assistant"}]
    assert module("media").media_in(messages) == []
