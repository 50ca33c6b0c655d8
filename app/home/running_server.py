"""What commands ask of the server which owns the home (D88), over loopback: tool calls, and what it knows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import httpx

from app.errors import ConfigError, both
from app.extend import Json
from app.home.lock import Owner
from app.protocol import markers
from app.protocol.call_depth import CALL_DEPTH_HEADER
from app.protocol.json_text import compact_json, strict_json
from app.protocol.tool_blocks import parse_request
from app.protocol.tool_fields import format_call
from app.tools.text_calls import call_from_block

CONNECT_SECONDS = 5.0
SEND_SECONDS = 60.0
ANSWER_SECONDS = 30.0
MAX_ANSWER_BYTES = 512 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """What the server answered: the result object of spec 4.6, and whether the call succeeded."""

    ok: bool
    value: Json


def request_text(tool: str, arguments: Mapping[str, str]) -> str:
    """The tool block that carries exactly this call (spec 4.2, 4.3, D4).

    Raises ConfigError, naming the argument, when the grammar of blocks has no way to write it: then nothing is sent,
    for a tool must not run with other values than those that were given.
    """
    plain = dict(arguments)
    archery = plain.pop(markers.KEY_ARCHERY, None)
    password = plain.pop(markers.KEY_TOOL_PASSWORD, None)
    try:
        text = format_call(tool, plain, archery=archery, password=password)
        block = parse_request(text)
    except ValueError as error:
        raise _inexpressible(str(error)) from error
    read = {**call_from_block(block, "", password_wanted=False).arguments}
    if block.archery_text is not None:
        read[markers.KEY_ARCHERY] = block.archery_text
    if block.tool != tool:
        raise _inexpressible(repr(tool))
    for name, value in arguments.items():
        if read.get(name) != value:
            raise _inexpressible(f"{name}={value[:60]!r}")
    if len(read) != len(arguments):
        raise _inexpressible(", ".join(sorted(set(read) - set(arguments))))
    return text


def _inexpressible(what: str) -> ConfigError:
    return ConfigError(
        both(
            "该安装目录有服务器在运行，调用须经由它；工具调用的文本格式无法原样表达此参数"
            "（参数名只能用拉丁字母、数字、_ 和 -，值的首尾不能有空白）",
            "a server owns this home and the call has to go through it, but a tool request cannot carry this argument "
            "unchanged (names are Latin letters, digits, _ and -; no white space at either end of a value)",
        )
        + f": {what}"
    )


async def call_through(owner: Owner, key: str, text: str, *, depth: int = 0) -> ToolAnswer:
    """Send a tool block to the owner and wait for its result, however long the tool takes.

    ``depth`` is how many tool calls led to this one.

    Raises ConfigError when the server cannot be reached, does not take the key or refuses the request.
    """
    headers = {b"Content-Type": b"text/plain; charset=utf-8"}
    if depth:
        headers[CALL_DEPTH_HEADER.encode()] = str(depth).encode()
    status, data = await _exchanged(owner, key, "POST", "/v1/human/tool", text.encode(), headers, None)
    value = _json(data)
    if status == 200 or (status == 500 and isinstance(value, dict) and markers.RESULT_TIMESTAMP in value):
        return ToolAnswer(status == 200, value)
    raise refused(status, data.decode("utf-8", "replace"))


async def ask(
    owner: Owner, key: str, method: str, path: str, body: Json = None, *, seconds: float = ANSWER_SECONDS
) -> tuple[int, Json]:
    """Ask the owner at a path of its own, such as ``/v1/nodes``: the status, and the JSON (None: it is none).

    ``body`` is sent as JSON; the answer may take ``seconds``. Raises ConfigError when the server cannot be reached or
    does not take the key.
    """
    content = b"" if body is None else compact_json(body).encode("utf-8", "replace")
    headers = {b"Content-Type": b"application/json"} if content else {}
    status, data = await _exchanged(owner, key, method, path, content, headers, seconds)
    return status, _json(data)


async def _exchanged(
    owner: Owner,
    key: str,
    method: str,
    path: str,
    content: bytes,
    headers: Mapping[bytes, bytes],
    seconds: float | None,
) -> tuple[int, bytes]:
    """Status and body of an answer; between two pieces of it at most ``seconds`` may pass (None: any time)."""
    if not owner.address:
        raise ConfigError(
            both(f"{owner} 占用了该安装目录，但尚不接受请求，请稍后再试", f"{owner} takes no requests yet; try again")
        )
    sent = {b"Authorization": b"Bearer " + key.encode(), **headers}
    timeout = httpx.Timeout(seconds, connect=CONNECT_SECONDS, write=SEND_SECONDS)
    data = bytearray()
    try:
        async with (
            httpx.AsyncClient(timeout=timeout, trust_env=False) as client,
            client.stream(method, f"{owner.address}{path}", headers=sent, content=content) as response,
        ):
            async for piece in response.aiter_bytes():
                data += piece
                if len(data) > MAX_ANSWER_BYTES:
                    raise ConfigError(both("服务器的回答过长", "the server's answer is too long"))
            status = response.status_code
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise ConfigError(
            both(f"无法访问正在运行的服务器 {owner}", f"the server that owns this home cannot be reached: {owner}")
            + f": {error or type(error).__name__}"
        ) from error
    if status == 401:
        raise ConfigError(
            both(
                f"正在运行的服务器 {owner} 不接受此处的密钥：它启动时使用的 Key 与现在的配置不同",
                f"the server {owner} does not take the key of this home: it was started with another Key",
            )
        )
    return status, bytes(data)


def _json(data: bytes) -> Json:
    """The value of an answer; None when it is no JSON."""
    try:
        return strict_json(data.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None


def refused(status: int, said: str) -> ConfigError:
    """The error for an answer that is none of those that were expected."""
    return ConfigError(
        both(f"正在运行的服务器拒绝了请求（{status}）", f"the running server refused the request ({status})")
        + (f": {said[:500]}" if said else "")
    )
