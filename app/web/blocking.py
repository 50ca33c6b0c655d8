"""Blocking of addresses: failing tool calls (spec 1.8) and wrong keys (B8), both with decay; loopback never."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from app.config.durable import write_atomic
from app.config.live_file import LiveFile
from app.errors import VcpError, both
from app.protocol.loopback import is_loopback
from app.web.addresses import parse_address

log = logging.getLogger(__name__)

TOOL_FAILURES = 5
TOOL_WINDOW_SECONDS = 3600.0
KEY_FAILURES = 20
KEY_WINDOW_SECONDS = 900.0
KEY_BLOCK_SECONDS = 1800.0
MAX_ADDRESSES = 10_000
MAX_FILE_BYTES = 4 * 1024 * 1024
"""Largest ``ip_blacklist.json`` that is read; one full of addresses is far smaller."""


@dataclass(slots=True)
class _Count:
    failures: int
    since: float


@dataclass(frozen=True, slots=True)
class Block:
    """A refused address; ``seconds`` until it may come again, None for one in the file, which stays there."""

    address: str
    seconds: float | None


class UnreadableListError(VcpError):
    """The file of blocked addresses cannot be read, so it is not written over."""

    status = 409
    code = "unreadable_list"


class _Counter:
    """Failures by address within a window; the oldest addresses go when there are too many."""

    def __init__(self, window: float) -> None:
        self._window = window
        self._counts: OrderedDict[str, _Count] = OrderedDict()

    def add(self, address: str, now: float) -> int:
        count = self._counts.get(address)
        if count is None or now - count.since > self._window:
            count = self._counts[address] = _Count(0, now)
        count.failures += 1
        self._counts.move_to_end(address)
        while len(self._counts) > MAX_ADDRESSES:
            self._counts.popitem(last=False)
        return count.failures

    def forget(self, address: str) -> None:
        self._counts.pop(address, None)


class AddressBlocks:
    """Who may not speak to us: ``ip_blacklist.json`` of the home, and addresses that tried too many wrong keys.

    The file is what counts, also while the server runs: whoever edits it blocks and un-blocks addresses. A file that
    cannot be read leaves the last good list in force.
    """

    def __init__(self, path: Path, *, enabled: Callable[[], bool], clock: Callable[[], float]) -> None:
        self._file = LiveFile(path, MAX_FILE_BYTES, clock)
        self._enabled = enabled
        self._clock = clock
        self._tools = _Counter(TOOL_WINDOW_SECONDS)
        self._keys = _Counter(KEY_WINDOW_SECONDS)
        self._last_keys: OrderedDict[str, bytes] = OrderedDict()
        self._until: OrderedDict[str, float] = OrderedDict()
        self._writing = asyncio.Lock()
        self._readable = True
        self._listed: frozenset[str] = frozenset()
        self._unsaved: frozenset[str] = frozenset()  # listed, but not in the file
        if enabled():
            self._look()

    def _look(self, *, at_once: bool = False) -> None:
        """Take over the list of the file when it is another one than at the last look."""
        content = self._file.changed(at_once=at_once)
        if content is None:
            return
        try:
            listed = content.parsed(_entries)
        except ValueError as error:
            self._readable = False
            log.error("%s cannot be read (%s); the list stays as it was, and so does the file", self._file.path, error)
            return
        if not self._readable:
            log.info("%s can be read again", self._file.path.name)
        self._readable = True
        self._listed = listed | self._unsaved

    def blocked(self, address: str) -> bool:
        """True when this address is refused."""
        if not self._enabled():
            return False
        self._look()
        until = self._until.get(address)
        if (until is None and address not in self._listed) or is_loopback(address):
            return False
        if until is None or address in self._listed or until > self._clock():
            return True
        del self._until[address]
        return False

    def count(self) -> int:
        """How many addresses are refused now."""
        now = self._clock()
        return len(self._listed) + sum(until > now for until in self._until.values()) if self._enabled() else 0

    def wrong_key(self, address: str) -> None:
        """Count a wrong key; too many within the window block the address for a while."""
        if not self._enabled() or is_loopback(address):
            return
        now = self._clock()
        if self._keys.add(address, now) >= KEY_FAILURES:
            self._keys.forget(address)
            self._until[address] = now + KEY_BLOCK_SECONDS
            self._until.move_to_end(address)
            while len(self._until) > MAX_ADDRESSES:
                self._until.popitem(last=False)
            log.warning("address %s is blocked for %d s after %d wrong keys", address, KEY_BLOCK_SECONDS, KEY_FAILURES)

    def wrong_stored_key(self, address: str, given: bytes) -> None:
        """Count a wrong key that programs and pages keep and send, unless it is the one that this address sent last.

        A page with many pictures under a key of yesterday is no attempt to find out the one of today, and neither is a
        program that connects again and again with it (P71).
        """
        digest = hashlib.sha256(given).digest()
        if self._last_keys.get(address) == digest:
            return
        self._last_keys[address] = digest
        self._last_keys.move_to_end(address)
        while len(self._last_keys) > MAX_ADDRESSES:
            self._last_keys.popitem(last=False)
        self.wrong_key(address)

    def blocks(self) -> list[Block]:
        """All refused addresses: those in the file, then those that tried too many keys, the longest first."""
        if not self._enabled():
            return []
        self._look(at_once=True)
        now = self._clock()
        waiting = [Block(address, until - now) for address, until in self._until.items() if until > now]
        waiting.sort(key=lambda block: -(block.seconds or 0))
        stays = [Block(address, None) for address in sorted(self._listed)]
        return [*stays, *(block for block in waiting if block.address not in self._listed)]

    @property
    def readable(self) -> bool:
        """False while the file cannot be read; the last good list counts then."""
        return self._readable

    async def unblock(self, address: str) -> bool:
        """Let an address come again and forget its failures; false when it was not refused.

        Raises UnreadableListError, and OSError when the file cannot be written; it stays refused then.
        """
        async with self._writing:
            self._look(at_once=True)
            if address in self._listed:
                if not self._readable:
                    name = self._file.path.name
                    raise UnreadableListError(
                        both(f"{name} 无法读取，请先修复它", f"{name} cannot be read; mend it first")
                    )
                listed = self._listed - {address}
                content = json.dumps(sorted(listed), indent=2, ensure_ascii=False).encode("utf-8", "replace")
                await asyncio.to_thread(write_atomic, self._file.path, content)
                self._unsaved -= {address}
                self._listed = listed
                found = True
            else:
                found = self._until.get(address, 0.0) > self._clock()
            self._until.pop(address, None)
            self._keys.forget(address)
            self._tools.forget(address)
            self._last_keys.pop(address, None)
        if found:
            log.info("address %s is blocked no longer: an administrator said so", address)
        return found

    async def tool_failed(self, address: str) -> None:
        """Count a failed call of ``/v1/human/tool``; the fifth within the window lists the address for good."""
        if not self._enabled() or is_loopback(address):
            return
        if self._tools.add(address, self._clock()) < TOOL_FAILURES:
            return
        self._tools.forget(address)
        async with self._writing:
            self._look(at_once=True)  # nobody's edit is written over
            if len(self._listed) >= MAX_ADDRESSES:
                log.error("%d addresses are blocked; %s is not blocked as well", MAX_ADDRESSES, address)
                return
            self._listed |= {address}
            self._unsaved |= {address}
            log.warning(
                "address %s is blocked after %d failed tool calls; see %s", address, TOOL_FAILURES, self._file.path.name
            )
            if not self._readable:
                return
            listed = self._listed
            content = json.dumps(sorted(listed), indent=2, ensure_ascii=False).encode("utf-8", "replace")
            try:
                await asyncio.to_thread(write_atomic, self._file.path, content)
            except OSError as error:
                log.error("%s cannot be written (%s); the block lasts until the server stops", self._file.path, error)
            else:
                self._unsaved -= listed


def _entries(data: bytes | None) -> frozenset[str]:
    """The addresses in the file; ValueError when it is no list."""
    value = json.loads(data.decode("utf-8-sig")) if data is not None else []
    if not isinstance(value, list):
        raise ValueError("it is not a list")
    return frozenset(_spelling(entry) for entry in value if isinstance(entry, str))


def _spelling(address: str) -> str:
    """An address as the gate spells it: no port, no IPv4-in-IPv6 prefix, IPv6 in its short form."""
    parsed = parse_address(address)
    return address if parsed is None else str(parsed)
