"""MCP over the standard streams of a child (MCP-51, P94).

The SDK's transport of that kind reads lines of any length, writes the child's standard error to ours, and logs each bad
line with a traceback; so this one is our own.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import shutil
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import mcp_types as types
from anyio.abc import TaskGroup
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client._transport import TransportStreams
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from app.errors import both
from app.mcp.client.child import SETTLE_SECONDS, STOP_SECONDS, ServerChild
from app.mcp.client.entry_secrets import EntrySecrets
from app.mcp.client.lines import KEPT_BYTES, Oversize
from app.mcp.client.link import PROBE_SECONDS
from app.mcp.client.server_entry import ServerEntry
from app.mcp.client.value_count import MAX_VALUES, has_too_many_values
from app.protocol.json_text import strict_json

log = logging.getLogger(__name__)
server_log = logging.getLogger("app.mcp.client.stderr")
"""What servers write to their standard error, each line with the server's name in front."""

FRAME_EXTRA = 64 * 1024
"""So much larger than a result may the line be that it comes in."""

JUNK_BYTES = 64 * 1024 * 1024
JUNK_LINES = 20_000
"""A server that printed so much in a row that is no message is ended."""

JUNK_AT_ONCE = 100
JUNK_PAUSE = 0.01
"""After so many such lines others have their turn."""

MAX_BATCH = 1_000
WRITE_SECONDS = 30.0
"""A server that does not read its input for so long is ended."""

STDERR_LINES = 100
STDERR_SECONDS = 10.0
"""So many lines of a server's standard error are logged in so many seconds."""

JUNK_TOLD = 5
JUNK_READ = 2_000
SHOWN_CHARS = 200

_HEAD_ID = re.compile(rb'^\{\s*"jsonrpc"\s*:\s*"2\.0"\s*,\s*"id"\s*:\s*(\d{1,18}|"[^"\\]{1,128}")\s*[,}]')
_TAIL_ID = re.compile(rb'"id"\s*:\s*(\d{1,18}|"[^"\\]{1,128}")\s*\}\s*$')


class StdioLink:
    """One child and the messages to and from it.

    ``frame_bytes`` limits a line that it may print: a longer one is refused as the answer to its call, and the
    connection goes on. ``folder`` is where it is started.
    """

    def __init__(
        self,
        entry: ServerEntry,
        folder: Path,
        environment: Mapping[str, str],
        *,
        frame_bytes: int,
        probe_seconds: float = PROBE_SECONDS,
        stop_seconds: float = STOP_SECONDS,
    ) -> None:
        self._entry = entry
        self._folder = folder
        self._environment = environment
        self._frame_bytes = frame_bytes
        self._probe_seconds = probe_seconds
        self._stop_seconds = stop_seconds
        self._child: ServerChild | None = None
        self._waiting: set[types.RequestId] = set()
        self.clean = EntrySecrets(entry).clean
        self._quiet = QuietLog(entry.name, self.clean)
        self._junk = self._junk_lines = 0
        self._junk_told = 0
        self._fault = ""
        self.gone = asyncio.Event()
        self.session_lost = False
        self.ended_itself = False
        """Whether the child had ended before it was told to."""

    @property
    def pid(self) -> int | None:
        """The child's process id."""
        return self._child.pid if self._child is not None and not self._child.exited.is_set() else None

    def trouble(self) -> str:
        """How the child ended, or what is wrong with what it prints."""
        if self._fault or self._child is None or self._child.exit_code is None or not self.ended_itself:
            return self._fault
        code = self._child.exit_code
        if code < 0:
            return both(f"进程被信号 {-code} 终止", f"its process was ended by signal {-code}")
        return both(f"进程已退出，退出码 {code}", f"its process ended with exit code {code}")

    def details(self) -> str:
        """The trouble and the last lines of the standard error."""
        tail = bytes(self._child.stderr).decode("utf-8", "replace").strip() if self._child is not None else ""
        return "\n".join(part for part in (self.trouble(), self.clean(tail)) if part)

    @asynccontextmanager
    async def streams(self) -> AsyncIterator[TransportStreams]:
        """Start the child; end it and reap it at the end. Raises OSError or ValueError when it cannot be started."""
        child = self._child = await ServerChild.started(
            self._command(),
            self._checked_folder(),
            self._environment,
            frame_bytes=self._frame_bytes,
            said=self._quiet.said,
            stop_seconds=self._stop_seconds,
        )
        try:
            come, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](1)
            outgoing, go = anyio.create_memory_object_stream[SessionMessage](16)
            async with come, incoming, outgoing, go, anyio.create_task_group() as tasks:
                tasks.start_soon(self._read, child, come)
                tasks.start_soon(self._write, child, go, come, tasks)
                try:
                    yield incoming, outgoing
                finally:
                    tasks.cancel_scope.cancel()
        finally:
            if self.gone.is_set():  # its output has ended, so its exit is near, if it is not there already
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(child.exited.wait(), SETTLE_SECONDS)
            self.ended_itself = child.exited.is_set()
            self.gone.set()
            await child.end()

    def _command(self) -> list[str]:
        found = shutil.which(self._entry.command, path=self._environment.get("PATH"))
        if found is None:
            path = self._folder / self._entry.command
            if "/" not in self._entry.command or not path.is_file():
                raise FileNotFoundError(
                    both(
                        f"找不到命令 {self._entry.command}",
                        f"there is no command {self._entry.command}",
                    )
                )
            found = str(path)
        return [found, *self._entry.args]

    def _checked_folder(self) -> Path:
        if not self._folder.is_dir():
            raise NotADirectoryError(
                both(f"cwd 不是目录：{self._folder.name}", f"cwd is no folder: {self._folder.name}")
            )
        return self._folder

    async def _read(self, child: ServerChild, come: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
        async with come:
            while (line := await child.read()) is not None:
                messages = self._oversize(line) if isinstance(line, Oversize) else self._messages(line)
                for message in messages:
                    if isinstance(message, types.JSONRPCResponse | types.JSONRPCError) and message.id is not None:
                        self._waiting.discard(message.id)
                    try:
                        await come.send(SessionMessage(message))
                    except (anyio.ClosedResourceError, anyio.BrokenResourceError):
                        return
                if not messages and self._junk_lines % JUNK_AT_ONCE == 0:
                    await asyncio.sleep(JUNK_PAUSE)
                if self._junk > JUNK_BYTES or self._junk_lines > JUNK_LINES:
                    self._fault = both("输出过多非消息内容", "it printed too much that is no message")
                    break
            self.gone.set()

    def _messages(self, line: bytes) -> list[types.JSONRPCMessage]:
        """The messages of a line: one, or those of a batch (revision 2025-03-26); none when it is neither."""
        if has_too_many_values(line):
            reason = both(f"结果超过 {MAX_VALUES} 个值", f"the result has more than {MAX_VALUES} values")
            return self._refused(line[:KEPT_BYTES], line[-KEPT_BYTES:], len(line), reason)
        try:
            if line.lstrip()[:1] == b"[":
                batch = strict_json(line.decode())[:MAX_BATCH]  # before each is looked at, which takes its time
                messages = [types.jsonrpc_message_adapter.validate_python(item, by_name=False) for item in batch]
            else:
                messages = [types.jsonrpc_message_adapter.validate_json(line, by_name=False)]
        except (ValidationError, ValueError, RecursionError):
            if (found := _HEAD_ID.search(line[:KEPT_BYTES])) and strict_json(found[1].decode()) in self._waiting:
                reason = both("回答不是 JSON，或嵌套过深", "its answer is no JSON, or nested too deeply")
                return self._refused(line[:KEPT_BYTES], b"", len(line), reason)
            self._not_a_message(line)
            return []
        self._junk = self._junk_lines = 0
        return messages

    def _not_a_message(self, line: bytes) -> None:
        self._junk += len(line)
        self._junk_lines += 1
        if not line.strip():
            return
        self._junk_told += 1
        if self._junk_told <= JUNK_TOLD:
            shown = self.clean(line[:JUNK_READ].decode("utf-8", "replace").strip())[:SHOWN_CHARS]
            last = "; further ones are not told" if self._junk_told == JUNK_TOLD else ""
            log.warning(
                "[%s] printed a line of %d bytes that is no message: %r%s", self._entry.name, len(line), shown, last
            )

    def _oversize(self, line: Oversize) -> list[types.JSONRPCMessage]:
        limit = self._frame_bytes // (1024 * 1024)
        reason = both(f"结果超过 {limit} MiB", f"the result has more than {limit} MiB")
        return self._refused(line.head, line.tail, line.size, reason)

    def _refused(self, head: bytes, tail: bytes, size: int, reason: str) -> list[types.JSONRPCMessage]:
        """Errors in place of an answer that is too large: for its call, or for all when nobody knows whose it is."""
        found = _HEAD_ID.search(head) or _TAIL_ID.search(tail)
        log.warning("[%s] printed a line of %d bytes that is not read: %s", self._entry.name, size, reason)
        self._junk += size
        ids = list(self._waiting)
        if found is not None:
            known = strict_json(found[1].decode())
            ids = [known] if known in self._waiting else []
        error = types.ErrorData(code=types.INTERNAL_ERROR, message=reason)
        return [types.JSONRPCError(jsonrpc="2.0", id=one, error=error) for one in ids]

    async def _write(
        self,
        child: ServerChild,
        go: MemoryObjectReceiveStream[SessionMessage],
        come: MemoryObjectSendStream[SessionMessage | Exception],
        tasks: TaskGroup,
    ) -> None:
        try:
            async with go:
                async for item in go:
                    message = item.message
                    if isinstance(message, types.JSONRPCRequest):
                        self._waiting.add(message.id)
                        if message.method == "server/discover":
                            tasks.start_soon(self._probe_end, message.id, come)
                    elif isinstance(message, types.JSONRPCNotification) and message.method == "notifications/cancelled":
                        self._waiting.discard((message.params or {}).get("requestId", ""))
                    text = message.model_dump_json(by_alias=True, exclude_unset=True)
                    await child.write(text.encode() + b"\n", WRITE_SECONDS)
        except TimeoutError:
            self._fault = both("不读取标准输入", "it does not read its input")
            await come.aclose()
        except (BrokenPipeError, ConnectionError):
            await come.aclose()  # so that nobody waits for an answer

    async def _probe_end(
        self, request: types.RequestId, come: MemoryObjectSendStream[SessionMessage | Exception]
    ) -> None:
        """Answer for a server that is silent to the probe."""
        await anyio.sleep(self._probe_seconds)
        if request in self._waiting:
            error = types.ErrorData(code=types.METHOD_NOT_FOUND, message="no answer to server/discover")
            with contextlib.suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
                await come.send(SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=request, error=error)))


class QuietLog:
    """Logs the lines of one server, and no more of them than people can read."""

    def __init__(
        self, server: str, clean: Callable[[str], str] = str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._server = server
        self._clean = clean
        self._clock = clock
        self._since = clock()
        self._lines = 0

    def said(self, line: str) -> None:
        """The server wrote a line."""
        now = self._clock()
        if now - self._since >= STDERR_SECONDS:
            if self._lines > STDERR_LINES:
                server_log.info("[%s] … %d further lines", self._server, self._lines - STDERR_LINES)
            self._since, self._lines = now, 0
        self._lines += 1
        if self._lines <= STDERR_LINES:
            server_log.info("[%s] %s", self._server, self._clean(line))
