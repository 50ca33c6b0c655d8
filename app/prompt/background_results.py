"""``{{VCP_ASYNC_RESULT::<Plugin>::<id>}}``: what background plugins have told so far, read live (spec 3.6, C14)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from app.extend import Found, PromptContext, Trust
from app.prompt.scope import EVERY_ROLE
from app.protocol.background_results import PLACEHOLDER, result_pending, result_text, result_unreadable
from app.tools.background_results import BackgroundResults, Missing
from app.tools.rendering import cut_text


class BackgroundResultSource:
    """The placeholder source of results, as data, in every role, after the detectors (D31).

    A text is cut like any other result of a tool: ``max_chars`` gives the limit of now.
    """

    name = "background_result"
    pattern = PLACEHOLDER
    roles = EVERY_ROLE
    trust = Trust.DATA
    after_detectors = True

    def __init__(self, results: BackgroundResults, max_chars: Callable[[], int]) -> None:
        self._results = results
        self._max_chars = max_chars

    async def resolve(self, found: Sequence[Found], context: PromptContext) -> Mapping[str, str]:
        """All results asked for, read in one go outside of the event loop."""
        return await asyncio.to_thread(self._read, found, self._max_chars())

    def _read(self, found: Sequence[Found], max_chars: int) -> dict[str, str]:
        return {item.text: cut_text(self._text(*item.groups[:2]), max_chars) for item in found}

    def _text(self, plugin: str, task: str) -> str:
        result = self._results.read(plugin, task)
        if result is Missing.PENDING:
            return result_pending(plugin, task)
        if result is Missing.UNREADABLE:
            return result_unreadable(plugin, task)
        return result_text(plugin, task, result)
