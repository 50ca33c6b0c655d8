"""The model of AIMemo: an API of its own (memory.md 5.6)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import httpx

from app.errors import UpstreamBrokenError, both

ATTEMPTS = 3
WAIT_SECONDS = 2.0
CALL_SECONDS = 120.0
TEMPERATURE = 0.3
MAX_TOKENS = 40_000
ANSWER_BYTES = 8 * 1024 * 1024
AGAIN = (500, 503)
"""Statuses after which the call is made again."""


@dataclass(frozen=True, slots=True)
class ModelAddress:
    """``url`` is what stands before ``v1/chat/completions``."""

    url: str
    key: str
    model: str


class AiMemoModel:
    """Asks the model; ``address`` is that of now, ``wait`` sleeps between attempts."""

    def __init__(
        self,
        http: httpx.AsyncClient,
        address: Callable[[], ModelAddress],
        wait: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._http = http
        self._address = address
        self._wait = wait

    async def ask(self, prompt: str) -> str:
        """The text of the answer. Raises UpstreamBrokenError; a time-out and some statuses are tried again."""
        address = self._address()
        url = f"{address.url.rstrip('/').removesuffix('/v1')}/v1/chat/completions"
        body = {
            "model": address.model,
            "messages": [{"role": "user", "content": prompt}],
            "temperature": TEMPERATURE,
            "max_tokens": MAX_TOKENS,
        }
        headers = {"Authorization": f"Bearer {address.key}"} if address.key else {}
        why = ""
        for attempt in range(ATTEMPTS):
            if attempt:
                await self._wait(WAIT_SECONDS)
            try:
                async with asyncio.timeout(CALL_SECONDS):
                    status, data = await self._call(url, body, headers)
            except (httpx.HTTPError, TimeoutError) as error:
                why = type(error).__name__
                continue
            if status == 200:
                return await asyncio.to_thread(_text_of, data)
            why = f"HTTP {status}"
            if status not in AGAIN:
                break
        raise UpstreamBrokenError(
            both(f"AIMemo 的模型没有给出回答：{why}", f"the model of AIMemo gave no answer: {why}")
        )

    async def _call(self, url: str, body: object, headers: dict[str, str]) -> tuple[int, bytes]:
        timeout = httpx.Timeout(CALL_SECONDS)
        async with self._http.stream("POST", url, json=body, headers=headers, timeout=timeout) as response:
            data = bytearray()
            async for piece in response.aiter_bytes():
                data += piece
                if len(data) > ANSWER_BYTES:
                    raise UpstreamBrokenError(both("AIMemo 的回答太长", "the answer of AIMemo's model is too long"))
            return response.status_code, bytes(data)


def _text_of(data: bytes) -> str:
    try:
        content = json.loads(data)["choices"][0]["message"]["content"]
    except (ValueError, LookupError, TypeError, RecursionError):
        content = None
    if not isinstance(content, str):
        raise UpstreamBrokenError(both("AIMemo 的模型没有给出文字", "the model of AIMemo answered without a text"))
    return content
