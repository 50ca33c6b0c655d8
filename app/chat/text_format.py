"""Tool calls as marked text in the reply (spec 4.1 to 4.5), the way that every model can go."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import tzinfo

from app.extend import Body, CallOutcome, FoundCall, Json, Message, NativeIntake
from app.protocol.timestamps import iso_millis
from app.protocol.tool_blocks import BlockScanner, ToolBlock
from app.tools.rendering import Part, ResultFormat, model_parts, payload_content
from app.tools.text_calls import call_from_block


class TextCallFormat:
    """Finds tool blocks in the text of a reply; results go back as one user message (D76)."""

    def __init__(
        self, new_id: Callable[[], str], zone: tzinfo, results: ResultFormat, *, password_wanted: bool = False
    ) -> None:
        self._new_id = new_id
        self._zone = zone
        self._results = results
        self._password_wanted = password_wanted
        self._scanner = BlockScanner()

    @property
    def native(self) -> NativeIntake | None:
        """None: function calls of the API are the client's (D3)."""
        return None

    def offer(self, body: Body) -> Body:
        """Nothing to add: the operator's prompt describes the tools (``{{VCPAllTools}}``), the body stays (D34)."""
        return body

    def feed(self, delta: Mapping[str, Json]) -> Sequence[FoundCall]:
        """Scan the delta's content."""
        content = delta.get("content")
        return self._found(self._scanner.feed(content)) if isinstance(content, str) else ()

    def finish(self) -> Sequence[FoundCall]:
        """Report a block that was left open."""
        return self._found(self._scanner.finish())

    def hidden(self) -> Sequence[tuple[int, int]]:
        """Think parts and tool blocks."""
        return self._scanner.hidden

    def append(self, body: Body, reply: str, outcomes: Sequence[CallOutcome]) -> Body:
        """The reply as an assistant's message and all results as one user message (spec 4.4)."""
        return extended(body, [{"role": "assistant", "content": reply}, self.results_message(self.parts(outcomes))])

    def parts(self, outcomes: Sequence[CallOutcome]) -> list[Part]:
        """What a model reads of these results, in their order."""
        told = []
        for outcome in outcomes:
            told.extend(model_parts(outcome, iso_millis(outcome.finished_at, self._zone), self._results))
        return told

    def results_message(self, parts: Sequence[Part]) -> Message:
        """The message that carries these parts."""
        return {"role": "user", "content": payload_content(parts, self._results.profile)}

    def _found(self, blocks: Sequence[ToolBlock]) -> list[FoundCall]:
        return [
            FoundCall(call_from_block(block, self._new_id(), password_wanted=self._password_wanted), block.skipped_why)
            for block in blocks
        ]


def extended(body: Body, messages: Sequence[Message]) -> Body:
    """The body with further messages; only choice 0 goes on (D32)."""
    changed: Body = {**body, "messages": [*body["messages"], *messages]}
    if "n" in changed:
        changed["n"] = 1
    return changed
