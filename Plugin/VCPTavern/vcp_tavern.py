"""VCPTavern: presets put messages into a conversation (memory.md 6.5; vcp-core 3.7, 8.2)."""

from __future__ import annotations

import asyncio
import hashlib
import re
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from app.config.edited_file import EditConflictError, FileTooLargeError
from app.errors import both
from app.extend import Access, Body, DeclaredRoute, PluginContext, PromptContext
from app.protocol.json_text import strict_json

from .chat_times import ChatTimes, chat_time, time_since
from .injection import Message, TooMuchError, injected, is_system
from .presets import FILE_LIMIT, PresetFiles, is_safe, stored_name
from .rules import Preset, read_preset
from .variables import Values

PREFIX = "/admin_api/vcptavern"
SESSION = "session"

SAMPLE_PAUSE = 90 * 60
"""Seconds since the last chat in a preview."""

SAMPLE_MESSAGES = 100
"""Messages of a conversation in a preview."""

_TRIGGER = re.compile(r"\{\{VCPTavern::([^{}:\r\n]{1,200})(?:::(session))?\}\}")


class VcpTavern:
    """The plugin: a step before the variables, and four routes."""

    def __init__(self, context: PluginContext) -> None:
        self._context = context
        folder = context.home / "Plugin" / "VCPTavern" / "presets"
        self._presets = PresetFiles(context.home, context.store_dir / "presets", folder, time.monotonic, context.log)
        self._times = ChatTimes(context.store_dir / "chat_times.json", context.log)

    def wants(self, body: Body, _context: PromptContext) -> bool:
        """Whether a preset is asked for."""
        place = _first_system(body["messages"])
        return place >= 0 and _taken(body["messages"][place]) is not None

    def process(self, body: Body, _context: PromptContext) -> Body:
        """The body with the preset of its first system message; a plain method, since it reads files."""
        messages: list[Message] = body["messages"]
        place = _first_system(messages)
        found = _taken(messages[place]) if place >= 0 else None
        if found is None:
            return body
        message, name, session = found
        opened = [*messages[:place], message, *messages[place + 1 :]]
        preset = self._presets.preset(name.strip())
        if preset is None:
            self._context.log.info("there is no preset %s", name.strip()[:100])
            return {**body, "messages": opened}
        values = self._values(preset, opened, place, f"{name}::{SESSION}" if session else name)
        try:
            return {**body, "messages": injected(opened, preset, values.resolve)}
        except TooMuchError as fault:
            self._context.log.warning("preset %s is not used: %s", name.strip()[:100], fault)
            return {**body, "messages": opened}

    def _values(self, preset: Preset, messages: list[Message], place: int, name: str) -> Values:
        now = self._context.clock()
        found: list[tuple[str, str]] = []

        def chat_times() -> tuple[str, str]:
            if not found:
                before = self._times.visit(_key(messages, place, name), now)
                found.append((chat_time(before, self._context.zone), time_since(before, now)))
            return found[0]

        moment = datetime.fromtimestamp(now, self._context.zone)
        return Values(moment, chat_times, preset.allowed, self._context.environ, self._context.home)

    def routes(self) -> list[DeclaredRoute]:
        """Lists, gives, stores and removes presets, and shows what one would do."""
        handlers: tuple[tuple[str, str, Callable[[Request], Any]], ...] = (
            ("GET", "/presets", self._list),
            ("GET", "/presets/{name}", self._get),
            ("POST", "/presets/{name}", self._save),
            ("DELETE", "/presets/{name}", self._delete),
            ("POST", "/preview", self._preview),
        )
        return [
            DeclaredRoute(Route(PREFIX + path, handler, methods=[method]), Access.ADMIN)
            for method, path, handler in handlers
        ]

    async def _list(self, _request: Request) -> Response:
        return JSONResponse(await asyncio.to_thread(self._presets.names))

    async def _get(self, request: Request) -> Response:
        try:
            file = await asyncio.to_thread(self._presets.file, request.path_params["name"])
            if file is None:
                return JSONResponse({"error": "Preset not found"}, 404)
            preset = strict_json(file.text.removeprefix("\ufeff"))
            return JSONResponse(preset, headers={"ETag": f'"{file.fingerprint}"'})
        except FileTooLargeError as fault:
            return _error(fault.status, fault.message)
        except (ValueError, RecursionError) as fault:
            return _error(500, both("预设文件损坏", "the preset's file is damaged"), str(fault))
        except OSError as fault:
            return _error(500, both("预设无法读取", "the preset cannot be read"), fault.strerror or "")

    async def _save(self, request: Request) -> Response:
        given = request.path_params["name"]
        expected = _expected(request)
        # Whoever has read a version means that very file, also one whose name somebody else has given.
        name = given if expected and is_safe(given) else stored_name(given)
        if not name or not is_safe(name):
            return _error(400, both("预设名只能含字母、数字、_ 和 -", "a preset's name has letters, digits, _ and -"))
        try:
            preset = await _posted(request)
            saved = await asyncio.to_thread(self._presets.save, name, preset, expected)
        except _TooLargeError:
            return _error(413, both(f"预设超过 {FILE_LIMIT} 字节", f"the preset is over {FILE_LIMIT} bytes"))
        except EditConflictError as error:
            versions = {"current": error.current, "yours": error.yours, "content": error.content}
            return JSONResponse({"error": error.message, **versions}, error.status)
        except (ValueError, RecursionError) as fault:
            return _error(400, both("预设格式不对", "this is no preset"), str(fault))
        except OSError as fault:
            return _error(500, both("预设无法保存", "the preset cannot be stored"), fault.strerror or "")
        return JSONResponse({"message": "Preset saved", "name": name}, headers={"ETag": f'"{saved}"'})

    async def _preview(self, request: Request) -> Response:
        """What a preset would do to a sample conversation; nothing is stored, not even the time of a chat."""
        try:
            given = await _posted(request)
            preset = read_preset(given.get("preset"), lambda _word: None)
            messages = _messages(given.get("messages"))
            result = injected(messages, preset, self._sample_values(preset).resolve)
        except _TooLargeError:
            return _error(413, both(f"预设超过 {FILE_LIMIT} 字节", f"the preset is over {FILE_LIMIT} bytes"))
        except (ValueError, RecursionError) as fault:
            return _error(400, both("预设格式不对", "this is no preset"), str(fault))
        return JSONResponse({"messages": _compared(messages, result)})

    def _sample_values(self, preset: Preset) -> Values:
        now = self._context.clock()
        before = now - SAMPLE_PAUSE
        moment = datetime.fromtimestamp(now, self._context.zone)

        def chat_times() -> tuple[str, str]:
            return chat_time(before, self._context.zone), time_since(before, now)

        return Values(moment, chat_times, preset.allowed, self._context.environ, self._context.home)

    async def _delete(self, request: Request) -> Response:
        try:
            gone = await asyncio.to_thread(self._presets.delete, request.path_params["name"])
        except OSError as fault:
            return _error(500, both("预设无法删除", "the preset cannot be removed"), fault.strerror or "")
        return JSONResponse(
            {"message": "Preset deleted"} if gone else {"error": "Preset not found"}, 200 if gone else 404
        )


class _TooLargeError(Exception):
    """A request body is over ``FILE_LIMIT``."""


async def _posted(request: Request) -> dict[str, Any]:
    """The JSON object of a request; raises ValueError, RecursionError and _TooLargeError."""
    data = bytearray()
    async for block in request.stream():
        data += block
        if len(data) > FILE_LIMIT:
            raise _TooLargeError
    value = strict_json(bytes(data).decode("utf-8-sig"))
    if not isinstance(value, dict):
        raise ValueError("it is no JSON object")
    return value


def _expected(request: Request) -> str | None:
    """The version that ``If-Match`` names; None when it names none."""
    given = request.headers.get("if-match")
    return None if given is None or given == "*" else given.strip().removeprefix("W/").strip('"').lower()


def _messages(value: object) -> list[Message]:
    if not isinstance(value, list) or len(value) > SAMPLE_MESSAGES:
        raise ValueError(f"messages is no list of at most {SAMPLE_MESSAGES}")
    if not all(isinstance(one, dict) and isinstance(one.get("role"), str) for one in value):
        raise ValueError("each message has a role")
    return value


def _compared(before: list[Message], after: list[Message]) -> list[dict[str, Any]]:
    """The messages, each with ``state``: ``kept``, ``changed`` or ``added``."""
    kept = {id(message) for message in before}
    left = [message for message in before if not any(message is other for other in after)]
    told: list[dict[str, Any]] = []
    for message in after:
        state = "kept" if id(message) in kept else "added"
        if state == "added" and left and message.get("role") == left[0].get("role") and _holds(message, left[0]):
            left.pop(0)
            state = "changed"
        told.append({**message, "state": state})
    return told


def _holds(message: Message, before: Message) -> bool:
    """Whether the text of ``before`` stands in ``message``."""
    return str(before.get("content")) in str(message.get("content"))


def _error(status: int, told: str, details: str = "") -> Response:
    return JSONResponse({"error": f"{told}: {details}" if details else told}, status)


def _first_system(messages: list[Message]) -> int:
    """Where the first system message stands; -1 without one."""
    return next((place for place, message in enumerate(messages) if is_system(message)), -1)


def _taken(message: Message) -> tuple[Message, str, bool] | None:
    """The message without its first trigger, the preset's name, and whether the session counts; None without one.

    The text it stood in is trimmed. System text that is a list of parts stays one (P59).
    """
    content = message.get("content")
    if isinstance(content, str):
        match = _TRIGGER.search(content)
        return None if match is None else ({**message, "content": _without(match)}, match[1], match[2] == SESSION)
    for place, part in enumerate(content) if isinstance(content, list) else ():
        text = part.get("text") if isinstance(part, dict) and part.get("type") == "text" else None
        match = _TRIGGER.search(text) if isinstance(text, str) else None
        if match is not None:
            parts = [*content[:place], {**part, "text": _without(match)}, *content[place + 1 :]]
            if not parts[place]["text"] and len(parts) > 1:
                del parts[place]  # model APIs refuse a part without text
            return {**message, "content": parts}, match[1], match[2] == SESSION
    return None


def _without(match: re.Match[str]) -> str:
    text = match.string
    return (text[: match.start()] + text[match.end() :]).strip()


def _key(messages: list[Message], place: int, name: str) -> str:
    """Who is spoken with: the preset and the system text; with ``::session`` the first question too.

    Only a hash is stored.
    """
    anchors = [name, repr(messages[place].get("content"))]
    if name.endswith(f"::{SESSION}"):
        anchors.append(repr(next((one.get("content") for one in messages if one.get("role") == "user"), "")))
    return hashlib.sha256("\0".join(anchors).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def create(context: PluginContext) -> VcpTavern:
    """The plugin's object."""
    return VcpTavern(context)
