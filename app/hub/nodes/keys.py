"""Keys of far nodes as they count now: whose key is this, and which tools may that node bring (B15).

Nothing but digests is known here. The file is looked at whenever somebody brings a key, and once a second: a key that
was made counts at once, and one that was taken back ends its node's connection.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from app.config.live_file import LOOK_SECONDS, LiveFile
from app.extend import Clock
from app.hub.nodes.key_file import MAX_FILE_BYTES, NODE_KEYS_FILE, NodeKey, digest_of, parse, same_name

log = logging.getLogger(__name__)

_NOTHING: Mapping[str, NodeKey] = MappingProxyType({})


class NodeKeys:
    """Who has a key of their own. A file that cannot be read leaves the last good one in force, at first nobody.

    Its methods belong to the event loop. ``clock`` is monotonic; ``look_seconds`` is the pause between two looks at the
    file.
    """

    def __init__(self, home: Path, clock: Clock, look_seconds: float = LOOK_SECONDS) -> None:
        self._file = LiveFile(home / NODE_KEYS_FILE, MAX_FILE_BYTES, clock)
        self._look_seconds = look_seconds
        self._keys = _NOTHING
        self._reserved: frozenset[str] = frozenset()
        self._changed: list[Callable[[], None]] = []
        self._ended: list[Callable[[str], None]] = []
        self._looking: asyncio.Task[None] | None = None

    def identify(self, key: str) -> str | None:
        """The name of the node whose key this is, or None; takes the same time whatever is right about it."""
        self._look()
        given = digest_of(key).encode()
        found = None
        for entry in self._keys.values():
            if hmac.compare_digest(given, entry.digest.encode()) and not entry.revoked:
                found = entry.name
        return found

    def allows(self, identity: str, tool: str) -> bool:
        """True when the node with this key may bring this tool; without an identity (the common key) all may."""
        if not identity:
            return True
        entry = self._keys.get(identity)
        return entry is not None and not entry.revoked and (entry.tools is None or tool in entry.tools)

    def reserved(self, name: str) -> bool:
        """True when a node has this name, or one that looks like it, by its key; nobody else must take it."""
        return same_name(name) in self._reserved

    def on_change(self, told: Callable[[], None]) -> None:
        """Call ``told`` whenever keys or lists of tools are different ones than before."""
        self._changed.append(told)

    def on_end(self, told: Callable[[str], None]) -> None:
        """Call ``told`` with the name of each node whose key counts no longer: revoked, removed or replaced."""
        self._ended.append(told)

    def _look(self) -> None:
        """Take over what the file says now, and tell what that changes."""
        content = self._file.changed(at_once=True)
        if content is None:
            return
        try:
            read = content.parsed(parse)
        except ValueError as error:
            log.error("%s cannot be used (%s); keys of nodes stay as they were", self._file.path, error)
            return
        for problem in read.problems:
            log.error("%s: %s; it lets nobody in", self._file.path, problem)
        before, self._keys = self._keys, MappingProxyType(dict(read.keys))
        if before == self._keys:
            return
        self._reserved = frozenset(same_name(entry.name) for entry in self._keys.values() if not entry.revoked)
        ended = [name for name, entry in before.items() if not entry.revoked and not self._still(entry)]
        log.info("keys of nodes have changed: %d count%s", len(self._reserved), _named("; no longer: ", ended))
        for name in ended:
            for told in self._ended:
                told(name)
        for tell in self._changed:
            tell()

    def _still(self, before: NodeKey) -> bool:
        now = self._keys.get(before.name)
        return now is not None and not now.revoked and now.digest == before.digest

    async def start(self) -> None:
        """Watch the file."""
        self._look()
        self._looking = asyncio.create_task(self._watch())
        self._looking.add_done_callback(_tell_of_end)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self._look_seconds)
            self._look()

    def health(self) -> str:
        """What ended the watch, were it ever to end: revoked nodes would then stay."""
        ended = self._looking is not None and self._looking.done() and not self._looking.cancelled()
        return "keys of nodes are watched no longer" if ended else ""

    async def stop(self) -> None:
        """Watch no longer."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait([self._looking])


def _tell_of_end(watch: asyncio.Task[None]) -> None:
    if not watch.cancelled():
        log.error("keys of nodes are watched no longer", exc_info=watch.exception())


def _named(words: str, names: list[str]) -> str:
    return f"{words}{', '.join(names)}" if names else ""
