"""Results of background plugins that run on far nodes, forwarded over their connections (spec 1.10, 6.4)."""

from __future__ import annotations

import asyncio
import logging
import math
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Mapping

from app.errors import VcpError
from app.extend import BackgroundResult, EventSink, Json, Mute
from app.hub.clients import encoded
from app.hub.nodes.link import Node
from app.tools.task_ids import task_ids

log = logging.getLogger(__name__)

MAX_WAITING = 64
"""Results that may wait to be written at a time; what comes beyond it is dropped."""

MAX_TASKS = 4096
"""Tasks of which it is remembered which node has them, and whose turn they belong to."""

UNASKED_SECONDS = 3600.0
MAX_UNASKED = 1000
MAX_UNASKED_BYTES = 256 * 1024 * 1024
"""Results of tasks that no call named, of one node in an hour: each becomes a file."""

MAX_NAME_CHARS = 200
"""Longest name of a plugin or a task."""

MAX_SHOWN_CHARS = 64

StoreResult = Callable[[str, str, Json], Awaitable[None]]

_PLUGIN = ("pluginName", "PLUGIN_NAME_FOR_CALLBACK")
_TASK = ("taskId", "task_id", "TaskId", "requestId")


class NodeCallbacks:
    """Stores what nodes forward, each for its own plugins only.

    Where a plugin of this server has the same name, a node may only tell of tasks that it named in an answer: the
    files of results are by name. ``max_bytes`` is for one result.
    """

    def __init__(
        self,
        store: StoreResult,
        events: EventSink,
        *,
        max_bytes: Callable[[], int],
        local_names: Callable[[], Collection[str]],
    ) -> None:
        self._store = store
        self._events = events
        self._max_bytes = max_bytes
        self._local_names = local_names
        self._tasks: OrderedDict[tuple[str, str], tuple[str, Mute | None]] = OrderedDict()
        self._unasked: dict[str, tuple[int, float]] = {}
        self._unasked_since = -math.inf
        self._writing: set[asyncio.Task[None]] = set()

    def answered(self, node: Node, plugin: str, value: Json, mute: Mute) -> None:
        """A call's result is there; it may name tasks whose end comes later, as the answer of a local plugin may."""
        if isinstance(value, dict):
            for task in task_ids(plugin, value, None).named:
                self._note(plugin, task, node.name, mute)

    def knows(self, plugin: str, task: str) -> bool:
        """Whether a node named this task in an answer (D19); of the newest ``MAX_TASKS``."""
        return (plugin, task) in self._tasks

    def muted(self, plugin: str, task: str) -> bool:
        """Whether the turn that this task belongs to was interrupted, so that nothing is pushed any more (D27)."""
        _, mute = self._tasks.get((plugin, task), ("", None))
        return mute is not None and mute.muted

    def _note(self, plugin: str, task: str, node: str, mute: Mute | None) -> None:
        self._tasks[plugin, task] = (node, mute)
        self._tasks.move_to_end((plugin, task))
        while len(self._tasks) > MAX_TASKS:
            self._tasks.popitem(last=False)

    def take(self, node: Node, data: Mapping[str, Json]) -> None:
        """A node forwards what a plugin told it."""
        body = data.get("callbackData")
        plugin = _first_text(body, _PLUGIN) if isinstance(body, dict) else ""
        task = _first_text(body, _TASK) if isinstance(body, dict) else ""
        offer = node.offers.get(plugin)
        fault = ""
        if not plugin or not task:
            fault = "it names no plugin or no task"
        elif offer is None:
            fault = "the node has no such plugin"
        elif len(self._writing) >= MAX_WAITING:
            fault = "too many wait to be written"
        else:
            owner, mute = self._tasks.get((plugin, task), ("", None))
            if (owner and owner != node.name) or (not owner and plugin in self._local_names()):
                fault = "the task is not known as one of this node"
            elif (size := _size(body)) > self._max_bytes():
                fault = "it is too large (CallbackBodyLimitMB)"
            elif not owner and not self._allowed(node.name, size):
                fault = "no call named its task, and there were too many of that kind within an hour"
        if fault or offer is None:
            log.warning(
                "a background result of %r from node %s is dropped: %s", plugin[:MAX_SHOWN_CHARS], node.name, fault
            )
            return
        muted = mute is not None and mute.muted
        self._note(plugin, task, node.name, mute)
        result = BackgroundResult(plugin, task, body, None if muted else offer.spec.push)
        writing = asyncio.create_task(self._keep(result, node.name), name=f"background result of {plugin}")
        self._writing.add(writing)
        writing.add_done_callback(self._writing.discard)

    def _allowed(self, node: str, size: float) -> bool:
        """Count a result of a task that no call named: existing nodes send some, a hostile one could fill the disk."""
        now = asyncio.get_running_loop().time()
        if now - self._unasked_since > UNASKED_SECONDS:
            self._unasked, self._unasked_since = {}, now
        number, held = self._unasked.get(node, (0, 0.0))
        if number >= MAX_UNASKED or held + size > MAX_UNASKED_BYTES:
            return False
        self._unasked[node] = (number + 1, held + size)
        return True

    async def _keep(self, result: BackgroundResult, node: str) -> None:
        try:
            await self._store(result.plugin, result.task_id, result.body)
        except VcpError as error:
            log.warning("a background result of %s from node %s is dropped: %s", result.plugin, node, error.message)
        except OSError as error:
            log.error("a background result of %s from node %s cannot be stored: %s", result.plugin, node, error)
        else:
            self._events.publish(result)

    async def stop(self) -> None:
        """What is being written is written to its end."""
        if self._writing:
            await asyncio.wait(tuple(self._writing))


def _size(body: Json) -> float:
    try:
        return len(encoded(body))
    except (TypeError, ValueError, RecursionError):
        return math.inf


def _first_text(fields: Mapping[str, Json], names: tuple[str, ...]) -> str:
    for name in names:
        value = fields.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)[:MAX_NAME_CHARS]
        if isinstance(value, str) and 0 < len(value) <= MAX_NAME_CHARS:
            return value
    return ""
