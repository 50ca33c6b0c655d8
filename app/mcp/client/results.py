"""Results of MCP servers as our own (MCP-24 the other way round, P96), and tools of theirs as ours (D68). Pure."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from app.errors import both
from app.extend import SERVER_ORIGIN, ErrorKind, Json, ToolCommand, ToolResult, ToolSpec
from app.mcp.client.server_entry import ServerEntry
from app.mcp.client.status import Tool
from app.protocol.json_text import compact_json
from app.protocol.nulls import without_nulls

PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""Kinds of pictures that become parts which a model sees; others are only named."""

MAX_ERROR_CHARS = 20_000


def tool_result(raw: Mapping[str, Json]) -> ToolResult:
    """What a ``tools/call`` gave; ``raw`` stays in ``mcp`` as it is.

    A model reads the structured content, else the texts; pictures are parts beside the texts. What else there is
    (sounds, files, links) is named in a line of text and never followed (MCP-55).
    """
    texts: list[str] = []
    pictures: list[Mapping[str, Json]] = []
    content = raw.get("content")
    for item in content if isinstance(content, list) else []:
        text, picture = _read(item)
        if text:
            texts.append(text)
        if picture:
            pictures.append(picture)
    text = "\n".join(texts)
    structured = raw.get("structuredContent")
    if raw.get("isError") is True:
        told = text or (compact_json(structured) if structured is not None else "")
        told = told or both("工具报告了错误，但没有说明原因", "the tool said that it failed, and not why")
        return ToolResult(error_kind=ErrorKind.PLUGIN, message=told[:MAX_ERROR_CHARS], mcp=raw)
    value: Json = structured if structured is not None else (text or None)
    if not pictures:
        return ToolResult(structured=value, mcp=raw)
    shown = text or (compact_json(structured) if structured is not None else "")
    parts = ({"type": "text", "text": shown}, *pictures) if shown else tuple(pictures)
    return ToolResult(structured=value, parts=parts, mcp=raw)


def _read(item: Json) -> tuple[str, Mapping[str, Json] | None]:
    """The text of one part of a result, and its picture."""
    if not isinstance(item, dict):
        return "", None
    kind = item.get("type")
    if kind == "text":
        return str(item.get("text", "")), None
    if kind == "resource":
        inside = item.get("resource")
        inside = inside if isinstance(inside, dict) else {}
        if isinstance(inside.get("text"), str):
            return inside["text"], None
        return _binary(inside.get("blob"), inside.get("mimeType"), str(inside.get("uri", "")))
    if kind in ("image", "audio"):
        return _binary(item.get("data"), item.get("mimeType"), "")
    if kind == "resource_link":
        name = item.get("title") or item.get("name") or ""
        words = (str(name), f"<{item.get('uri', '')}>", str(item.get("description") or ""))
        return " ".join(word for word in words if word), None
    return compact_json(item), None


def _binary(data: Json, media_type: Json, address: str) -> tuple[str, Mapping[str, Json] | None]:
    kind = str(media_type or "application/octet-stream")
    if not isinstance(data, str):
        return "", None
    if kind in PICTURES:
        return address, {"type": "image_url", "image_url": {"url": f"data:{kind};base64,{data}"}}
    size = len(data) * 3 // 4
    shown = " ".join(word for word in (kind, address) if word)
    return "[" + both(f"{shown}，约 {size} 字节", f"{shown}, about {size} bytes") + "]", None


def tool_spec(entry: ServerEntry, tool: Tool, timeout: float, *, prefix: bool) -> ToolSpec:
    """A server's tool as one of ours: ``server.tool``, or under its bare name (D68)."""
    name = str(tool["name"])
    title = _text(tool.get("title")) or _text(_mapping(tool.get("annotations")).get("title"))
    hints = {key: value for key, value in _mapping(tool.get("annotations")).items() if isinstance(value, bool)}
    output = tool.get("outputSchema")
    command = ToolCommand(
        id=name,
        command="",
        description=_text(tool.get("description")),
        parameters=MappingProxyType(dict(_mapping(tool.get("inputSchema")))),
        typed=True,
        title=title,
        output_schema=MappingProxyType(dict(output)) if isinstance(output, Mapping) else None,
        annotations=MappingProxyType(hints) if hints else None,
    )
    return ToolSpec(
        name=f"{entry.name}.{name}" if prefix else name,
        origin=SERVER_ORIGIN + entry.name,
        display=title or name,
        commands=(command,),
        timeout=timeout,
        groups=frozenset({entry.name}),
    )


def sent_arguments(
    arguments: Mapping[str, Json], schema: Mapping[str, Json], unsaid: frozenset[str]
) -> dict[str, Json]:
    """The arguments that go to the server (P86, P88).

    Names in ``unsaid`` are words of our own protocol, which the tool only gets where it declares them. Null stands for
    an argument that is not given where the schema wants something else.
    """
    properties = _mapping(schema.get("properties"))
    said = {name: value for name, value in arguments.items() if name in properties or name not in unsaid}
    return without_nulls(said, schema)


def _mapping(value: Json) -> Mapping[str, Json]:
    return value if isinstance(value, Mapping) else {}


def _text(value: Json) -> str:
    return value if isinstance(value, str) else ""
