"""The file in which devices and the messages that they missed outlive a restart: one JSON object, replaced whole."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeGuard

from app.config.durable import write_atomic
from app.config.small_file import read_small
from app.extend import Json
from app.hub.clients import decoded, encoded

log = logging.getLogger(__name__)

REPLAY_FILE = Path(".vcp") / "log_replay.json"
"""Its place below the home."""

MAX_FILE_BYTES = 32 * 1024 * 1024
"""A file that is longer is none of ours."""

MAX_MISSED = 10_000

MAX_NUMBER = 10**15
"""Times and numbers of messages are far below it."""


@dataclass(slots=True)
class Kept:
    """A message as it was sent: when (seconds since the epoch), its JSON, and how many devices still want it."""

    at: float
    data: bytes
    wanted: int = 0


Device = tuple[str, float, tuple[int, ...]]
"""A device's name, when it was last there, and the numbers of the messages that it missed, the oldest first."""


@dataclass(frozen=True, slots=True)
class MissedMessages:
    """Devices, and messages by their numbers."""

    devices: tuple[Device, ...] = ()
    messages: Mapping[int, Kept] = field(default_factory=dict)


def read_missed(path: Path) -> MissedMessages:
    """What the file says; what is wrong in it is left out, and an unreadable one holds nothing. Blocks."""
    try:
        data = read_small(path, MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        return MissedMessages()
    except OSError as error:
        log.warning("%s cannot be read, devices begin anew: %s", path, error.strerror or error)
        return MissedMessages()
    value = decoded(data.decode("utf-8", "replace")) if len(data) <= MAX_FILE_BYTES else None
    if value is None:
        log.warning("%s holds no devices that can be read; they begin anew", path)
        return MissedMessages()
    messages = {number: kept for number, kept in map(_message, _listed(value, "messages")) if kept is not None}
    devices = (_device(entry) for entry in _listed(value, "devices"))
    return MissedMessages(tuple(device for device in devices if device is not None), messages)


def write_missed(path: Path, missed: MissedMessages) -> None:
    """Replace the file, readable to its owner only. Blocks; raises OSError, and then the old one is untouched."""
    devices = [{"name": name, "seen": seen, "missed": list(numbers)} for name, seen, numbers in missed.devices]
    messages = b",".join(
        b'{"number":%d,"at":%s,"message":%s}' % (number, repr(kept.at).encode(), kept.data)
        for number, kept in missed.messages.items()
    )
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_atomic(path, encoded({"devices": devices})[:-1] + b',"messages":[%s]}\n' % messages, 0o600)


def _listed(value: Mapping[str, Json], name: str) -> list[Mapping[str, Json]]:
    entries = value.get(name)
    return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []


def _message(entry: Mapping[str, Json]) -> tuple[int, Kept | None]:
    number, at, message = entry.get("number"), entry.get("at"), entry.get("message")
    if not _is_number(number) or not _is_number(at) or not isinstance(message, dict) or "type" not in message:
        return 0, None
    return int(number), Kept(at, encoded(message))


def _device(entry: Mapping[str, Json]) -> Device | None:
    name, seen, missed = entry.get("name"), entry.get("seen"), entry.get("missed")
    if not isinstance(name, str) or not _is_number(seen) or not isinstance(missed, list):
        return None
    return name, float(seen), tuple(int(number) for number in missed[:MAX_MISSED] if _is_number(number))


def _is_number(value: Json) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < MAX_NUMBER
