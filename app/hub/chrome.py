"""Browser extensions and those who steer them: signs of life, commands and what came of them (spec 6.6; W7, W8)."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from app.extend import Clock, Json
from app.hub.clients import Client, ClientType, Message
from app.hub.hub import Hub
from app.protocol import hub_messages as wire

log = logging.getLogger(__name__)


class Chrome:
    """Serves the paths of browsers. ``clock`` gives seconds since the epoch."""

    def __init__(self, hub: Hub, clock: Clock) -> None:
        self._hub = hub
        self._clock = clock
        hub.heard(ClientType.CHROME_OBSERVER, wire.HEARTBEAT, self._heartbeat)
        hub.heard(ClientType.CHROME_OBSERVER, wire.COMMAND_RESULT, self._result)
        hub.heard(ClientType.CHROME_CONTROL, wire.COMMAND, self._command)

    def _heartbeat(self, client: Client, _message: Message) -> None:
        client.send(wire.heartbeat_ack(round(self._clock() * 1000)))

    def _command(self, client: Client, message: Message) -> None:
        """Hand a command to the browser that is connected longest; without one say so."""
        data = _data(message)
        command = {"type": wire.COMMAND, "data": {**data, "sourceClientId": client.id}}
        if not any(observer.send(command) for observer in self._hub.clients(ClientType.CHROME_OBSERVER)):
            client.send(wire.command_failed(data.get("requestId"), wire.NO_BROWSER))

    def _result(self, _observer: Client, message: Message) -> None:
        """Hand what came of a command to who gave it, with the fields that are meant for it."""
        data = _data(message)
        for client in self._hub.clients(ClientType.CHROME_CONTROL):
            if client.id == data.get("sourceClientId"):
                told = {name: data[name] for name in ("requestId", "status", "message", "error") if name in data}
                client.send({"type": wire.COMMAND_RESULT, "data": told})
                return
        log.info("a browser's result is for nobody who is connected")


def _data(message: Message) -> Mapping[str, Json]:
    data = message.get("data")
    return data if isinstance(data, Mapping) else {}
