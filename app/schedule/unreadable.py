"""Task files that hold no task: when to complain of them, and what is wrong with them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from app.schedule.folder import Look, Signature

log = logging.getLogger("app.schedule.runner")


@dataclass(slots=True)
class _Unreadable:
    """A file that holds no task: why, since when (on the loop's clock) it is so, and whether that was said."""

    signature: Signature
    reason: str
    since: float
    said: bool = False


class UnreadableFiles:
    """Complains once of each file, and not before it had ``settle`` seconds to be written to its end."""

    def __init__(self, settle: float) -> None:
        self._settle = settle
        self._files: dict[str, _Unreadable] = {}

    def signatures(self) -> Mapping[str, Signature]:
        """By which a look knows that a file is as it was."""
        return {name: found.signature for name, found in self._files.items()}

    def reasons(self) -> Mapping[str, str]:
        """What is wrong, by name, with those that had their time."""
        return {name: found.reason for name, found in self._files.items() if found.said}

    def note(self, seen: Look, now: float) -> bool:
        """Take over what a look saw; true while there is one that is given time."""
        kept = {name: found for name, found in self._files.items() if name in seen.names - set(seen.tasks)}
        new = {name: _Unreadable(signature, reason, now) for name, (signature, reason) in seen.unreadable.items()}
        self._files = {**kept, **new}
        for name, found in self._files.items():
            if not found.said and now - found.since >= self._settle:
                found.said = True
                log.warning("task file %s is left where it is and not scheduled: %s", name, found.reason)
        return not all(found.said for found in self._files.values())
