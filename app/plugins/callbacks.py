"""How a background plugin reaches the server again: the address it gets, and what its end means (spec 5.4, D19)."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from app.errors import VcpError, both
from app.extend import BackgroundResult, EventSink, Mute, ToolPush
from app.plugins.background import BackgroundProcess
from app.plugins.discovery import Plugin
from app.plugins.environment import CALLBACK_BASE_URL
from app.tools.background_results import BackgroundResults
from app.tools.callback_tokens import CallbackTokens
from app.tools.task_ids import TaskIds

log = logging.getLogger(__name__)

MUTES = 4096
"""Calls and tasks of which it is remembered whose turn they belong to."""

SLACK_SECONDS = 1.0
"""How far the clock of a file system may be behind."""


@dataclass(frozen=True, slots=True)
class CallbackAddress:
    """Where one call's process calls back: it appends ``/<plugin>/<task id>``. ``token`` is empty without one."""

    base: str
    token: str = ""


class Callbacks:
    """``base`` gives the server's own address for callbacks, or the one that is configured for all plugins."""

    def __init__(
        self, tokens: CallbackTokens, results: BackgroundResults, events: EventSink, base: Callable[[], str]
    ) -> None:
        self._tokens = tokens
        self._results = results
        self._events = events
        self._base = base
        self._mutes: OrderedDict[str, Mute] = OrderedDict()

    async def issue(self, plugin: Plugin, mute: Mute) -> CallbackAddress:
        """The address for one call: the plugin's own setting, else the server's, and a token of this call behind it.

        ``mute`` is the switch of the turn that the call belongs to.
        """
        base = (plugin.own.get(CALLBACK_BASE_URL, "").strip() or self._base()).rstrip("/")
        try:
            token = await asyncio.to_thread(self._tokens.issue, plugin.name)
        except OSError as error:
            log.error("plugin %s gets no callback token (%s); only local callbacks will be taken", plugin.name, error)
            return CallbackAddress(base)
        self._note(token, mute)
        return CallbackAddress(f"{base}/{token}", token)

    def muted(self, token: str, plugin: str, task: str) -> bool:
        """Whether the turn that a callback belongs to was interrupted, so that nothing is pushed any more (D27)."""
        mute = self._mutes.get(token) or self._mutes.get(_key(plugin, task))
        return mute is not None and mute.muted

    def _note(self, key: str, mute: Mute) -> None:
        self._mutes[key] = mute
        while len(self._mutes) > MUTES:
            self._mutes.popitem(last=False)

    async def answered(self, address: CallbackAddress, plugin: str, ids: TaskIds, mute: Mute) -> None:
        """The first answer of a call is there, and names these tasks."""
        for task in ids.named + ids.possible:
            self._note(_key(plugin, task), mute)
        try:
            await asyncio.to_thread(self._remember, address, plugin, ids)
        except OSError as error:
            log.error("the tasks of plugin %s cannot be noted: %s", plugin, error)

    def _remember(self, address: CallbackAddress, plugin: str, ids: TaskIds) -> None:
        if address.token:
            self._tokens.bind(address.token, plugin, ids.named)
        self._tokens.learn(plugin, ids.named + ids.possible)

    def withdraw(self, address: CallbackAddress) -> None:
        """The call ended without an answer."""
        if address.token:
            self._mutes.pop(address.token, None)
            self._tokens.withdraw(address.token)

    async def ended(self, process: BackgroundProcess, exit_code: int | None, push: ToolPush | None) -> None:
        """A background process ended; if it failed, those of its tasks that told nothing have failed with it.

        Without that their placeholders would promise a result for ever.
        """
        if not exit_code or not process.tasks:
            return
        log.warning("background process %d of plugin %s ended with code %d", process.pid, process.plugin, exit_code)
        for task in process.tasks:
            since = process.started - SLACK_SECONDS
            if await asyncio.to_thread(self._results.stored_since, process.plugin, task, since):
                continue
            body = {"status": "Failed", "requestId": task, "reason": _reason(exit_code)}
            try:
                await self._results.store(process.plugin, task, body)
            except (OSError, VcpError) as error:
                log.error("the failure of task %s of plugin %s cannot be noted: %s", task, process.plugin, error)
                continue
            shown = None if self.muted("", process.plugin, task) else push
            self._events.publish(BackgroundResult(process.plugin, task, body, shown))


def _key(plugin: str, task: str) -> str:
    return f"{plugin}\0{task}"


def _reason(exit_code: int) -> str:
    said = str(exit_code)
    if exit_code < 0:
        with contextlib.suppress(ValueError):  # a signal that this system has no name for
            said = signal.Signals(-exit_code).name
    return both(f"插件进程在回传结果之前结束（{said}）", f"the plugin's process ended before it called back ({said})")
