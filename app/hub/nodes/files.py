"""Files across nodes: what a plugin here lacks is fetched from the node beside the client (spec 5.9, 6.4; D62)."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeGuard

from app.errors import VcpError, both
from app.extend import CallContext, FetchedFile, FileCopy, Json

FILE_TOOL = "internal_request_file"
PIECES = "filePieces"
"""The ability of a node to give a file in pieces."""

REQUEST_SECONDS = 60.0
"""How long a node may take for one answer: a whole file, or a piece of one."""

PIECE_BYTES = 4 * 1024 * 1024
MAX_PIECES = 4_096
VERSION_CHARS = 200
TYPE_CHARS = 200
REASON_CHARS = 500

_FRAME_REST = 4_096
"""Bytes of a frame that are no content."""

_AT_ONCE = 256 * 1024
"""Longer texts are decoded in a thread."""


class FileNode(Protocol):
    """A connected node, as far as files are concerned."""

    @property
    def name(self) -> str:
        """Its name, which no other connected node has."""
        ...

    def announces(self, capability: str) -> bool:
        """Whether it said at its registration that it can do this."""
        ...

    async def request(self, tool: str, arguments: Mapping[str, Json], seconds: float) -> Json:
        """The result of a call; raises ``VcpError`` when there is none."""
        ...


HolderFor = Callable[[str, CallContext], FileNode | None]
"""The node that may have a file for a client: the one it comes from, or that the address names; None without one."""


class NodeFileError(VcpError):
    """A node gave no file, or not the one that it said."""

    status = 502
    code = "node_file"


@dataclass(frozen=True, slots=True)
class _Piece:
    data: bytes
    media_type: str
    size: int
    version: str


class NodeFiles:
    """A ``FileFetcher`` over the connected nodes.

    Nodes that announce ``filePieces`` give files in pieces, and tell when a copy that is here already still is the
    file; all others give a whole file in one frame, and a copy of theirs is taken for the file. ``max_bytes`` is the
    size of the largest file, ``frame_bytes`` gives the longest message of a node.
    """

    def __init__(self, holder_for: HolderFor, *, max_bytes: int, frame_bytes: Callable[[], int]) -> None:
        self._holder_for = holder_for
        self._max_bytes = max_bytes
        self._frame_bytes = frame_bytes

    async def fetch(self, url: str, context: CallContext, known: FileCopy | None) -> FetchedFile | None:
        """The file from the one node that may have it for this client; raises NodeFileError."""
        node = self._holder_for(url, context)
        if node is None:
            return None
        if known is not None and known.holder != node.name:
            known = None
        if node.announces(PIECES):
            return await self._in_pieces(node, url, known)
        if known is not None:
            return FetchedFile(None, holder=node.name, version=known.version)
        return await self._in_one_frame(node, url)

    async def _in_one_frame(self, node: FileNode, url: str) -> FetchedFile:
        fields = await _asked(node, {"fileUrl": url})
        data = await self._data(node, fields, self._max_bytes)
        return FetchedFile(data, _media_type(fields), node.name)

    async def _in_pieces(self, node: FileNode, url: str, known: FileCopy | None) -> FetchedFile:
        if known is not None and known.version:
            first = await self._piece(node, url, 0, 1)
            if first.version == known.version:
                return FetchedFile(None, holder=node.name, version=first.version)
        length = max(1, min(PIECE_BYTES, (self._frame_bytes() - _FRAME_REST) * 3 // 4))
        first = await self._piece(node, url, 0, length)
        content = bytearray(first.data)
        for _ in range(MAX_PIECES):
            if len(content) >= first.size:
                return FetchedFile(bytes(content), first.media_type, node.name, first.version)
            piece = await self._piece(node, url, len(content), min(length, first.size - len(content)))
            if (piece.version, piece.size) != (first.version, first.size):
                raise _fault(node, "文件在传输过程中被修改", "the file was changed while it was read")
            content += piece.data
        raise _fault(node, "文件的分片太多", f"the file came in more than {MAX_PIECES} pieces")

    async def _piece(self, node: FileNode, url: str, offset: int, length: int) -> _Piece:
        """One piece; it may be shorter than asked for, but not empty before the end of the file."""
        wanted: dict[str, Json] = {"fileUrl": url, "offset": offset, "length": length}
        fields = await _asked(node, wanted)
        size, version = fields.get("size"), fields.get("version")
        if not _is_count(size) or not isinstance(version, str) or not 0 < len(version) <= VERSION_CHARS:
            raise _fault(node, "分片没有给出 size 或 version", "a piece came without a sound size or version")
        if size > self._max_bytes:
            raise _too_large(node, self._max_bytes)
        if not _is_count(fields.get("offset")) or fields.get("offset") != offset:
            raise _fault(node, "收到的不是所要的分片", "another piece came than the one that was asked for")
        data = await self._data(node, fields, min(length, max(0, size - offset)))
        if not data and offset < size:
            raise _fault(node, "分片是空的", "an empty piece came before the end of the file")
        return _Piece(data, _media_type(fields), size, version)

    async def _data(self, node: FileNode, fields: Mapping[str, Json], limit: int) -> bytes:
        """The bytes of an answer, ``limit`` at most."""
        text = fields.get("fileData")
        if not isinstance(text, str):
            raise _fault(node, "应答没有 fileData", "the answer has no fileData")
        if len(text) > (limit + 2) // 3 * 4:
            raise _too_large(node, limit)
        try:
            data = _decoded(text) if len(text) <= _AT_ONCE else await asyncio.to_thread(_decoded, text)
        except ValueError as error:
            raise _fault(node, "fileData 不是 base64", "its fileData is no base64") from error
        if len(data) > limit:
            raise _too_large(node, limit)
        return data


async def _asked(node: FileNode, arguments: Mapping[str, Json]) -> Mapping[str, Json]:
    """What a node answers when it gives a file."""
    try:
        answer = await node.request(FILE_TOOL, arguments, REQUEST_SECONDS)
    except VcpError as error:
        raise _said(node, error.message) from error
    if not isinstance(answer, Mapping):
        raise _fault(node, "应答不是对象", "the answer is no object")
    if answer.get("status") != "success":
        said = answer.get("error")
        if not isinstance(said, str) or not said:
            raise _fault(node, "没有给出文件，也没有说明原因", "it gave no file and no reason")
        raise _said(node, said)
    return answer


def _decoded(text: str) -> bytes:
    """Raises ValueError for whatever is not base64."""
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from error


def _is_count(value: Json) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _media_type(fields: Mapping[str, Json]) -> str:
    named = fields.get("mimeType")
    return named if isinstance(named, str) and len(named) <= TYPE_CHARS else ""


def _fault(node: FileNode, chinese: str, english: str) -> NodeFileError:
    return NodeFileError(both(f"节点 {node.name}：{chinese}", f"node {node.name}: {english}"))


def _said(node: FileNode, reason: str) -> NodeFileError:
    return NodeFileError(f"{both(f'节点 {node.name}', f'node {node.name}')}: {reason[:REASON_CHARS]}")


def _too_large(node: FileNode, limit: int) -> NodeFileError:
    return _fault(node, f"内容超过 {limit} 字节", f"more than {limit} bytes came or were to come")
