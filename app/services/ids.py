"""Names for turns, calls and tasks."""

from __future__ import annotations

import itertools
import secrets


class Ids:
    """Gives names that are unique over restarts."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._run_id = secrets.token_hex(4)

    def new(self, kind: str) -> str:
        """The next name of this kind, such as ``call-1a2b3c4d-17``."""
        return f"{kind}-{self._run_id}-{next(self._numbers)}"

    def new_call(self) -> str:
        """The next name of a tool call."""
        return self.new("call")
