"""Plain completions of the model API: no prompt of ours, no tools, no rounds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from app.chat.payload import dumps, loads
from app.config.model_redirect import ModelRedirect
from app.errors import UpstreamBrokenError, both
from app.extend import Json
from app.upstream.client import UpstreamClient

ANSWER_BYTES = 8 * 1024 * 1024
"""Of one answer."""


class PlainCompletions:
    """Asks the model API of now for one completion; models are named as clients name them."""

    def __init__(self, upstream: Callable[[], UpstreamClient], redirect: ModelRedirect) -> None:
        self._upstream = upstream
        self._redirect = redirect

    async def __call__(self, body: Mapping[str, Json], depth: int = 0) -> Json:
        """The completion as the API gave it; ``depth`` is that of the chain of chats and tools.

        Raises the upstream's errors, and UpstreamBrokenError for an answer that is no JSON.
        """
        model = self._redirect.internal(str(body["model"]))
        sent = await asyncio.to_thread(dumps, {**body, "model": model})
        async with await self._upstream().chat(sent, model=model, stream=False, depth=depth) as reply:
            data = await reply.read_all(ANSWER_BYTES)
        try:
            answer: Json = await asyncio.to_thread(loads, data)
        except (ValueError, RecursionError):
            raise UpstreamBrokenError(both("模型的回答不是 JSON", "the answer of the model API is no JSON")) from None
        return answer
