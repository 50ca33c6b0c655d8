"""What a turn tells its client; ``stream_rendering`` and ``completion_rendering`` are the two ways to tell it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from app.chat.calls import RoundCalls
from app.chat.round import RoundAnswer
from app.errors import VcpError
from app.upstream.reply import Reply

DEFAULT_FINISH = "stop"
"""The finish reason where the upstream named none."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How the answer ends: finish reasons by choice, the usage of all rounds, whether calls were left unexecuted."""

    finish_reasons: Mapping[int, str]
    usage: Mapping[str, Any] | None
    calls_left: bool = False


class Renderer(Protocol):
    """Tells a client what happens in a turn. Methods are called in the order of the answer.

    One of ``finish``, ``failed`` and ``interrupted`` ends the answer; once one has, the others do nothing. A cancelled
    ``finish`` or ``failed`` may be followed by another of the three.
    """

    async def read(self, reply: Reply, calls: RoundCalls, first_token: Callable[[], None]) -> RoundAnswer:
        """Read the upstream's answer of one round: its text goes to the client and to ``calls``.

        A newline stands between two rounds (D2).
        """
        ...

    async def block(self, text: str) -> None:
        """A ShowVCP block."""
        ...

    async def failed(self, error: VcpError) -> None:
        """The upstream or the server failed: what was said is kept, and the answer ends readably."""
        ...

    async def interrupted(self) -> None:
        """The user stopped the turn."""
        ...

    async def finish(self, ending: Ending) -> None:
        """The regular end."""
        ...
