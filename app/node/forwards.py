"""Results of background plugins on their way to the main server (spec 6.4 ``plugin_callback_forward``).

A result is a file of this home before anybody is told (1.10). What is kept here is only which of them the main server
has not been sent yet; the list is a file too, so that neither a broken line nor a restart of the node loses one.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path

from app.config.durable import write_atomic
from app.config.small_file import read_small
from app.extend import BackgroundResult, Event, Json
from app.hub.clients import encoded
from app.node.line import Line
from app.tools.background_results import BackgroundResults, Missing

log = logging.getLogger(__name__)

MAX_WAITING = 1000
"""Results that wait for the main server; beyond that the oldest are not sent. Their files stay."""

REST_SECONDS = 0.02
"""Pause after each result: servers limit messages a second, and how many results may wait to be written."""

MAX_FILE_BYTES = 4 * 1024 * 1024

FORWARDS_FILE = Path(".vcp") / "node_forwards.json"


class Forwards:
    """Sends results in the order in which they came.

    ``line`` gives the line of now, None while there is none; ``offered`` tells whose results are sent; ``name`` is the
    node's. A result counts as sent when the main server has read it; one of which that is not known is sent again.
    """

    def __init__(
        self,
        path: Path,
        results: BackgroundResults,
        line: Callable[[], Line | None],
        offered: Callable[[str], bool],
        max_bytes: Callable[[], int],
        name: str,
    ) -> None:
        self._path = path
        self._results = results
        self._line = line
        self._offered = offered
        self._max_bytes = max_bytes
        self._name = name
        self._waiting: dict[tuple[str, str], int] = {}
        self._heard = count()
        self._kept: tuple[tuple[str, str], ...] = ()
        self._woken = asyncio.Event()

    def hear(self, event: Event) -> None:
        """A background result is there."""
        if isinstance(event, BackgroundResult) and self._offered(event.plugin):
            self._waiting.pop((event.plugin, event.task_id), None)  # a newer one takes its place at the end
            self._waiting[event.plugin, event.task_id] = next(self._heard)
            while len(self._waiting) > MAX_WAITING:
                plugin, _ = next(iter(self._waiting))
                log.error(
                    "a result of plugin %s is not sent to the main server: more than %d wait", plugin, MAX_WAITING
                )
                del self._waiting[next(iter(self._waiting))]
            self._woken.set()

    def wake(self) -> None:
        """There is a line again."""
        self._woken.set()

    async def run(self) -> None:
        """Send what waits, and what comes; ends when it is cancelled."""
        for key in await asyncio.to_thread(_read, self._path):
            self._waiting.setdefault(key, next(self._heard))
        self._kept = tuple(self._waiting)
        self._woken.set()
        while True:
            await self._woken.wait()
            self._woken.clear()
            await self._keep()
            while self._waiting and (line := self._line()) is not None and await self._send_first(line):
                pass
            await self._keep()

    async def _send_first(self, line: Line) -> bool:
        """Send the oldest; False when the line is gone."""
        key, heard = next(iter(self._waiting.items()))
        plugin, task = key
        body = await asyncio.to_thread(self._results.read, plugin, task)
        if isinstance(body, Missing):
            log.warning("the result of a task of plugin %s is not sent: its file is gone or cannot be read", plugin)
        else:
            data = encoded(forwarded(self._name, plugin, task, body))
            if len(data) > self._max_bytes():
                log.error("the result of a task of plugin %s is not sent: it is over NodeMaxFrameMB", plugin)
            elif not await line.deliver(data):
                return False
            else:
                await asyncio.sleep(REST_SECONDS)
        if self._waiting.get(key) == heard:  # else a newer one came meanwhile
            del self._waiting[key]
        return True

    async def _keep(self) -> None:
        """Write down what waits, if it is not what is written."""
        waiting = tuple(self._waiting)
        if waiting == self._kept:
            return
        try:
            await asyncio.to_thread(write_atomic, self._path, json.dumps(waiting).encode(), 0o600)
        except OSError as error:
            log.warning("%s cannot be written (%s); results that wait are not sent after a restart", self._path, error)
        else:
            self._kept = waiting


def forwarded(name: str, plugin: str, task: str, body: Json) -> Mapping[str, Json]:
    """The message of one result: what the plugin sent, with ``pluginName`` and ``taskId``, by which servers file it.

    A body that is no object stands in ``data``.
    """
    fields = body if isinstance(body, Mapping) else {"data": body}
    data = {"serverName": name, "callbackData": {**fields, "pluginName": plugin, "taskId": task}}
    return {"type": "plugin_callback_forward", "data": data}


def _read(path: Path) -> list[tuple[str, str]]:
    try:
        entries = json.loads(read_small(path, MAX_FILE_BYTES))
    except FileNotFoundError:
        return []
    except (OSError, ValueError, RecursionError) as error:
        log.warning("%s cannot be read (%s); results that waited are not sent", path, type(error).__name__)
        return []
    found = [
        (entry[0], entry[1])
        for entry in (entries if isinstance(entries, list) else [])
        if isinstance(entry, list) and len(entry) == 2 and all(isinstance(word, str) for word in entry)
    ]
    return found[:MAX_WAITING]
