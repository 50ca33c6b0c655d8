"""What a tool answered, as the result of ``tools/call`` in the client's revision (mcp.md MCP-23, MCP-24, MCP-61)."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from mcp_types import ContentBlock
from mcp_types.methods import validate_server_result
from pydantic import TypeAdapter, ValidationError

from app.errors import both
from app.extend import ErrorKind, Json, ToolResult
from app.mcp.server.listing import ANNOTATIONS_SINCE, MODERN_SINCE, STRUCTURED_SINCE, writes_output
from app.protocol.half_characters import whole
from app.protocol.json_text import compact_json, pretty_json
from app.protocol.markers import MCP_ERROR_PREFIX, RESULT_PLAIN_OUTPUT
from app.protocol.secret_texts import masked
from app.protocol.tool_values import clean, without_colours

COMPLETE = "complete"
"""The ``resultType`` of a result; clients of older revisions pass it by."""

ERROR_CHARS = 2000
"""Most characters of an error that the client is told."""

MESSAGE_CHARS = 20_000
"""Most characters of a message that are looked at; both of its ends."""

_OURS = (ErrorKind.EXECUTION, ErrorKind.TIMEOUT, ErrorKind.QUEUE, ErrorKind.LIMIT)
"""Failures whose text is made on this side, with the paths of this machine in it."""

_DATA_URI = re.compile(r"data:([\w.+-]+/[\w.+-]+)(?:;[\w=.+-]+)*;base64,", re.ASCII)
_ADDRESS = re.compile(r"(?:https?|file)://\S{1,4000}")
_PATH = re.compile(r"(?<![\w:/.~-])(?:/[^\s/:;,'\"<>|()]+){2,}/?|\b[A-Za-z]:\\[^\s:;,'\"<>|()]+")
_TRACEBACK = "Traceback (most recent call last)"
_RESERVED = frozenset({"mcp", "modelcontextprotocol"})
_AUDIO_TYPES = MappingProxyType({"mp3": "audio/mpeg", "wav": "audio/wav", "ogg": "audio/ogg", "flac": "audio/flac"})

_BLOCKS: TypeAdapter[ContentBlock] = TypeAdapter(ContentBlock)

Part = dict[str, Json]
"""One content block of a result."""


def call_result(
    result: ToolResult, revision: str, output_schema: Mapping[str, Json] | None = None, *, private: bool = False
) -> dict[str, Json]:
    """The result of ``tools/call`` as JSON; ``output_schema`` is what the list says of the tool's structured result.

    With ``private`` a mask stands in place of what looks like a secret (spec 7.6).
    """
    answer = _told(result, revision, output_schema)
    try:
        cleaned: dict[str, Json] = clean(masked(answer) if private else answer)
        if result.mcp is not None or result.parts is not None:  # what others made may be none of the protocol
            validate_server_result("tools/call", revision, cleaned)
    except ValidationError:
        return error_result(both("工具的结果不符合 MCP 协议", "the tool's result is none of the protocol"))
    except ValueError:
        return error_result(both("结果嵌套过深", "the result is nested too deeply"))
    return cleaned


def _told(result: ToolResult, revision: str, output_schema: Mapping[str, Json] | None) -> dict[str, Json]:
    if result.mcp is not None:
        return _passed_on(result.mcp, revision)
    if not result.ok:
        return error_result(_why(result))
    value = plain_value(result.structured)
    answer: dict[str, Json] = {"resultType": COMPLETE, "content": _content(result, value, revision)}
    if _structured(value, revision, output_schema):
        answer["structuredContent"] = value
        if output_schema is not None and result.parts is not None:
            answer["content"] = [*answer["content"], _text(pretty_json(value))]
    return answer


def error_result(why: str) -> dict[str, Json]:
    """The result of a call that failed: one line behind the fixed prefix (MCP-24)."""
    return {"resultType": COMPLETE, "content": [_text(MCP_ERROR_PREFIX + _one_line(why))], "isError": True}


def plain_value(structured: Json) -> Json:
    """The value that a tool gave; what only wraps a text or a number of a plugin is taken off."""
    if isinstance(structured, Mapping) and len(structured) == 1 and RESULT_PLAIN_OUTPUT in structured:
        return structured[RESULT_PLAIN_OUTPUT]
    return structured


def _structured(value: Json, revision: str, output_schema: Mapping[str, Json] | None) -> bool:
    """Whether the client gets ``structuredContent``: objects, and what an output schema promises (MCP-23)."""
    if revision < STRUCTURED_SINCE:
        return False
    if isinstance(value, Mapping):
        return output_schema is None or writes_output(output_schema, revision)
    return output_schema is not None and revision >= MODERN_SINCE


def _content(result: ToolResult, value: Json, revision: str) -> list[Part]:
    if result.parts is not None:
        if all(part.get("type") == "text" for part in result.parts):
            return [_text("\n".join(str(part.get("text", "")) for part in result.parts))]
        return [_block(part, revision) for part in result.parts]
    if value is None:
        return [_text(both("（无内容）", "(no content)"))]
    if not isinstance(value, str):
        return [_text(pretty_json(value))]
    picture = _inline(value)
    if picture is not None:
        return [_media(*picture, revision)]
    if _ADDRESS.fullmatch(value) and revision >= STRUCTURED_SINCE:
        return [_text(value), _link(value)]
    return [_text(value)]


def _text(text: str) -> Part:
    return {"type": "text", "text": text}


def _block(part: Mapping[str, Json], revision: str) -> Part:
    """One content part of a chat as a content block."""
    kind = part.get("type")
    if kind == "text" and isinstance(part.get("text"), str):
        return _text(part["text"])
    if kind in ("image", "audio") and isinstance(part.get("data"), str) and isinstance(part.get("mimeType"), str):
        return _media(part["mimeType"], part["data"], revision)
    if kind == "input_audio" and isinstance(audio := part.get("input_audio"), Mapping):
        data, said = audio.get("data"), audio.get("format")
        if isinstance(data, str) and isinstance(said, str):
            return _media(_AUDIO_TYPES.get(said, f"audio/{said}"), data, revision)
    if kind in ("resource", "resource_link"):
        return _bridged(part, revision)
    for address in _addresses(part):
        found = _inline(address)
        if found is not None:
            return _media(*found, revision)
        if _ADDRESS.fullmatch(address):
            return _link(address) if revision >= STRUCTURED_SINCE else _text(address)
    return _text(compact_json(part))


def _addresses(part: Mapping[str, Json]) -> Sequence[str]:
    """The texts of a part in which its data or address may be: ``image_url``, ``audio_url``, ``file`` and the like."""
    value = part.get(str(part.get("type")))
    held = (
        (value, *(value.get(key) for key in ("url", "file_data", "data"))) if isinstance(value, Mapping) else (value,)
    )
    return [text for text in held if isinstance(text, str)]


def _inline(text: str) -> tuple[str, str] | None:
    """The media type and the base64 of a data URI that is the whole text."""
    head = _DATA_URI.match(text, 0, 200)
    if head is None:
        return None
    data = text[head.end() :].strip()
    try:
        base64.b64decode(data, validate=True)
    except (ValueError, binascii.Error):
        return None
    return head[1].lower(), data


def _media(media_type: str, data: str, revision: str) -> Part:
    """A picture or a sound; other data is a resource of its own."""
    if media_type.startswith("image/"):
        return {"type": "image", "data": data, "mimeType": media_type}
    if media_type.startswith("audio/"):
        if revision >= ANNOTATIONS_SINCE:
            return {"type": "audio", "data": data, "mimeType": media_type}
        return _text(_too_old(f"audio, {media_type}", f"音频 {media_type}"))
    resource = {"uri": f"data:{media_type}", "mimeType": media_type, "blob": data}
    return {"type": "resource", "resource": resource}


def _link(address: str) -> Part:
    name = address.partition("?")[0].rstrip("/").rpartition("/")[2] or address
    return {"type": "resource_link", "uri": address, "name": name}


def _too_old(english: str, chinese: str) -> str:
    return both(
        f"（{chinese}：客户端的协议版本无法接收）", f"({english}: the client's protocol version cannot take it)"
    )


# --- what an MCP server answered --------------------------------------------------------------------------------------


def _passed_on(answer: Mapping[str, Json], revision: str) -> dict[str, Json]:
    """An upstream's result for our client: unchanged but for what its revision cannot have (MCP-61)."""
    content = answer.get("content")
    blocks = (
        [_bridged(block, revision) for block in content if isinstance(block, Mapping)]
        if isinstance(content, list)
        else []
    )
    passed: dict[str, Json] = {"resultType": COMPLETE, "content": blocks}
    if answer.get("isError") is True:
        passed["isError"] = True
    if "structuredContent" in answer:
        value = answer["structuredContent"]
        fits = revision >= MODERN_SINCE or (revision >= STRUCTURED_SINCE and isinstance(value, Mapping))
        if fits:
            passed["structuredContent"] = value
        elif not any(block.get("type") == "text" for block in blocks):
            blocks.append(_text(pretty_json(value)))
    meta = _free_meta(answer.get("_meta"))
    if meta:
        passed["_meta"] = meta
    if not blocks and "structuredContent" in passed:
        blocks.append(_text(pretty_json(passed["structuredContent"])))
    return passed


def _bridged(block: Mapping[str, Json], revision: str) -> Part:
    """A content block as a client of this revision can have it; what is no block at all becomes a text."""
    kind = block.get("type")
    try:
        _BLOCKS.validate_python(dict(block), by_name=False)
    except ValidationError:
        return _text(compact_json(block))
    if kind == "audio" and revision < ANNOTATIONS_SINCE:
        media = str(block.get("mimeType", ""))[:100]
        return _text(_too_old(f"audio, {media}", f"音频 {media}"))
    if kind == "resource_link" and revision < STRUCTURED_SINCE:
        return _text(f"{block.get('name') or ''} {block.get('uri') or ''}".strip())
    return dict(block)


def _free_meta(meta: Json) -> dict[str, Json]:
    """What of ``_meta`` is the tool's own: keys that the protocol keeps for itself hold for one hop only (MCP-60)."""
    if not isinstance(meta, Mapping):
        return {}
    return {key: value for key, value in meta.items() if isinstance(key, str) and not _is_reserved(key)}


def _is_reserved(key: str) -> bool:
    prefix, slash, _ = key.partition("/")
    return key == "progressToken" or bool(slash and _RESERVED & set(prefix.lower().split(".")))


# --- failures ---------------------------------------------------------------------------------------------------------


def _why(result: ToolResult) -> str:
    text = result.message or (result.error_kind.value if result.error_kind else "")
    text = text if len(text) <= MESSAGE_CHARS else f"{text[: MESSAGE_CHARS // 2]} … {text[-MESSAGE_CHARS // 2 :]}"
    if _TRACEBACK in text:
        text = text[: text.index(_TRACEBACK)] + text.rstrip().rpartition("\n")[2]
    if result.error_kind in _OURS:
        text = _PATH.sub(lambda found: re.split(r"[\\/]", found[0].rstrip("/"))[-1], text)
    if result.original_error:
        text = f"{text} ({result.original_error})"
    return text


def _one_line(text: str) -> str:
    line = " ".join(whole(without_colours(text)).split())
    return line if len(line) <= ERROR_CHARS else line[:ERROR_CHARS] + "…"
