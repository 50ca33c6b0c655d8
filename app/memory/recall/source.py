"""The placeholder source of recall: all declarations of a prompt, answered together (memory.md 2.2).

Declarations are found in the operator's text and in the client's own system text, never in data (D9); what comes back
is data and put in byte for byte (D79). This module needs no numpy: what does is made when a prompt has a declaration.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from app.extend import SYSTEM_NOTE, Filling, Found, Json, PromptContext, Trust
from app.prompt.scope import SYSTEM
from app.protocol.recall import DECLARATION, Declaration, LicenceToken, NotebookDeclaration, read_declaration
from app.protocol.recall_frames import RECALL_FAILED

if TYPE_CHECKING:
    from app.memory.recall.answer import Answer
    from app.memory.recall.recaller import Recaller, Request

log = logging.getLogger(__name__)

MAX_DECLARATIONS = 200
"""Of one prompt, each counted once; further ones become the text of a failed one."""

MAX_WARNED = 1_000
"""Declarations with unknown modifiers that are told of in the log, over the life of the server."""

Inform = Callable[[Mapping[str, Json], str], None]
"""Tells those who watch the inner workings what was found, and in which turn."""


class RecallSource:
    """See ``PlaceholderSource``. ``inform`` gives who is told of what was found, None while nobody listens.

    ``max_seconds`` is how long a prompt may wait for all of it; ``enabled`` false leaves declarations as they are.
    """

    name = "recall"
    pattern = DECLARATION
    roles = frozenset({SYSTEM, SYSTEM_NOTE})
    trust = Trust.DATA
    after_detectors = False

    def __init__(
        self,
        recaller: Callable[[], Recaller],
        *,
        enabled: Callable[[], bool],
        max_seconds: Callable[[], float],
        inform: Callable[[], Inform | None],
    ) -> None:
        self._recaller = recaller
        self._enabled = enabled
        self._max_seconds = max_seconds
        self._inform = inform
        self._warned: set[str] = set()

    @property
    def seconds(self) -> float:
        """Its own time, longer than that of other sources where a model reads notebooks."""
        return self._max_seconds()

    async def resolve(self, found: Sequence[Found], context: PromptContext) -> Mapping[str, str | Filling]:
        """See ``PlaceholderSource``. Never raises: a fault of all becomes the text of a failed one."""
        if not self._enabled():
            return {}
        declarations = [item for item in (read_declaration(item.text) for item in found) if item is not None]
        left_out = {item.text: RECALL_FAILED for item in declarations[MAX_DECLARATIONS:]}
        if left_out:
            log.warning("a prompt has more than %d declarations; the others are not answered", MAX_DECLARATIONS)
            declarations = declarations[:MAX_DECLARATIONS]
        self._warn(declarations)
        if not declarations:
            return {}
        if all(isinstance(item, LicenceToken) for item in declarations):
            return {item.text: "" for item in declarations} | left_out
        try:
            recaller = await asyncio.to_thread(self._recaller)
            request = await recaller.request(declarations, context.messages)
            answers = await recaller.answers(declarations, request)
            self._tell(answers, request, context.turn_id)
        except Exception:  # the turn's boundary: memory must not end it
            log.exception("recall failed")
            return {
                item.text: "" if isinstance(item, LicenceToken) else RECALL_FAILED for item in declarations
            } | left_out
        filled = {answer.declaration.text: filling for answer in answers if (filling := _filling(answer)) is not None}
        return filled | left_out

    def _warn(self, declarations: Sequence[Declaration]) -> None:
        """Log what nobody knows, once for each declaration."""
        for declaration in declarations:
            key = declaration.shown
            if declaration.warnings and key not in self._warned and len(self._warned) < MAX_WARNED:
                self._warned.add(key)
                for warning in declaration.warnings:
                    log.warning("%s: nobody knows the modifier '%s'; it is passed over", key, warning)

    def _tell(self, answers: Sequence[Answer], request: Request, turn_id: str) -> None:
        inform = self._inform()
        if inform is None:
            return
        from app.memory.recall.details import details_of

        for answer in answers:
            message = details_of(answer, request.query)
            if message is not None:
                inform(message, turn_id)


def _filling(answer: Answer) -> Filling | None:
    if answer.text is None:
        return None
    return Filling(answer.text, answer.again, _label(answer.declaration), answer.attached)


def _label(declaration: Declaration) -> str:
    return declaration.name if isinstance(declaration, NotebookDeclaration) else ""
