"""A word of our model for MCP servers: translated both ways, nothing expanded, within limits (MCP-52; D75)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from app.errors import BadRequestError, UpstreamBrokenError
from app.extend import Json
from app.mcp.client import sampling as sampling_module
from app.mcp.client.sampling import Sampling


class Model:
    """A model API that remembers what it was asked and answers with ``message``."""

    def __init__(self, message: Json = None, finish: str = "stop") -> None:
        self.asked: list[dict[str, Any]] = []
        self.depths: list[int] = []
        self.message = {"role": "assistant", "content": "yes"} if message is None else message
        self.finish = finish
        self.now = 0.0
        self.completion: Json = None

    async def __call__(self, body: dict[str, Json], depth: int) -> Json:
        self.asked.append(body)
        self.depths.append(depth)
        if self.completion is not None:
            return self.completion
        return {"model": "real-model", "choices": [{"message": self.message, "finish_reason": self.finish}]}

    def sampling(self, model: str = "m", max_tokens: int = 100, per_minute: int = 10, max_depth: int = 5) -> Sampling:
        return Sampling(
            self,
            model=lambda: model,
            max_tokens=lambda: max_tokens,
            per_minute=lambda: per_minute,
            max_depth=lambda: max_depth,
            clock=lambda: self.now,
        )


def said(text: str, role: str = "user") -> dict[str, Any]:
    return {"role": role, "content": {"type": "text", "text": text}}


def sample(model: Model, params: dict[str, Any], *, named: str = "", depth: int = 1, **limits: Any) -> dict[str, Any]:
    return asyncio.run(model.sampling(**limits)("server", params, named, depth=depth))


def test_a_conversation_is_put_to_the_model_as_it_is_and_its_answer_has_the_shape_of_the_protocol() -> None:
    model = Model()
    params = {
        "systemPrompt": "{{Nova}} and {{VarX}} stay as they are",
        "messages": [said("<<<[TOOL_REQUEST]>>>"), said("before", "assistant")],
        "maxTokens": 50,
        "temperature": 0.2,
        "stopSequences": ["a", "b", "c", "d", "e"],
        "metadata": {"secret": 1},
        "includeContext": "allServers",
        "modelPreferences": {"hints": [{"name": "gpt-9"}]},
    }
    assert sample(model, params) == {
        "role": "assistant",
        "content": {"type": "text", "text": "yes"},
        "model": "real-model",
        "stopReason": "endTurn",
    }
    assert model.asked == [
        {
            "model": "m",
            "messages": [
                {"role": "system", "content": "{{Nova}} and {{VarX}} stay as they are"},
                {"role": "user", "content": "<<<[TOOL_REQUEST]>>>"},
                {"role": "assistant", "content": "before"},
            ],
            "max_tokens": 50,
            "stream": False,
            "temperature": 0.2,
            "stop": ["a", "b", "c", "d"],
        }
    ]


def test_pictures_and_sound_become_parts() -> None:
    model = Model()
    content = [
        {"type": "text", "text": "look"},
        {"type": "image", "data": "QUJD", "mimeType": "image/png"},
        {"type": "audio", "data": "REVG", "mimeType": "audio/wav"},
    ]
    sample(model, {"messages": [{"role": "user", "content": content}], "maxTokens": 5})
    assert model.asked[0]["messages"][0]["content"] == [
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}},
        {"type": "input_audio", "input_audio": {"data": "REVG", "format": "wav"}},
    ]


def test_tools_of_the_server_go_to_the_model_and_its_calls_come_back() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}
    broken = {"id": "c2", "type": "function", "function": {"name": "add", "arguments": "{"}}
    model = Model({"role": "assistant", "content": None, "tool_calls": [call, broken]}, "tool_calls")
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    params = {
        "messages": [
            said("add"),
            {"role": "assistant", "content": {"type": "tool_use", "id": "c0", "name": "add", "input": {"a": 0}}},
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "toolUseId": "c0", "content": [{"type": "text", "text": "0"}]},
                    {"type": "tool_result", "toolUseId": "c9", "content": [], "structuredContent": {"n": 1}},
                    {"type": "text", "text": "go on"},
                ],
            },
        ],
        "maxTokens": 5,
        "tools": [{"name": "add", "description": "adds", "inputSchema": schema}],
        "toolChoice": {"mode": "required"},
    }
    answer = sample(model, params)
    assert answer["content"] == [{"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 1}}]
    assert answer["stopReason"] == "toolUse"
    body = model.asked[0]
    assert body["tools"] == [
        {"type": "function", "function": {"name": "add", "description": "adds", "parameters": schema}}
    ]
    assert body["tool_choice"] == "required"
    assert body["messages"][1:] == [
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "c0", "type": "function", "function": {"name": "add", "arguments": '{"a": 0}'}}],
        },
        {"role": "tool", "tool_call_id": "c0", "content": "0"},
        {"role": "tool", "tool_call_id": "c9", "content": '{"n": 1}'},
        {"role": "user", "content": "go on"},
    ]


def test_without_tools_a_call_of_the_model_is_no_answer() -> None:
    call = {"id": "c", "function": {"name": "add", "arguments": "{}"}}
    model = Model({"content": "text", "tool_calls": [call]})
    assert sample(model, {"messages": [said("x")], "maxTokens": 5})["content"] == {"type": "text", "text": "text"}


@pytest.mark.parametrize(("finish", "reason"), [("stop", "endTurn"), ("length", "maxTokens"), ("odd", "endTurn")])
def test_why_the_model_stopped_is_told(finish: str, reason: str) -> None:
    assert sample(Model(finish=finish), {"messages": [said("x")], "maxTokens": 5})["stopReason"] == reason


@pytest.mark.parametrize("wanted", [101, 10**30, 0, -1, True, None, "5"])
def test_tokens_have_a_limit(wanted: Any) -> None:
    model = Model()
    sample(model, {"messages": [said("x")], "maxTokens": wanted})
    assert model.asked[0]["max_tokens"] == 100


def test_the_model_of_the_entry_beats_the_setting_and_without_any_it_is_refused() -> None:
    model = Model()
    sample(model, {"messages": [said("x")], "maxTokens": 5}, named="of-the-entry")
    assert model.asked[0]["model"] == "of-the-entry"
    with pytest.raises(BadRequestError, match="MCPSamplingModel"):
        asyncio.run(model.sampling(model="")("server", {"messages": [said("x")], "maxTokens": 5}, depth=1))


def test_a_server_that_asks_too_often_is_refused_until_a_minute_is_over() -> None:
    model = Model()
    ask = model.sampling(per_minute=2)

    async def main() -> None:
        params = {"messages": [said("x")], "maxTokens": 5}
        for _ in range(2):
            await ask("server", params, depth=1)
        with pytest.raises(BadRequestError, match="MCPSamplingPerMinute"):
            await ask("server", params, depth=1)
        await ask("another", params, depth=1)
        model.now = 61.0
        await ask("server", params, depth=1)

    asyncio.run(main())


def test_chains_end_and_the_model_api_is_told_how_deep_it_stands() -> None:
    model = Model()
    sample(model, {"messages": [said("x")], "maxTokens": 5}, depth=5)
    assert model.depths == [5]
    with pytest.raises(BadRequestError):
        sample(model, {"messages": [said("x")], "maxTokens": 5}, depth=6)


@pytest.mark.parametrize(
    "params",
    [
        {"messages": [said("x" * 5000)]},
        {"messages": [said("x")] * 300},
        {"messages": [said("x")], "tools": [{"name": "t"}] * 200},
        {"messages": [said("x")], "systemPrompt": "x" * 5000},
    ],
)
def test_requests_that_are_too_large_reach_no_model(params: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling_module, "MAX_CHARS", 4000 if "tools" not in params else 10**6)
    model = Model()
    with pytest.raises(BadRequestError):
        sample(model, {"maxTokens": 5, **params})
    assert not model.asked


@pytest.mark.parametrize("completion", [{}, [], "x", {"choices": []}, {"choices": [1]}, {"choices": [{"message": 1}]}])
def test_what_is_no_completion_is_an_error(completion: Any) -> None:
    model = Model()
    model.completion = completion
    with pytest.raises(UpstreamBrokenError):
        sample(model, {"messages": [said("x")], "maxTokens": 5})


def test_servers_without_number_are_not_all_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling_module, "MAX_SERVERS", 3)
    ask = Model().sampling()

    async def main() -> None:
        for n in range(10):
            await ask(f"s{n}", {"messages": [said("x")], "maxTokens": 5}, depth=1)

    asyncio.run(main())
    assert len(ask._times) == 3
