"""A word of our model for MCP servers, within limits (MCP-52; D75). Nothing of it is expanded, no tool of ours runs."""

from __future__ import annotations

import json
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence

from app.errors import BadRequestError, UpstreamBrokenError, both
from app.extend import Clock, Json

Complete = Callable[[dict[str, Json], int], Awaitable[Json]]
"""Asks a model: an OpenAI chat body and the depth of the chain, the completion comes back. Raises ``VcpError``."""

MAX_CHARS = 1_000_000
"""Of all messages and tools of one request, pictures included."""

MAX_MESSAGES = 200
MAX_TOOLS = 128
MAX_SERVERS = 1_000
"""Servers whose requests of the last minute are counted."""

MINUTE = 60.0

STOP_REASONS = {"stop": "endTurn", "length": "maxTokens", "tool_calls": "toolUse"}

_log = logging.getLogger(__name__)


class Sampling:
    """Answers ``sampling/createMessage``; counts the requests of each server.

    ``model`` is the model of servers whose entry names none, ``max_tokens`` the most that a request may have,
    ``per_minute`` how many requests of one server are answered in a minute, ``max_depth`` how deep a chain of chats
    and tools may get; all are asked at each use. ``clock`` gives seconds of any steady clock.
    """

    def __init__(
        self,
        complete: Complete,
        *,
        model: Callable[[], str],
        max_tokens: Callable[[], int],
        per_minute: Callable[[], int],
        max_depth: Callable[[], int],
        clock: Clock,
    ) -> None:
        self._complete = complete
        self._model = model
        self._max_tokens = max_tokens
        self._per_minute = per_minute
        self._max_depth = max_depth
        self._clock = clock
        self._times: dict[str, deque[float]] = {}

    async def __call__(
        self, server: str, params: Mapping[str, Json], model: str = "", *, depth: int
    ) -> dict[str, Json]:
        """The result for ``params``, both as the protocol's newest revision has them.

        Raises BadRequestError for a request that is over a limit or cannot be put to a model, and ``VcpError`` of the
        model's side.
        """
        chosen = model or self._model()
        if not chosen:
            raise BadRequestError(
                both(
                    f"没有为 MCP 服务器 {server} 的采样设置模型：请设置 MCPSamplingModel 或条目中的 samplingModel",
                    f"no model for sampling of MCP server {server}: set MCPSamplingModel or its samplingModel",
                )
            )
        if depth > self._max_depth():
            raise BadRequestError(both("采样调用嵌套过深", "chats and tools have called each other too often"))
        body = self._body(params, chosen)
        self._count(server)
        _log.info("MCP server %s has model %s answer: %d messages", server, chosen, len(_list(params.get("messages"))))
        completion = await self._complete(body, depth)
        return _result(completion, chosen, tools=bool(params.get("tools")))

    def _body(self, params: Mapping[str, Json], model: str) -> dict[str, Json]:
        messages = _list(params.get("messages"))
        tools = _list(params.get("tools"))
        chars = len(json.dumps([messages, tools, params.get("systemPrompt")], default=str))
        if chars > MAX_CHARS or len(messages) > MAX_MESSAGES or len(tools) > MAX_TOOLS:
            raise BadRequestError(both("采样请求过大", "the sampling request is too large"))
        wanted = params.get("maxTokens")
        most = self._max_tokens()
        tokens = wanted if isinstance(wanted, int) and not isinstance(wanted, bool) and 0 < wanted < most else most
        system = params.get("systemPrompt")
        opening: list[Json] = [{"role": "system", "content": system}] if isinstance(system, str) and system else []
        body: dict[str, Json] = {
            "model": model,
            "messages": opening + [one for message in messages for one in _messages(message)],
            "max_tokens": tokens,
            "stream": False,
        }
        temperature, stops = params.get("temperature"), params.get("stopSequences")
        if isinstance(temperature, int | float):
            body["temperature"] = temperature
        if isinstance(stops, list) and stops:
            body["stop"] = stops[:4]  # as many as the interface of chats takes
        if tools:
            body["tools"] = [_function(tool) for tool in tools if isinstance(tool, Mapping)]
            choice = params.get("toolChoice")
            mode = choice.get("mode") if isinstance(choice, Mapping) else None
            if isinstance(mode, str):
                body["tool_choice"] = mode
        return body

    def _count(self, server: str) -> None:
        now = self._clock()
        times = self._times.setdefault(server, deque())
        while times and times[0] <= now - MINUTE:
            times.popleft()
        if len(times) >= self._per_minute():
            raise BadRequestError(
                both(
                    f"MCP 服务器 {server} 的采样请求过于频繁（MCPSamplingPerMinute）",
                    f"MCP server {server} asks for sampling too often (MCPSamplingPerMinute)",
                )
            )
        times.append(now)
        if len(self._times) > MAX_SERVERS:
            self._times.pop(next(iter(self._times)))


def _list(value: Json) -> Sequence[Json]:
    return value if isinstance(value, list) else []


def _messages(message: Json) -> list[Json]:
    """One message of the protocol as messages of a chat; results of tools are messages of their own there."""
    if not isinstance(message, Mapping):
        return []
    role, content = message.get("role"), message.get("content")
    blocks = [one for one in (content if isinstance(content, list) else [content]) if isinstance(one, Mapping)]
    results: list[Json] = [
        {"role": "tool", "tool_call_id": one.get("toolUseId"), "content": _text_of(one)}
        for one in blocks
        if one.get("type") == "tool_result"
    ]
    calls: list[Json] = [
        {
            "id": one.get("id"),
            "type": "function",
            "function": {"name": one.get("name"), "arguments": json.dumps(one.get("input") or {}, ensure_ascii=False)},
        }
        for one in blocks
        if one.get("type") == "tool_use"
    ]
    parts = [part for one in blocks if (part := _part(one)) is not None]
    said: dict[str, Json] = {"role": role}
    if all(part["type"] == "text" for part in parts):
        said["content"] = "\n".join(str(part["text"]) for part in parts)
    else:
        said["content"] = list(parts)
    if calls:
        said["tool_calls"] = calls
    return [*results, said] if parts or calls or not results else results


def _part(block: Mapping[str, Json]) -> dict[str, Json] | None:
    kind, data, media_type = block.get("type"), block.get("data"), block.get("mimeType")
    if kind == "text":
        return {"type": "text", "text": block.get("text")}
    if kind == "image":
        return {"type": "image_url", "image_url": {"url": f"data:{media_type};base64,{data}"}}
    if kind == "audio":
        return {"type": "input_audio", "input_audio": {"data": data, "format": str(media_type).partition("/")[2]}}
    return None


def _text_of(result: Mapping[str, Json]) -> str:
    """What a tool said, as the text that a chat has for it."""
    texts = [
        str(one.get("text"))
        for one in _list(result.get("content"))
        if isinstance(one, Mapping) and one.get("type") == "text"
    ]
    if not texts and result.get("structuredContent") is not None:
        texts = [json.dumps(result["structuredContent"], ensure_ascii=False)]
    return "\n".join(texts)


def _function(tool: Mapping[str, Json]) -> Json:
    function = {"name": tool.get("name"), "description": tool.get("description"), "parameters": tool.get("inputSchema")}
    return {"type": "function", "function": {name: value for name, value in function.items() if value is not None}}


def _result(completion: Json, model: str, *, tools: bool) -> dict[str, Json]:
    """A completion as the result of ``sampling/createMessage``; raises UpstreamBrokenError when it is none."""
    choices = completion.get("choices") if isinstance(completion, Mapping) else None
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, Mapping) else None
    if not isinstance(completion, Mapping) or not isinstance(choice, Mapping) or not isinstance(message, Mapping):
        raise UpstreamBrokenError(both("模型的回答不是补全", "what the model API answered is no completion"))
    finish = choice.get("finish_reason")
    text: Json = {"type": "text", "text": _said(message.get("content"))}
    calls = [use for one in _list(message.get("tool_calls")) if (use := _use(one)) is not None] if tools else []
    content: list[Json] = [*([text] if text["text"] or not calls else []), *calls]
    named = completion.get("model")
    return {
        "role": "assistant",
        "content": content if tools else text,
        "model": named if isinstance(named, str) and named else model,
        "stopReason": "toolUse" if calls else STOP_REASONS.get(str(finish), "endTurn"),
    }


def _said(content: Json) -> str:
    if isinstance(content, str):
        return content
    return "".join(
        str(part.get("text")) for part in _list(content) if isinstance(part, Mapping) and part.get("type") == "text"
    )


def _use(call: Json) -> Json:
    """A call of a tool as the protocol has it; None for what is no call or whose arguments are no object."""
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(call, Mapping) or not isinstance(function, Mapping):
        return None
    name, identity, written = function.get("name"), call.get("id"), function.get("arguments")
    try:
        arguments = json.loads(written) if isinstance(written, str) and written else {}
    except (ValueError, RecursionError):
        return None
    if not isinstance(name, str) or not isinstance(arguments, dict):
        return None
    return {"type": "tool_use", "id": str(identity or name), "name": name, "input": arguments}
