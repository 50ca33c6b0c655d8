"""What ``DebugMode`` writes beside the log: bodies and results as they were at each step (spec 1.13).

They hold prompts, so nothing is written unless the operator wants it, only the owner can read the files, their number
and size are limited, and digests stand for pictures.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from app.extend import CallFinished, Door, Event, Json
from app.observe.server_log import by_age, private_folder, stamped_name
from app.protocol.digests import without_base64
from app.protocol.dump_names import tool_result
from app.protocol.json_text import pretty_json

log = logging.getLogger(__name__)

MAX_BYTES = 4 * 1024 * 1024
"""Largest dump; what is longer is cut."""

MAX_WRITING = 50
"""Dumps that wait for the disk; further ones are left out."""

MAX_NAME = 60
_ODD = re.compile(r"[^\w.-]+")
_OURS = re.compile(r"(?:Log(?:Input|After\w+|OutputAfterProcessing|ToolResultForAI-\w+)|VCP-.+)-\d{8}_\d{6}_\d{3}\.txt")


class DebugDumps:
    """Writes the dumps. ``most`` is how many files are kept, 0 for none; ``now`` tells the time in their names."""

    def __init__(self, folder: Path, most: Callable[[], int], now: Callable[[], datetime]) -> None:
        self._folder = folder
        self._most = most
        self._now = now
        self._writing: set[asyncio.Task[None]] = set()
        self._failed = False

    def dump(self, prefix: str, value: Json) -> None:
        """Write ``value`` if dumps are wanted; returns at once and never raises. Called in the event loop."""
        if not self._most():
            return
        if len(self._writing) >= MAX_WRITING:
            log.debug("no dump of %s: the disk is too slow", prefix)
            return
        try:
            data = pretty_json(without_base64(value)).encode("utf-8", "backslashreplace")
        except (TypeError, ValueError, RecursionError) as error:
            log.debug("no dump of %s: %s", prefix, error)
            return
        if len(data) > MAX_BYTES:
            data = data[:MAX_BYTES] + b"\n... (%d bytes)" % len(data)
        task = asyncio.get_running_loop().create_task(asyncio.to_thread(self._write, prefix, data))
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)

    def observe(self, event: Event) -> None:
        """Dump a tool's result, if it was called in a chat."""
        if not isinstance(event, CallFinished):
            return
        door = event.context.door
        if door not in (Door.STREAM, Door.NON_STREAM) or not self._most():
            return
        tool = _ODD.sub("_", event.call.tool)[:MAX_NAME] or "_"
        result = event.result
        content = {
            "tool": event.call.tool,
            "arguments": dict(event.call.arguments),
            "outcome": event.outcome.value,
            "result": result.structured if result.parts is None else list(result.parts),
            "message": result.message,
        }
        self.dump(tool_result(tool, stream=door is Door.STREAM, archery=event.call.archery), content)

    async def settle(self) -> None:
        """Wait for what is being written."""
        if self._writing:
            await asyncio.wait(tuple(self._writing))

    def _write(self, prefix: str, data: bytes) -> None:
        try:
            private_folder(self._folder)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
            moment = self._now()
            while True:
                path = self._folder / stamped_name(prefix, moment)
                try:
                    descriptor = os.open(path, flags, 0o600)
                    break
                except FileExistsError:
                    moment = datetime.fromtimestamp(moment.timestamp() + 0.001, moment.tzinfo)
            try:
                while data:
                    data = data[os.write(descriptor, data) :]
            except OSError:
                path.unlink(missing_ok=True)
                raise
            finally:
                os.close(descriptor)
            self._prune()
        except OSError as error:
            if not self._failed:
                log.warning("no dumps in %s: %s", self._folder, error.strerror or error)
            self._failed = True
        else:
            self._failed = False

    def _prune(self) -> None:
        ours = by_age(self._folder, _OURS)
        for _, _, path in ours[: max(0, len(ours) - self._most())]:
            with suppress(OSError):
                path.unlink()
