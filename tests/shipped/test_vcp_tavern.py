"""VCPTavern: what presets do to a conversation (memory.md 6.5, 10.7 V1-V5; D77; P59, P63, P68)."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from datetime import UTC
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import openai
import pytest

from app.demo.script import say
from app.demo.scripted import ScriptedUpstream
from tests.server import HEADERS, Running, run, running
from tests.shipped.modules import modules_of

PLUGIN = Path(__file__).resolve().parents[2] / "Plugin" / "VCPTavern"
ADMIN = ("AdminUsername=admin", "AdminPassword=secret-password")
LOG = logging.getLogger("test")


@pytest.fixture(scope="module")
def tavern() -> Iterator[Callable[[str], ModuleType]]:
    with modules_of("VCPTavern") as modules:
        yield modules


def relative(position: str, target: str, text: str, role: str = "user", **more: Any) -> dict[str, Any]:
    content = {"role": role, "content": text}
    return {"enabled": True, "type": "relative", "position": position, "target": target, "content": content, **more}


def depth(number: Any, text: str) -> dict[str, Any]:
    return {"enabled": True, "type": "depth", "depth": number, "content": {"role": "user", "content": text}}


def embed(position: str, target: str, text: str) -> dict[str, Any]:
    return {"enabled": True, "type": "embed", "position": position, "target": target, "content": text}


CONVERSATION = [
    {"role": "system", "content": "S"},
    {"role": "user", "content": "u1"},
    {"role": "assistant", "content": "a1"},
    {"role": "user", "content": "u2"},
]


def inject(
    tavern: Callable[[str], ModuleType], rules: list[Any], messages: list[Any] | None = None, **preset: Any
) -> list[Any]:
    made = tavern("rules").read_preset({"rules": rules, **preset}, lambda _word: None)
    given = CONVERSATION if messages is None else messages
    copied = json.loads(json.dumps(given))
    result: list[Any] = tavern("injection").injected(copied, made, lambda text: text)
    assert copied == given
    return result


def texts(messages: list[Any]) -> str:
    return " ".join(message["content"] for message in messages)


VECTORS = [
    (
        "V1",
        [
            relative("before", "system", "B1"),
            relative("before", "system", "B2"),
            relative("after", "system", "A1"),
            relative("after", "system", "A2"),
        ],
        "B2 B1 S A2 A1 u1 a1 u2",
        "B1 B2 S A1 A2 u1 a1 u2",
    ),
    (
        "V2",
        [relative("after", "last_user", "A1"), relative("before", "last_user", "B1")],
        "S u1 a1 B1 u2 A1",
        "S u1 a1 B1 u2 A1",
    ),
    ("V3", [depth(2, "D2"), depth(1, "D1"), depth(9, "D9"), depth(0, "D0")], *["S D9 u1 D2 a1 D1 u2"] * 2),
    (
        "V4",
        [
            relative("before", "system", "S1", "system"),
            relative("before", "system", "S2", "system"),
            relative("after", "system", "X"),
        ],
        "S1 X S2 S u1 a1 u2",
        "S1 S2 S X u1 a1 u2",
    ),
    (
        "P63",
        [relative("before", "system", "rule0"), relative("before", "system", "rule1")],
        "rule1 rule0 S u1 a1 u2",
        "rule0 rule1 S u1 a1 u2",
    ),
]


@pytest.mark.parametrize(
    ("rules", "reference", "listed"), [row[1:] for row in VECTORS], ids=[row[0] for row in VECTORS]
)
def test_vectors_v1_to_v4_and_p63_in_both_orders(
    tavern: Callable[[str], ModuleType], rules: list[Any], reference: str, listed: str
) -> None:
    """D77: a preset without ``order`` keeps the reference's order, ``"order": "list"`` that of the list."""
    assert texts(inject(tavern, rules)) == reference
    assert texts(inject(tavern, rules, order="list")) == listed


@pytest.mark.parametrize("order", ["list", "n2025"])
def test_every_mode_finds_its_place(tavern: Callable[[str], ModuleType], order: str) -> None:
    def placed(*rules: Any) -> str:
        return texts(inject(tavern, list(rules), order=order))

    assert placed(relative("before", "first_user", "X")) == "S X u1 a1 u2"
    assert placed(relative("after", "first_user", "X")) == "S u1 X a1 u2"
    assert placed(relative("before", "all_user", "X")) == "S X u1 a1 X u2"
    assert placed(relative("after", "all_user", "X")) == "S u1 X a1 u2 X"
    assert placed(depth(4, "X")) == "S X u1 a1 u2"
    assert placed(depth(3, "X")) == "S X u1 a1 u2"
    assert placed(depth("2", "X")) == "S u1 X a1 u2"
    assert placed(embed("after", "system", "E")) == "S\n\nE u1 a1 u2"
    assert placed(embed("before", "last_user", "E")) == "S u1 a1 E\n\nu2"
    assert placed(embed("after", "all_user", "E")) == "S u1\n\nE a1 u2\n\nE"
    assert placed(embed("after", "first_user", "E"), embed("after", "first_user", "F")) == "S u1\n\nE\n\nF a1 u2"
    text_alone = {"enabled": "true", "type": "relative", "position": "after", "target": "system", "content": "T"}
    assert inject(tavern, [text_alone], order=order)[1] == {"role": "system", "content": "T"}


def test_texts_are_embedded_into_lists_of_parts_which_stay_lists(tavern: Callable[[str], ModuleType]) -> None:
    picture = {"type": "image_url", "image_url": {"url": "https://x/y.png"}}
    messages = [{"role": "user", "content": [picture, {"type": "text", "text": "u"}, picture]}]
    (message,) = inject(tavern, [embed("after", "last_user", "E")], messages)
    assert message["content"] == [picture, {"type": "text", "text": "u\n\nE"}, picture]
    (message,) = inject(tavern, [embed("before", "last_user", "E")], [{"role": "user", "content": [picture]}])
    assert message["content"] == [{"type": "text", "text": "E"}, picture]


def test_anchors_that_are_not_there_lose_only_their_rule(tavern: Callable[[str], ModuleType]) -> None:
    rules = [relative("before", "last_user", "X"), embed("after", "all_user", "E"), depth(9, "D")]
    for order in ("list", "n2025"):
        assert texts(inject(tavern, rules, [{"role": "assistant", "content": "a"}], order=order)) == "D a"
        assert texts(inject(tavern, rules, [{"role": "system", "content": "S"}], order=order)) == "S D"


@pytest.mark.parametrize(
    "rule",
    [
        None,
        7,
        {"enabled": True},
        {"enabled": True, "type": "relative", "target": "moon", "content": "x"},
        {"enabled": True, "type": "relative", "target": "system", "content": {"role": "tool", "content": "x"}},
        {"enabled": True, "type": "relative", "target": "system", "content": {"role": ["user"], "content": "x"}},
        {"enabled": True, "type": "relative", "target": "system", "content": {"role": "user", "content": 7}},
        {"enabled": True, "type": "relative", "target": "system", "content": {"content": [{"text": "x"}]}},
        {"enabled": True, "type": "spiral", "target": "system", "content": "x"},
        {"enabled": True, "type": "depth", "depth": -3, "content": "x"},
        {"enabled": True, "type": "depth", "depth": 1.5, "content": "x"},
        {"enabled": True, "type": "depth", "depth": 1e300, "content": "x"},
        {"enabled": False, "type": "depth", "depth": 1, "content": "x"},
        {"enabled": "false", "type": "depth", "depth": 1, "content": "x"},
    ],
)
def test_a_faulty_rule_loses_only_itself(tavern: Callable[[str], ModuleType], rule: Any) -> None:
    assert texts(inject(tavern, [rule, relative("after", "system", "good")])) == "S good u1 a1 u2"


def test_hostile_presets_are_bounded(tavern: Callable[[str], ModuleType]) -> None:
    """Ten thousand rules are cut, and texts that would fill the memory at every user message are refused."""
    told: list[str] = []
    many = tavern("rules").read_preset({"rules": [relative("before", "system", "x")] * 10_000}, told.append)
    assert len(many.rules) == 2_000
    assert told == ["only the first 2000 of 10000 rules are used"]
    assert len(tavern("injection").injected(CONVERSATION, many, str)) == 2_004
    users = [{"role": "user", "content": "u"}] * 100
    huge = [embed("after", "all_user", "x" * 1_000_000)]
    with pytest.raises(ValueError, match="characters"):
        inject(tavern, huge, users)
    for value in ([], "text", {"rules": "x"}, None):
        with pytest.raises(ValueError, match=r"list|object"):
            tavern("rules").read_preset(value, told.append)


def test_the_chat_before_this_one_is_that_before_the_last_minute(
    tavern: Callable[[str], ModuleType], tmp_path: Path
) -> None:
    times = tavern("chat_times")
    log = times.ChatTimes(tmp_path / "t.json", LOG)
    assert log.visit("a", 1_000.0) is None
    assert log.visit("a", 1_030.0) is None  # asked again within a minute: still the first chat
    assert log.visit("a", 8_230.0) == 1_030.0
    assert log.visit("a", 8_240.0) == 1_030.0
    assert log.visit("b", 8_240.0) is None
    assert times.ChatTimes(tmp_path / "t.json", LOG).visit("a", 9_000.0) == 8_240.0
    (tmp_path / "t.json").write_text('{"a": [1, "x"], "b": 7, "c": [null, NaN]}', "utf-8")
    assert times.ChatTimes(tmp_path / "t.json", LOG).visit("a", 9_000.0) is None
    assert times.chat_time(1_764_228_600.0, UTC) == "2025/11/27 07:30:00"
    assert [times.time_since(0.0, since) for since in (5, 300, 7_500, 273_600)] == [
        "5秒",
        "5分钟",
        "2小时5分钟",
        "3天4小时",
    ]


async def with_key(request: httpx.Request) -> None:
    """The client writes its key as ASCII; that of the tests is not."""
    others = [pair for pair in request.headers.raw if pair[0].lower() != b"authorization"]
    request.headers = httpx.Headers([*others, *HEADERS.items()])


def write_preset(home: Path, name: str, rules: list[Any], **more: Any) -> Path:
    path = home / "Plugin" / "VCPTavern" / "presets" / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"name": name, "rules": rules, **more}, ensure_ascii=False), "utf-8")
    return path


async def sent(server: Running, up: ScriptedUpstream, *messages: dict[str, Any]) -> list[Any]:
    answer = await server.chat(*messages)
    assert answer.status_code == 200, answer.text
    found: list[Any] = up.bodies[-1]["messages"]
    return found


def test_the_official_client_sees_what_a_preset_puts_in(tmp_path: Path) -> None:
    """V5, 3.7: only the first trigger counts and is removed; inserted system text is expanded, live (P62)."""
    write_preset(tmp_path, "morning", [relative("after", "system", "{{VarMood}} {{VarOther}}", "system")])
    config = ("VarMood=cheerful", "VarOther=and kind")

    async def main() -> None:
        async with (
            ScriptedUpstream([say("好")] * 9) as up,
            running(tmp_path, up.base_url, config=config) as server,
            httpx.AsyncClient(trust_env=False, event_hooks={"request": [with_key]}) as http,
        ):
            client = openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="ascii", max_retries=0, http_client=http)
            answer = await client.chat.completions.create(
                model="m",
                messages=[
                    {"role": "system", "content": " You are Nova. {{VCPTavern::morning}} {{VCPTavern::other}} "},
                    {"role": "user", "content": "{{VCPTavern::morning}}"},
                ],
            )
            assert answer.choices[0].message.content == "好"
            assert up.bodies[-1]["messages"] == [
                {"role": "system", "content": "You are Nova.  {{VCPTavern::other}}"},
                {"role": "system", "content": "cheerful and kind"},
                {"role": "user", "content": "{{VCPTavern::morning}}"},
            ]
            path = write_preset(tmp_path, "morning", [embed("after", "system", "new")])
            system = {"role": "system", "content": "S {{VCPTavern::morning}}"}
            assert await sent(server, up, system) == [{"role": "system", "content": "S\n\nnew"}]
            path.write_text('{"rules": [{"enab', "utf-8")  # P68: half written, the old content stays
            assert await sent(server, up, system) == [{"role": "system", "content": "S\n\nnew"}]
            path.unlink()
            assert await sent(server, up, system) == [{"role": "system", "content": "S"}]
            hostile = {"role": "system", "content": "S {{VCPTavern::../../config.env}}"}
            assert await sent(server, up, hostile) == [{"role": "system", "content": "S"}]

    run(main())


def test_system_text_given_as_parts_is_found_and_stays_a_list(tmp_path: Path) -> None:
    """P59: system content as a list of parts is neither skipped nor flattened."""
    write_preset(tmp_path, "预设", [relative("after", "system", "X")])
    parts = [
        {"type": "text", "text": "a {{Date}}", "cache_control": {"type": "ephemeral"}},
        {"type": "text", "text": " b {{VCPTavern::预设}}"},
        {"type": "text", "text": "{{VCPTavern::none}}"},
    ]

    async def main() -> None:
        async with ScriptedUpstream([say("好")]) as up, running(tmp_path, up.base_url) as server:
            system, inserted = await sent(server, up, {"role": "system", "content": parts})
            assert inserted == {"role": "user", "content": "X"}
            assert [part["text"] for part in system["content"][1:]] == ["b", "{{VCPTavern::none}}"]
            assert system["content"][0]["text"].startswith("a 20")
            assert system["content"][0]["cache_control"] == {"type": "ephemeral"}

    run(main())


def test_variables_of_presets_hold_in_every_role_where_the_preset_allows_it(tmp_path: Path) -> None:
    text = "{{Today}}|{{VarMood}}|{{VarSecret}}|{{agent:Nova}}|{{TimeSinceLastChat}}|{{LastChatTime}}"
    write_preset(tmp_path, "p", [depth(1, text)], placeholderAllowlist=["{{VarMood}}", "Key", "API_Key", 7])

    async def main() -> None:
        config = ("VarMood=cheerful", "VarSecret=s", "DEFAULT_TIMEZONE=UTC")
        async with ScriptedUpstream([say("好")] * 3) as up, running(tmp_path, up.base_url, config=config) as server:
            messages = [{"role": "system", "content": "S {{VCPTavern::p::session}}"}, {"role": "user", "content": "q"}]
            _, inserted, _ = await sent(server, up, *messages)
            today, mood, secret, agent, since, last = inserted["content"].split("|")
            assert today.startswith("星期")
            assert (mood, secret, agent) == ("cheerful", "{{VarSecret}}", "{{agent:Nova}}")
            assert since == last == "首次对话 / first chat"

    run(main())


def test_presets_are_listed_read_stored_and_removed_by_administrators_only(tmp_path: Path) -> None:
    """vcp-core 8.2: the four routes, with a real server."""

    async def main() -> None:
        async with ScriptedUpstream([say("好")]) as up, running(tmp_path, up.base_url, config=ADMIN) as server:
            url = "/admin_api/vcptavern/presets"
            auth = ("admin", "secret-password")
            assert (await server.client.get(url)).status_code in (401, 403)
            ask = server.client

            async def call(method: str, path: str, body: Any = None) -> tuple[int, Any]:
                content = body if isinstance(body, bytes) else json.dumps(body).encode()
                answer = await ask.request(method, url + path, content=content, auth=auth)
                return answer.status_code, answer.json()

            assert await call("GET", "") == (200, [])
            preset = {"name": "n", "description": "早", "order": "list", "rules": [relative("after", "system", "X")]}
            assert await call("POST", "/mor%20ning..!", preset) == (
                200,
                {"message": "Preset saved", "name": "morning"},
            )
            assert await call("GET", "/morning") == (200, preset)
            assert await call("GET", "") == (200, ["morning"])
            stored = tmp_path / ".vcp" / "plugins" / "VCPTavern" / "presets" / "morning.json"
            assert json.loads(stored.read_text("utf-8")) == preset
            for body in (
                b"[]",
                b"{",
                b'{"rules": 7}',
                b"\xff",
                b"[" * 100_000,
                b'{"rules": [], "x": NaN}',
                b'{"x": 1e999}',
            ):
                status, answer = await call("POST", "/morning", body)
                assert (status, "error" in answer) == (400, True), body[:20]
            assert await call("GET", "/morning") == (200, preset)
            assert (await call("POST", "/预设", preset))[0] == 400
            assert (await call("POST", "/big", b"{" + b" " * (10 * 1024 * 1024)))[0] == 413
            assert await call("GET", "/none") == (404, {"error": "Preset not found"})
            for name in ("/..%2F..%2Fconfig", "/..%5Cx", "/%00", "/.hidden"):
                assert (await call("GET", name))[0] in (400, 404)
                assert (await call("DELETE", name))[0] in (400, 404)
            assert await call("DELETE", "/morning") == (200, {"message": "Preset deleted"})
            assert await call("DELETE", "/morning") == (404, {"error": "Preset not found"})
            write_preset(tmp_path, "旧的", [])  # an installation that is taken over: its folder is used
            assert await call("GET", "") == (200, ["旧的"])
            assert (await call("POST", "/new", preset))[0] == 200
            assert (tmp_path / "Plugin/VCPTavern/presets/new.json").is_file()

    run(main())
