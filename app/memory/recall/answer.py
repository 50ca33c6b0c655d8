"""What became of one declaration, for the prompt, for events and for ``explain`` (memory.md 11.29)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from app.errors import VcpError
from app.extend import Json
from app.memory.ranking.requests import Dropped, GateValue, GroupActivation, Hit, Retrieval, Retrieved
from app.memory.recall.ai_memo import AiMemoAnswer
from app.protocol import recall_frames as frames
from app.protocol.recall import Declaration

log = logging.getLogger(__name__)


class Outcome(StrEnum):
    """Why a declaration is what it is now."""

    FILLED = "filled"
    CLOSED = "gate closed"
    VALVE = "role valve closed"
    REPEAT = "repeat"
    NO_QUESTION = "no question"
    FAILED = "failed"
    REMOVED = "licence token"
    LEFT = "left as written"


@dataclass(frozen=True, slots=True)
class ChainStage:
    """A stage of a thinking chain as it went."""

    cluster: str
    k: int
    hits: tuple[tuple[str, float], ...]
    degraded: bool
    fault: str


@dataclass(frozen=True, slots=True)
class ChainAnswer:
    """A thinking chain as it went; ``known`` is false for a chain that nobody has defined."""

    chain: str
    known: bool
    auto: bool
    stages: tuple[ChainStage, ...] = ()
    groups: tuple[GroupActivation, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """``text`` goes into the prompt (None: the declaration stays as it is written), ``again`` to further places of it.

    ``hits`` are those that are injected; ``cut`` are hits that the budget of the request left no room for. ``gates``
    are the values of the notebooks of a gated form and ``gate`` their whole. ``why`` is for people, English.
    """

    declaration: Declaration
    outcome: Outcome
    text: str | None
    again: str = ""
    why: str = ""
    gates: tuple[GateValue, ...] = ()
    gate: GateValue | None = None
    retrieval: Retrieval | None = None
    retrieved: Retrieved | None = None
    hits: tuple[Hit, ...] = ()
    cut: tuple[Dropped, ...] = ()
    chain: ChainAnswer | None = None
    ai_memo: AiMemoAnswer | None = None
    from_cache: bool = False
    attached: tuple[Json, ...] = ()


async def guarded(declaration: Declaration, work: Coroutine[Any, Any, Answer], seconds: float) -> Answer:
    """The answer, or that there is none."""
    try:
        async with asyncio.timeout(seconds):
            return await work
    except TimeoutError:
        why = f"no answer within {seconds:g} s"
    except VcpError as error:  # the index is closed, a model is away: no fault of ours that needs a trace
        why = error.message
    except Exception as error:  # the turn's boundary: a fault of memory costs one declaration and never the turn
        log.exception("recall of %s failed", declaration.shown)
        return Answer(declaration, Outcome.FAILED, frames.RECALL_FAILED, why=f"{type(error).__name__}: {error}")
    log.warning("recall of %s failed: %s", declaration.shown, why)
    return Answer(declaration, Outcome.FAILED, frames.RECALL_FAILED, why=why)
