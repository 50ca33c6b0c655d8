"""Messages for devices that are away: what a client of the log missed is told when it is back (spec 6.7).

A client of ``/VCPlog`` that gives a ``deviceName`` is a device. While no connection of it is open, messages of the log
are kept for it. They are told, in their order and marked, once a connection has been open for a while; what comes
meanwhile is told at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import tzinfo
from pathlib import Path

from app.extend import Clock, SocketRequest
from app.hub.clients import Client, ClientType
from app.hub.hub import Hub
from app.hub.log.replay_file import Kept, MissedMessages, read_missed, write_missed
from app.protocol.hub_messages import RECORDED_AT, REPLAYED
from app.protocol.timestamps import iso_millis

log = logging.getLogger(__name__)

DEVICE_NAMES = ("deviceName", "device_name", "devicename")
"""The parameter of the address, and other ways in which clients write it."""

MAX_DEVICES = 64
MAX_NAME_CHARS = 128

MAX_BYTES = 8 * 1024 * 1024
"""All kept messages together; one that several devices have missed is kept once. Beyond it the oldest go."""

MAX_MESSAGE_BYTES = 1024 * 1024
"""Longest message that is kept."""

FORGET_SECONDS = 30 * 86_400.0
"""After this time away a device is forgotten."""


@dataclass(frozen=True, slots=True)
class ReplayPace:
    """Seconds: how long a connection is open before it is told what it missed, between two messages, between writes."""

    stable: float = 3.0
    between: float = 0.08
    write: float = 5.0


@dataclass(slots=True, eq=False)
class _Device:
    """``seen``: when it was last there; ``missed``: numbers of messages; ``clients``: when each came (loop's clock)."""

    name: str
    seen: float
    missed: deque[int] = field(default_factory=deque)
    clients: dict[Client, float] = field(default_factory=dict)
    telling: asyncio.Task[None] | None = None


class LogReplay:
    """Knows the devices and what each has missed.

    ``path`` is the file in which both outlive a restart, None where nobody keeps them. ``count`` gives how many
    messages are kept for a device, ``hours`` for how long; 0 keeps none. ``pace`` may be set before clients come.
    """

    def __init__(
        self,
        hub: Hub,
        path: Path | None,
        *,
        clock: Clock,
        zone: Callable[[], tzinfo],
        count: Callable[[], int],
        hours: Callable[[], float],
        pace: ReplayPace | None = None,
    ) -> None:
        self.pace = pace or ReplayPace()
        self._path = path
        self._clock = clock
        self._zone = zone
        self._count = count
        self._hours = hours
        self._devices: dict[str, _Device] = {}
        self._kept: dict[int, Kept] = {}  # the oldest first
        self._bytes = 0
        self._next = 1
        self._running = False
        self._changed = False
        self._write_timer: asyncio.TimerHandle | None = None
        self._writing: asyncio.Task[None] | None = None
        self._failed = False
        hub.joined(ClientType.VCP_LOG, self._joined)
        hub.left(ClientType.VCP_LOG, self._left)

    # ------------------------------------------------------------------ what is kept

    def wanted(self) -> bool:
        """Whether some device is away and a message would be kept for it."""
        if not self._devices or not self._running or not self._keeps:
            return False
        return any(not device.clients for device in self._devices.values())

    def keep(self, message: bytes) -> None:
        """Keep a message, as it is sent, for the devices that are away."""
        if not self.wanted():
            return
        if len(message) > MAX_MESSAGE_BYTES:
            log.info("a message of %d bytes is too long to be kept for devices that are away", len(message))
            return
        now, number = self._clock(), self._next
        self._next += 1
        away = [device for device in self._devices.values() if not device.clients]
        self._kept[number] = Kept(now, message, wanted=len(away))
        self._bytes += len(message)
        for device in away:
            device.missed.append(number)
            self._cut(device)
        self._prune(now)
        self._note_change()

    @property
    def size(self) -> int:
        """Bytes of all kept messages."""
        return self._bytes

    def devices(self) -> tuple[str, ...]:
        """The names of all devices, in the order in which they were first seen."""
        return tuple(self._devices)

    def connections(self, device_name: str) -> int:
        """How many connections of a device are open."""
        device = self._devices.get(device_name)
        return 0 if device is None else len(device.clients)

    def missed(self, device_name: str) -> int:
        """How many messages wait for a device."""
        device = self._devices.get(device_name)
        return 0 if device is None else len(self._still_kept(device))

    def _still_kept(self, device: _Device) -> tuple[int, ...]:
        return tuple(number for number in device.missed if number in self._kept)

    @property
    def _keeps(self) -> bool:
        return self._count() > 0 and self._hours() > 0

    def _cut(self, device: _Device) -> None:
        while len(device.missed) > self._count():
            self._release(device.missed.popleft())

    def _release(self, number: int) -> None:
        """One device less wants this message."""
        kept = self._kept.get(number)
        if kept is None:
            return
        kept.wanted -= 1
        if kept.wanted <= 0:
            self._drop(number)

    def _drop(self, number: int) -> None:
        self._bytes -= len(self._kept.pop(number).data)

    def _prune(self, now: float) -> None:
        """What is too old, or too much, goes; so do devices that did not come back."""
        too_old = now - self._hours() * 3600
        while self._kept and (self._bytes > MAX_BYTES or next(iter(self._kept.values())).at < too_old):
            self._drop(next(iter(self._kept)))
        for device in [one for one in self._devices.values() if not one.clients and now - one.seen > FORGET_SECONDS]:
            self._forget(device)

    def _forget(self, device: _Device) -> None:
        del self._devices[device.name]
        for number in device.missed:
            self._release(number)

    # ------------------------------------------------------------------ devices that come and go

    def _joined(self, client: Client, request: SocketRequest) -> None:
        name = next((said for one in DEVICE_NAMES if (said := request.query.get(one, "").strip())), "")
        if not name or not self._running:
            return
        if len(name) > MAX_NAME_CHARS:
            log.warning("a device's name of %d characters is too long; nothing is kept for it", len(name))
            return
        client.name = name
        device = self._devices.get(name) or self._new_device(name)
        if device is None:
            return
        device.clients[client] = asyncio.get_running_loop().time()
        self._note_change()
        if device.missed and device.telling is None:
            device.telling = asyncio.create_task(self._tell(device), name="replay to a device")

    def _new_device(self, name: str) -> _Device | None:
        if not self._keeps:
            return None
        if len(self._devices) >= MAX_DEVICES:
            away = [device for device in self._devices.values() if not device.clients]
            if not away:
                log.warning("%d devices are connected; nothing is kept for another one", MAX_DEVICES)
                return None
            longest = min(away, key=lambda device: device.seen)
            log.warning("device %r is forgotten for a new one, there are %d", longest.name, MAX_DEVICES)
            self._forget(longest)
        device = self._devices[name] = _Device(name, self._clock())
        return device

    def _left(self, client: Client, _code: int) -> None:
        device = self._devices.get(client.name)
        if device is None or device.clients.pop(client, None) is None:
            return
        device.seen = self._clock()
        self._note_change()

    async def _tell(self, device: _Device) -> None:
        """Tell what was missed to the connection that is open longest, as long as there is one."""
        now = asyncio.get_running_loop().time
        try:
            while device.missed and device.clients:
                client, since = next(iter(device.clients.items()))
                wait = since + self.pace.stable - now()
                if wait > 0:
                    await asyncio.sleep(wait)
                    continue
                kept = self._kept.get(device.missed[0])
                if kept is not None and self._is_fresh(kept):
                    if not client.send(self._marked(kept)):
                        self._left(client, 1006)  # the hub is about to say so
                        continue
                    self._release(device.missed.popleft())
                    self._note_change()
                    await asyncio.sleep(self.pace.between)
                else:
                    self._release(device.missed.popleft())
        finally:
            device.telling = None

    def _is_fresh(self, kept: Kept) -> bool:
        return self._keeps and kept.at >= self._clock() - self._hours() * 3600

    def _marked(self, kept: Kept) -> bytes:
        """The message with the two fields that say that it is late, and since when; it is an object with a type."""
        marks = f',"{REPLAYED}":true,"{RECORDED_AT}":"{iso_millis(kept.at, self._zone())}"}}'
        return kept.data[:-1] + marks.encode()

    # ------------------------------------------------------------------ life

    async def start(self) -> None:
        """Remember the devices of before; a file that cannot be read costs what is in it and nothing else."""
        self._running = True
        if self._path is None:
            return
        found = await asyncio.to_thread(read_missed, self._path)
        for name, seen, missed in found.devices[:MAX_DEVICES]:
            if 0 < len(name) <= MAX_NAME_CHARS:
                known = deque(one for one in missed if one in found.messages)
                self._devices[name] = _Device(name, seen, known)
                self._cut(self._devices[name])
        wanted = Counter(one for device in self._devices.values() for one in device.missed)
        for number in sorted(found.messages):
            kept = found.messages[number]
            kept.wanted = wanted[number]
            if kept.wanted and len(kept.data) <= MAX_MESSAGE_BYTES:
                self._kept[number] = kept
                self._bytes += len(kept.data)
        self._next = max(found.messages, default=0) + 1
        self._prune(self._clock())

    def health(self) -> str:
        """Nothing that the server could not do without."""
        return ""

    async def stop(self) -> None:
        """Tell nothing more, and write down what there is."""
        self._running = False
        tasks = [device.telling for device in self._devices.values() if device.telling is not None]
        for task in tasks:
            task.cancel()
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None
        tasks += [self._writing] if self._writing is not None else []
        if tasks:
            await asyncio.wait(tasks)
        if self._changed:
            await self._write()

    def _note_change(self) -> None:
        """Write soon, unless somebody will already."""
        self._changed = self._path is not None
        if self._changed and self._running and self._write_timer is None and self._writing is None:
            self._write_timer = asyncio.get_running_loop().call_later(self.pace.write, self._begin_write)

    def _begin_write(self) -> None:
        self._write_timer = None
        self._writing = asyncio.create_task(self._write(), name="write what devices missed")
        self._writing.add_done_callback(self._written)

    def _written(self, task: asyncio.Task[None]) -> None:
        self._writing = None
        if self._changed and not task.cancelled():
            self._note_change()

    async def _write(self) -> None:
        assert self._path is not None
        self._changed = False
        now = self._clock()
        self._prune(now)
        devices = tuple(
            (device.name, now if device.clients else device.seen, self._still_kept(device))
            for device in self._devices.values()
        )
        missed = MissedMessages(devices, dict(self._kept))
        try:
            await asyncio.to_thread(write_missed, self._path, missed)
        except OSError as error:
            if not self._failed:
                log.error("what devices missed cannot be written down: %s", error.strerror or error)
            self._failed = True
        else:
            self._failed = False
