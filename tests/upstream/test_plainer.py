"""Upstreams that know no function calls: asked once more without our tools, and remembered for an hour."""

from __future__ import annotations

import asyncio
from itertools import count

import pytest

from app.errors import UpstreamStatusError
from app.upstream import plainer
from app.upstream.plainer import MAX_MODELS, REMEMBERED_SECONDS, ModelsWithoutTools, refuses_tools
from tests.upstream.test_failover import DATA, GOOD, Scene, says, upstreams
from tests.upstream.wire_server import answer

WITH, WITHOUT = b'{"tools":[1]}', b'{"no":1}'
NO_TOOLS = answer(400, b'{"error":"this model does not support tools"}')


async def chat(up: Scene, model: str = "m") -> bytes:
    reply = await up.client.chat(WITH, model=model, stream=True, without_tools=lambda: WITHOUT)
    async with reply:
        return await reply.read_all(1000)


def sent(up: Scene, server: int = 0) -> list[bytes]:
    """Bodies that this upstream got."""
    found = up.servers[server]
    assert found is not None
    return [request.body for request in found.requests]


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (400, b"registry.ollama.ai/library/llama2 does not support tools"),
        (400, b'{"error":{"message":"\\"auto\\" tool choice requires --enable-auto-tool-choice"}}'),
        (400, b"deepseek-reasoner does not support Function Calling"),
        (400, b"Unrecognized request argument supplied: functions"),
        (404, b"No endpoints found that support tool use."),
        (422, b'{"detail":[{"loc":["body","tools"],"msg":"extra fields not permitted"}]}'),
        (500, b"tools param requires --jinja flag"),
        (400, "该模型不支持工具调用".encode()),
        (400, "不支持函数".encode()),
        (400, b"tool_calls is not allowed"),
    ],
)
def test_refusals_that_speak_of_tools_are_known(status: int, said: bytes) -> None:
    assert refuses_tools(status, said)


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (400, b"temperature must be below 2"),
        (400, b"malfunction of toolkits"),
        (400, b""),
        (400, b"\xff\xfe"),
        (401, b"no tools for you"),
        (429, b"too many tool calls"),
        (503, b"tools are down"),
    ],
)
def test_other_refusals_are_not_taken_for_that(status: int, said: bytes) -> None:
    assert not refuses_tools(status, said)


def test_the_same_request_goes_out_once_more_without_and_the_next_ones_at_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scene() -> None:
        async with upstreams(says(NO_TOOLS, GOOD)) as up:
            assert await chat(up) == DATA
            assert await chat(up) == DATA
            assert sent(up) == [WITH, WITHOUT, WITHOUT]
            assert up.naps.waits == []
            (status,) = up.client.status()
            assert (status.failures, status.faults, status.running) == (0, 0, 0)

    asyncio.run(scene())
    assert "takes no tools for model 'm' (status 400)" in caplog.text


def test_other_models_are_asked_with_tools_and_after_an_hour_this_one_too() -> None:
    async def scene() -> None:
        async with upstreams(says(NO_TOOLS, GOOD)) as up:
            await chat(up)
            await chat(up, "other")
            up.now = REMEMBERED_SECONDS - 1
            await chat(up)
            up.now = REMEMBERED_SECONDS
            await chat(up)
            assert sent(up)[2:] == [WITH, WITHOUT, WITH]

    asyncio.run(scene())


def test_the_answers_without_tools_do_not_make_the_hour_longer() -> None:
    async def scene() -> None:
        async with upstreams(says(NO_TOOLS, GOOD)) as up:
            await chat(up)
            for up.now in (REMEMBERED_SECONDS / 2, REMEMBERED_SECONDS - 1, REMEMBERED_SECONDS + 1):
                await chat(up)
            assert sent(up)[-2:] == [WITHOUT, WITH]

    asyncio.run(scene())


def test_where_the_request_is_refused_without_tools_too_that_error_is_told_and_nothing_remembered() -> None:
    async def scene() -> None:
        async with upstreams(says(NO_TOOLS, answer(400, b"the functions of the client are wrong"), GOOD)) as up:
            with pytest.raises(UpstreamStatusError) as caught:
                await chat(up)
            assert caught.value.body == b"the functions of the client are wrong"
            assert caught.value.attempts == 1
            await chat(up)
            assert sent(up) == [WITH, WITHOUT, WITH]

    asyncio.run(scene())


def test_each_upstream_is_known_by_itself() -> None:
    async def scene() -> None:
        async with upstreams(says(answer(503), NO_TOOLS, GOOD), says(answer(503), GOOD)) as up:
            assert await chat(up) == DATA  # a: 503, b: 503, a: no tools, a: fine
            assert sent(up, 0) == [WITH, WITH, WITHOUT]
            assert sent(up, 1) == [WITH]

    asyncio.run(scene())


def test_a_request_without_tools_of_ours_keeps_its_error() -> None:
    async def scene() -> None:
        async with upstreams(says(NO_TOOLS)) as up:
            with pytest.raises(UpstreamStatusError):
                await up.client.chat(WITH, model="m", stream=True)
            assert sent(up) == [WITH]

    asyncio.run(scene())


def test_what_is_remembered_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    models, numbers = ModelsWithoutTools(), count()
    for _ in range(MAX_MODELS + 10):
        models.add(f"m{next(numbers)}", 0.0)
    assert not models.has("m9", 1.0)
    assert models.has("m10", 1.0)
    assert not models.has("m10", REMEMBERED_SECONDS)
    monkeypatch.setattr(plainer, "MAX_MODELS", 1)
    again = ModelsWithoutTools()
    again.add("a", 0.0)
    again.add("a", 5.0)
    assert again.has("a", REMEMBERED_SECONDS + 1)
