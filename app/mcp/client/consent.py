"""What MCP servers say of their tools is remembered: a changed tool is hidden until a person consents (MCP-55).

A server's words go into prompts. One that was harmless when it was added may say other things tomorrow, so each tool's
texts and schemas are pinned when they are first seen. The same file lets tools be listed before their server has been
started. This module knows nothing of the SDK, so that reading it costs no import of that.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from app.config.durable import write_atomic
from app.config.file_lock import held
from app.config.small_file import read_small
from app.errors import ConfigError, NotFoundError, VcpError, both
from app.extend import EventSink, Informed, Json
from app.mcp.client.changed_tool import FIELDS, ChangedTool, Tool, canonical, digest_of

CONSENT_FOLDER = Path(".vcp") / "mcp_tools"
LOCK_FILE = "lock"
LOCK_SECONDS = 10.0

MAX_TOOLS = 2_000
"""Tools of one server; what it lists behind them is not there."""

MAX_TOOL_CHARS = 256 * 1024
"""Of one tool's texts and schemas as JSON; a tool with more is left out."""

MAX_LISTED_CHARS = 8 * 1024 * 1024
"""Of all tools of one server; what is behind it is left out."""

MAX_KEPT = 4_000
"""Tools of one server that are remembered, those that it lists no longer too; so a tool that comes back is compared.

None is forgotten by what a server lists: where there is no room for more, new tools wait for a person as changed ones
do.
"""

ROOM_BYTES = 24 * 1024 * 1024
"""There is room for new tools while the file is not larger."""

MAX_FILE_BYTES = 64 * 1024 * 1024

TOOLS_CHANGED = "mcp_tools_changed"
"""Type of the message that tells panels of changed tools."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Judged:
    """A server's tools: those that may be shown and called, in its order, and those that have changed."""

    allowed: tuple[Tool, ...] = ()
    changed: tuple[ChangedTool, ...] = ()


class ChangedAgainError(VcpError):
    """A tool is another one than the one that a person was shown and consented to."""

    status = 409
    code = "changed_again"

    def __init__(self, server: str, name: str) -> None:
        super().__init__(
            both(
                f"MCP 服务器 {server} 的工具 {name[:128]!r} 又变了，请重新查看后再确认",
                f"tool {name[:128]!r} of MCP server {server} has changed again: look at it anew",
            )
        )


@dataclass(slots=True)
class _Known:
    """What is kept of one tool. ``listed`` is its place in the last list, None when it was not there."""

    accepted: dict[str, Json]
    pending: dict[str, Json] | None = None
    listed: int | None = None


@dataclass(slots=True)
class _Record:
    """The file of one server; ``lost`` from when there was one that cannot be used until a person has consented.

    ``data`` is what was read.
    """

    identity: str
    known: dict[str, _Known]
    has_list: bool = False
    lost: bool = False
    data: bytes = b""


class Consents:
    """The pins and the last lists of tools of all MCP servers, in a folder of ours: a file for each server, 0600.

    ``identity`` names what is behind a server's name, such as a digest of its command or address: a list that was kept
    for another one is not used, its pins hold all the same. Files are read at each use, so several processes may share
    the folder. Where it cannot be written, the log says so, what is known stays in force, and what is seen holds for
    the life of this object.
    """

    def __init__(self, home: Path, events: EventSink) -> None:
        self._folder = home / CONSENT_FOLDER
        self._events = events
        self._told: list[Callable[[str], None]] = []
        self._unkept: dict[str, _Record] = {}

    def changed(self, told: Callable[[str], None]) -> None:
        """Call ``told`` with a server's name when a person has consented to changed tools of it."""
        self._told.append(told)

    async def judge(self, server: str, tools: Sequence[Tool], identity: str = "") -> Judged:
        """Which of the tools that the server lists now may be used; keeps the list.

        A tool that was never seen is accepted, and logged. One that differs from what was accepted is hidden, now and
        later, until it is again as it was or a person accepts it; the log and ``Informed`` tell of it once.
        """
        judged, added, news = await asyncio.to_thread(self._judge, server, tools, identity)
        if added:
            _log.info("MCP server %s brings %d new tools: %s", server, len(added), _names(added))
        if news:
            _log.warning(
                "MCP server %s changed the description or schema of %s: hidden until a person consents "
                "(vcp mcp-check %s --accept)",
                server,
                _names(news),
                server,
            )
            message: dict[str, Json] = {"type": TOOLS_CHANGED, "data": {"server": server, "tools": list(news)}}
            self._events.publish(Informed("mcp", message))
        return judged

    async def cached(self, server: str, identity: str = "") -> Judged | None:
        """The tools of the last list, judged; None when none is kept for this server and identity."""

        def read() -> Judged | None:
            record = self._read(server)
            return _judged(record) if record.has_list and record.identity == identity else None

        return await asyncio.to_thread(read)

    async def changes(self, server: str) -> tuple[ChangedTool, ...]:
        """The tools of the last list that wait for a person's consent."""
        return (await asyncio.to_thread(lambda: _judged(self._read(server)))).changed

    async def accept(self, server: str, names: Iterable[str] | Mapping[str, str] | None = None) -> tuple[str, ...]:
        """A person consents to changed tools of a server as they are listed now, to all or to those named.

        Names may come with the ``digest`` of what was shown: then the consent is to that alone, since a server may
        change its tools again while a person reads. Returns the names. Raises NotFoundError for one that has not
        changed, ChangedAgainError for another digest, ConfigError when the file cannot be written.
        """
        chosen = names if names is None or isinstance(names, Mapping) else dict.fromkeys(names, "")
        accepted = await asyncio.to_thread(self._accept, server, chosen)
        if accepted:
            _log.info("a person consented to the changed tools of MCP server %s: %s", server, _names(accepted))
            for told in self._told:
                told(server)
        return accepted

    # ------------------------------------------------------------------ all below blocks

    def _judge(
        self, server: str, tools: Sequence[Tool], identity: str
    ) -> tuple[Judged, tuple[str, ...], tuple[str, ...]]:
        listed = _usable(server, tools)
        try:
            self._make_folder()
            with held(self._folder / LOCK_FILE, LOCK_SECONDS):
                return self._compare(server, listed, identity)
        except OSError as error:
            _log.warning("the tools of MCP server %s cannot be kept: %s", server, error.strerror or error)
            return self._compare(server, listed, identity, keep=False)

    def _compare(
        self, server: str, listed: Sequence[dict[str, Json]], identity: str, *, keep: bool = True
    ) -> tuple[Judged, tuple[str, ...], tuple[str, ...]]:
        record = self._read(server)
        unkept = self._unkept.get(server)
        if unkept is not None and unkept.data == record.data:
            record = replace(unkept, known={name: replace(one) for name, one in unkept.known.items()})
        before = {name: one.pending for name, one in record.known.items()}
        # What nobody ever accepted is new again when it comes back.
        record.known = {name: one for name, one in record.known.items() if one.accepted}
        for one in record.known.values():
            one.listed = one.pending = None
        added, news = [], []
        size = len(record.data)
        for place, tool in enumerate(listed):
            name = str(tool["name"])
            known = record.known.get(name)
            if known is None:
                # Where the file is broken nobody can say what was accepted, so nothing is; nor where it is full.
                size += len(canonical(tool))
                taken = not record.lost and size <= ROOM_BYTES and len(record.known) < MAX_KEPT
                known = record.known[name] = _Known(tool if taken else {})
                if taken:
                    added.append(name)
            known.listed = place
            if digest_of(known.accepted) != digest_of(tool):
                known.pending = tool
                if before.get(name) is None or digest_of(before[name] or {}) != digest_of(tool):
                    news.append(name)
        record.identity, record.has_list = identity, True
        if keep:
            self._write(server, record)
            self._unkept.pop(server, None)
        else:
            self._unkept[server] = record
        return _judged(record), tuple(added), tuple(news)

    def _accept(self, server: str, names: Mapping[str, str] | None) -> tuple[str, ...]:
        try:
            self._make_folder()
            with held(self._folder / LOCK_FILE, LOCK_SECONDS):
                record = self._read(server)
                waiting = {name: one for name, one in record.known.items() if one.pending is not None}
                for name, shown in (names or {}).items():
                    if name not in waiting:
                        raise NotFoundError(
                            both(
                                f"MCP 服务器 {server} 没有待确认的工具 {name[:128]!r}",
                                f"no tool {name[:128]!r} of MCP server {server} waits for consent",
                            )
                        )
                    if shown and shown != digest_of(waiting[name].pending or {}):
                        raise ChangedAgainError(server, name)
                chosen = tuple(waiting if names is None else names)
                full = len(record.data) > ROOM_BYTES or len(record.known) > MAX_KEPT
                for name in chosen:
                    one = waiting[name]
                    one.accepted, one.pending = one.pending or one.accepted, None
                if all(one.pending is None for one in record.known.values()):
                    record.lost = False
                    if full:  # a person has seen all that is there now; the rest only takes room
                        record.known = {name: one for name, one in record.known.items() if one.listed is not None}
                if chosen:
                    self._write(server, record)
                return chosen
        except OSError as error:
            raise ConfigError(
                both(f"无法写入 {self._path(server)}", f"{self._path(server)} cannot be written")
                + f": {error.strerror or error}"
            ) from error

    def _path(self, server: str) -> Path:
        return self._folder / f"{hashlib.sha256(server.encode('utf-8', 'surrogatepass')).hexdigest()}.json"

    def _make_folder(self) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def _read(self, server: str) -> _Record:
        path = self._path(server)
        try:
            data = read_small(path, MAX_FILE_BYTES + 1)
        except FileNotFoundError:
            return _Record("", {})
        except OSError as error:
            _log.error("%s cannot be read, so no tool of %s is trusted: %s", path, server, error.strerror or error)
            return _Record("", {}, lost=True)
        try:
            return _parsed(data)
        except (ValueError, RecursionError) as error:
            _log.error("%s cannot be used, so no tool of %s is trusted: %s", path, server, error)
            return _Record("", {}, lost=True)

    def _write(self, server: str, record: _Record) -> None:
        kept = sorted(record.known.items(), key=lambda one: one[1].listed is None)
        value = {
            "server": server,
            "identity": record.identity,
            "listed": record.has_list,
            "lost": record.lost,
            "tools": [{"accepted": one.accepted, "pending": one.pending, "place": one.listed} for _name, one in kept],
        }
        data = json.dumps(value, separators=(",", ":")).encode()
        if data != record.data:  # most lists are as they were
            write_atomic(self._path(server), data, mode=0o600)


def _parsed(data: bytes) -> _Record:
    if len(data) > MAX_FILE_BYTES:
        raise ValueError(f"it is larger than {MAX_FILE_BYTES} bytes")
    value = json.loads(data)
    if not isinstance(value, dict) or not isinstance(value.get("tools"), list):
        raise ValueError("it is no list of tools")
    known: dict[str, _Known] = {}
    for entry in value["tools"]:
        if not isinstance(entry, dict):
            raise ValueError("a tool in it is no object")
        accepted, pending, place = (entry.get(part) for part in ("accepted", "pending", "place"))
        if not isinstance(accepted, dict) or not isinstance(pending, dict | None):
            raise ValueError("a tool in it is no object")
        name = (accepted or pending or {}).get("name")
        if not isinstance(name, str) or not isinstance(place, int | None):
            raise ValueError("a tool in it has no name or no place")
        known[name] = _Known(accepted, pending, place)
    identity = value.get("identity")
    identity = identity if isinstance(identity, str) else ""
    return _Record(identity, known, value.get("listed") is True, value.get("lost") is True, data)


def _judged(record: _Record) -> Judged:
    listed = sorted(
        ((one.listed, name, one) for name, one in record.known.items() if one.listed is not None),
        key=lambda entry: entry[0],
    )
    return Judged(
        tuple(one.accepted for _place, _name, one in listed if one.pending is None),
        tuple(ChangedTool(name, one.accepted, one.pending) for _place, name, one in listed if one.pending is not None),
    )


def _usable(server: str, tools: Sequence[Tool]) -> list[dict[str, Json]]:
    """The tools within the limits, only with what counts; of two with one name the first."""
    found: dict[str, dict[str, Json]] = {}
    left_out, chars = 0, 0
    for tool in tools:
        kept = {field: tool[field] for field in FIELDS if tool.get(field) is not None}
        name = kept.get("name")
        size = _size(kept)
        named = isinstance(name, str) and name not in found
        fits = size is not None and size <= MAX_TOOL_CHARS and len(found) < MAX_TOOLS
        if named and fits and chars + (size or 0) <= MAX_LISTED_CHARS:
            chars += size or 0
            found[str(name)] = kept
        else:
            left_out += 1
    if left_out:
        _log.warning(
            "MCP server %s lists %d tools that are left out: too many, too large, without a name or twice",
            server,
            left_out,
        )
    return list(found.values())


def _size(tool: Tool) -> int | None:
    """Characters of it as JSON; None when it cannot be written, for instance for its depth."""
    try:
        return len(canonical(tool))
    except (ValueError, TypeError, RecursionError):
        return None


def _names(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name[:128]) for name in names[:10])
    return shown if len(names) <= 10 else f"{shown} and {len(names) - 10} more"
