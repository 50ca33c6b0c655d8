"""Asking the model API for the description of one medium (memory.md 6.3)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from app.errors import VcpError

from .media import cleaned

ATTEMPTS = 3
PAUSE_SECONDS = 0.5
LEAST_CHARS = 50
"""A shorter description is a failure."""

PARALLEL_LIMIT = 32


class DescriptionError(ValueError):
    """There is no description; the text says why."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The settings."""

    model: str
    prompt: str
    insert_prompt: str
    max_tokens: int
    thinking_budget: int
    parallel: int

    @classmethod
    def of(cls, config: Mapping[str, str]) -> Rules:
        """From the plugin's configuration."""
        return cls(
            (config.get("MultiModalModel") or "").strip(),
            config.get("MultiModalPrompt") or "",
            config.get("MediaInsertPrompt") or "[多模态数据信息已提取:]",
            max(1, _number(config, "MultiModalModelOutputMaxTokens", 50_000)),
            _number(config, "MultiModalModelThinkingBudget", 0),
            min(PARALLEL_LIMIT, max(1, _number(config, "MultiModalModelAsynchronousLimit", 1))),
        )

    @property
    def wanted(self) -> bool:
        """Whether any of it is set: without, media go to the model as they came."""
        return bool(self.model or self.prompt.strip())

    @property
    def complete(self) -> bool:
        """Whether anybody can be asked."""
        return bool(self.model and self.prompt.strip())


def _number(config: Mapping[str, str], name: str, default: int) -> int:
    text = (config.get(name) or "").strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else default


Complete = Callable[[dict[str, Any]], Awaitable[Any]]


async def describe(complete: Complete, rules: Rules, uri: str) -> str:
    """The description of a medium, after up to three attempts. Raises DescriptionError."""
    body: dict[str, Any] = {
        "model": rules.model,
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": rules.prompt},
                    {"type": "image_url", "image_url": {"url": uri}},
                ],
            }
        ],
        "max_tokens": rules.max_tokens,
    }
    if rules.thinking_budget > 0:
        body["extra_body"] = {"thinking_config": {"thinking_budget": rules.thinking_budget}}
    reason = ""
    for attempt in range(ATTEMPTS):
        if attempt:
            await asyncio.sleep(PAUSE_SECONDS)
        try:
            answer = await complete(body)
        except VcpError as error:
            reason = error.message
            continue
        text = cleaned(_text(answer))
        if len(text) >= LEAST_CHARS:
            return text
        reason = f"the description has only {len(text)} characters"
    raise DescriptionError(reason)


def _text(answer: Any) -> str:
    """The text of a completion; empty for whatever is none."""
    try:
        content = answer["choices"][0]["message"]["content"]
    except (KeyError, IndexError, TypeError):
        return ""
    return content if isinstance(content, str) else ""
