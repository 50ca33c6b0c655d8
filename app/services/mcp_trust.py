"""What MCP servers may do and ask: consent to their tools, signing in, questions to models and people (D75, MCP-55)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from app.extend import EventSink, People
from app.mcp.client.consent import Consents
from app.mcp.client.sampling import Sampling
from app.mcp.client.server_entry import ServerEntry
from app.services.completions import PlainCompletions
from app.services.in_force import InForce

if TYPE_CHECKING:  # they import the SDK, which takes half a second: at first use, and only where MCP is used
    import httpx2

    from app.mcp.client.oauth.sign_ins import SignInNeeded, SignIns
    from app.mcp.client.questions import Questions


class McpTrust:
    """Consents, sign-ins and questions for the servers of one home. A ``Lifecycle``.

    ``people`` asks people, looked up at each use, and ``complete`` models.
    """

    def __init__(
        self,
        in_force: InForce,
        events: EventSink,
        people: Callable[[], People],
        complete: PlainCompletions,
        *,
        background: bool,
    ) -> None:
        self._in_force = in_force
        self._people = people
        self._background = background
        self._sign_ins: SignIns | None = None
        self._told: list[Callable[[str], None]] = []
        self.consents = Consents(in_force.home, events)
        self._sampling = Sampling(
            complete,
            model=lambda: in_force.settings.mcp_sampling_model,
            max_tokens=lambda: in_force.settings.mcp_sampling_max_tokens,
            per_minute=lambda: in_force.settings.mcp_sampling_per_minute,
            max_depth=lambda: in_force.settings.max_call_depth,
            clock=time.monotonic,
        )

    def questions(self, entry: ServerEntry) -> Questions:
        """The callbacks of a new connection to a server."""
        import app.mcp.sdk  # noqa: F401 - whole, before parts of it
        from app.mcp.client.questions import Questions

        return Questions(
            entry,
            home=self._in_force.home,
            people=self._people,
            sampling=self._sampling,
            seconds=lambda: self._in_force.settings.mcp_question_seconds,
        )

    @property
    def sign_ins(self) -> SignIns:
        """Who is signed in where."""
        if self._sign_ins is None:
            import app.mcp.sdk  # noqa: F401 - whole, before parts of it
            from app.mcp.client.oauth.sign_ins import SignIns

            self._sign_ins = SignIns(self._in_force.home, clock=time.time, background=self._background)
            self._sign_ins.signed_in(self._signed_in)
        return self._sign_ins

    def auth(self, entry: ServerEntry) -> httpx2.Auth | None:
        """What signs requests to a server; None for one that takes no sign-in."""
        return self.sign_ins.auth(entry)

    def begin_sign_in(self, entry: ServerEntry) -> bool:
        """Begin a sign-in in the background; false where there is none, or another one is under way."""
        return self.sign_ins.begin(entry)

    def let_in(self, server: str) -> None:
        """A server has let us in: nobody has to sign in there any more."""
        if self._sign_ins is not None:
            self._sign_ins.worked(server)

    def when_signed_in(self, told: Callable[[str], None]) -> None:
        """Call ``told`` with a server's name when somebody has signed in there."""
        self._told.append(told)

    def _signed_in(self, server: str) -> None:
        for told in self._told:
            told(server)

    def needed(self, server: str) -> SignInNeeded | None:
        """Whether a person has to sign in at a server."""
        return None if self._sign_ins is None else self._sign_ins.needed(server)

    async def start(self) -> None:
        """Nothing begins by itself."""

    def health(self) -> str:
        """Nothing can be wrong with it."""
        return ""

    async def stop(self) -> None:
        """No flow waits for a person any more."""
        if self._sign_ins is not None:
            await self._sign_ins.stop()
