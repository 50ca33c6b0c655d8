"""Writes down what administrators do, without holding anybody up."""

from __future__ import annotations

import asyncio

from app.chat.background import BackgroundTasks
from app.observe.action_log import Action, ActionLog


class ActionNotes:
    """Hands actions to the file one after the other, in a thread, as background work of the server."""

    def __init__(self, log: ActionLog, background: BackgroundTasks) -> None:
        self._log = log
        self._background = background

    def add(self, action: Action) -> None:
        """Note an action; what comes beyond the limit of background work is told in the log by that."""
        self._background.start(asyncio.to_thread(self._log.add, action), "note an action of an administrator")
