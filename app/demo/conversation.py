"""Reads a conversation as the demo model sees it: the last request, and the tool answers that follow it (spec 4.5)."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from app.demo.blocks import TOOL_END, VALUE_END, VALUE_START
from app.extend import Json, Message
from app.protocol.json_text import compact_json

RESULT_PREFIX = '来自工具 "'
UNKNOWN_PREFIX = '错误：未找到名为 "'
REFUSED_PREFIX = "[VCP] 错误："
HEAD_MARK = "<!-- VCP_TOOL_PAYLOAD -->"
HEAD_ERROR = "[错误]"

_RESULT = re.compile(r'来自工具 "([^"\n]{1,200})" 的结果:\n?')
_UNKNOWN = re.compile(r'(?:错误：|\[错误\] ?)?未找到名为 "([^"\n]{1,200})" 的插件')
_FAILED = re.compile(r"执行插件 .{1,200}? 时发生错误：")
_HEAD_FAILED = re.compile(r"\[错误\] ?(?:执行错误: ?)?")
_NOTHING = re.compile(r"插件 .{1,200}? 执行完毕，但没有返回明确内容。|\(无返回内容\)")
_COUNTED = re.compile(r"###计算结果：(.*?)###", re.DOTALL)
_TOOL_NAME = re.compile(rf"tool_name\s*:\s*{VALUE_START}([^」]{{1,200}}){VALUE_END}")
_CJK = re.compile(r"[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_OWN_FIELDS = ("MaidName", "timestamp", "tool_call_record_id")


class AnswerKind(StrEnum):
    """What became of a tool call, as the text that came back tells it."""

    VALUE = "value"
    NOTHING = "nothing"
    ERROR = "error"
    UNKNOWN_TOOL = "unknown_tool"


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """One tool's answer; ``tool`` is empty where the text does not name it."""

    tool: str
    kind: AnswerKind
    text: str = ""


@dataclass(frozen=True, slots=True)
class Conversation:
    """What the rules look at.

    ``text`` is the last request of the person, ``answers`` the tool answers that came after it (None: there are none
    yet). ``pictures`` counts attachments of the last message. ``first`` is true while no assistant has spoken.
    ``prompt`` is what the operator told the model, as it arrived.
    """

    text: str
    chinese: bool
    first: bool
    pictures: int = 0
    answers: tuple[ToolAnswer, ...] | None = None
    prompt: str = ""


def read_conversation(messages: Sequence[Message]) -> Conversation:
    """Read a validated message list."""
    first = not any(message["role"] == "assistant" for message in messages)
    spoken = [at for at, message in enumerate(messages) if message["role"] in ("user", "tool", "function")]
    if not spoken:
        return Conversation("", False, first, prompt=_prompt(messages))
    last = spoken[-1]
    texts, pictures = read_contents(messages[last])
    if not _is_tool_message(messages, last):
        return Conversation("\n".join(texts), _is_chinese(texts), first, pictures, prompt=_prompt(messages))
    asked = next((at for at in reversed(spoken) if not _is_tool_message(messages, at)), None)
    request = [] if asked is None else read_contents(messages[asked])[0]
    names = _called(messages, last)
    told = _told_by_functions(messages, asked, names)
    if messages[last]["role"] != "user":
        texts = []  # it is one of them
    read = [_read_answer(text, names[at] if at < len(names) else "") for at, text in enumerate(texts) if text]
    return Conversation("\n".join(request), _is_chinese(request), first, pictures, (*told, *read))


def _told_by_functions(messages: Sequence[Message], asked: int | None, called: Sequence[str]) -> list[ToolAnswer]:
    """The answers to function calls since the person's request; ``called`` are the tools named in marked text."""
    names: dict[str, str] = {}
    answers: list[ToolAnswer] = []
    for message in messages[0 if asked is None else asked + 1 :]:
        calls = message.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            function = call.get("function") if isinstance(call, dict) else None
            if isinstance(function, dict):
                names[str(call.get("id"))] = str(function.get("name", ""))
        if message["role"] in ("tool", "function"):
            marked = called[len(answers)] if len(answers) < len(called) else ""
            name = names.get(str(message.get("tool_call_id"))) or str(message.get("name") or marked)
            answers += [_read_answer(text, name) for text in read_contents(message)[0] if text]
    return answers


def _prompt(messages: Sequence[Message]) -> str:
    operator = [message for message in messages if message["role"] in ("system", "developer")]
    return "\n\n".join("\n".join(read_contents(message)[0]) for message in operator).strip()


def _is_chinese(texts: Sequence[str]) -> bool:
    return any(_CJK.search(text) for text in texts)


def read_contents(message: Message) -> tuple[list[str], int]:
    """The texts of a message and the number of parts that are not text; a payload in one string is unpacked."""
    content = message.get("content")
    if isinstance(content, str):
        if not content.startswith(HEAD_MARK):
            return [content], 0
        rest = content.removeprefix(HEAD_MARK).strip()
        content = _parsed(rest)
        if isinstance(content, str):
            return [rest], 0  # not the list it claims to be: then it is plain text
    if not isinstance(content, list):
        return [] if content is None else [_compact(content)], 0
    parts = [part for part in content if isinstance(part, dict)]
    texts = [str(part.get("text", "")) for part in parts if part.get("type") == "text"]
    texts = [text.removeprefix(HEAD_MARK).lstrip("\n") if text.startswith(HEAD_MARK) else text for text in texts]
    return [text for text in texts if text], sum(part.get("type") != "text" for part in parts)


def _is_tool_message(messages: Sequence[Message], at: int) -> bool:
    """True if the message at ``at`` carries tool answers.

    Rich results come without any prefix, so a user message right after a reply that ends with a tool block counts too.
    """
    message = messages[at]
    if message["role"] != "user":
        return True
    content = message.get("content")
    head = content if isinstance(content, str) else ""
    if isinstance(content, list):
        head = next((str(part.get("text", "")) for part in content if isinstance(part, dict)), "")
    if head.startswith((RESULT_PREFIX, UNKNOWN_PREFIX, REFUSED_PREFIX, HEAD_MARK)):
        return True
    before = messages[at - 1] if at else None
    if before is None or before["role"] != "assistant":
        return False
    return "\n".join(read_contents(before)[0]).rstrip().endswith(TOOL_END)


def _called(messages: Sequence[Message], at: int) -> list[str]:
    """The names in the tool blocks of the reply before message ``at``, in order."""
    before = next((message for message in reversed(messages[:at]) if message["role"] == "assistant"), None)
    return [] if before is None else _TOOL_NAME.findall("\n".join(read_contents(before)[0]))


def _read_answer(text: str, called: str) -> ToolAnswer:
    """One answer text; ``called`` names the tool for the formats that do not."""
    if unknown := _UNKNOWN.match(text):
        return ToolAnswer(unknown[1], AnswerKind.UNKNOWN_TOOL)
    if text.startswith(REFUSED_PREFIX):
        return ToolAnswer(called, AnswerKind.ERROR, text.removeprefix(REFUSED_PREFIX))
    if text.startswith(HEAD_ERROR):
        return ToolAnswer(called, AnswerKind.ERROR, _error_text(_HEAD_FAILED.sub("", text, count=1)))
    tool, body = called, text
    if result := _RESULT.match(text):
        tool, body = result[1], text[result.end() :]
    if failed := _FAILED.match(body):
        return ToolAnswer(tool, AnswerKind.ERROR, _error_text(body[failed.end() :]))
    if _NOTHING.fullmatch(body.strip()):
        return ToolAnswer(tool, AnswerKind.NOTHING)
    value = _value_text(_parsed(body))
    return ToolAnswer(tool, AnswerKind.VALUE if value else AnswerKind.NOTHING, value)


def _parsed(text: str) -> Json:
    """The JSON that a result text holds, or the text itself."""
    try:
        return json.loads(text)  # not orjson: long whole numbers stay exact
    except (ValueError, RecursionError):
        return text


def _error_text(text: str) -> str:
    value = _parsed(text.strip())
    if not isinstance(value, dict):
        return text.strip()
    for key in ("plugin_error", "plugin_execution_error", "error", "message"):
        if value.get(key):
            return value[key] if isinstance(value[key], str) else _compact(value[key])
    return _compact(value)


def _value_text(value: Json) -> str:
    """What a person wants to read of a result: the plugin's own words if they can be found, else compact JSON."""
    if isinstance(value, str):
        counted = _COUNTED.search(value)
        return counted[1].strip() if counted else value.strip()
    if isinstance(value, dict):
        for key in ("original_plugin_output", "result", "message", "content"):
            if value.get(key) not in (None, "", [], {}):
                return _value_text(value[key])
        rest = {key: item for key, item in value.items() if key not in _OWN_FIELDS}
        return _compact(rest) if rest else ""
    return _compact(value)


def _compact(value: Json) -> str:
    try:
        return compact_json(value)
    except RecursionError:
        return "[…]"  # nested too deeply to be shown
