"""The clients behind calls: those with a session are asked by requests, the others by parking the call (MCP-30)."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, get_args

from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types import LOG_LEVEL_META_KEY, LoggingLevel, LoggingMessageNotificationParams
from pydantic import ValidationError

from app.errors import BadRequestError, both
from app.extend import Json, Question
from app.mcp.server.progress import Context, Teller
from app.mcp.server.questions import (
    CallerError,
    Validate,
    answer_type,
    as_json,
    as_request,
    can_answer,
    for_session,
    read_answer,
    wanted_capability,
)
from app.protocol.half_characters import whole
from app.protocol.json_text import compact_json
from app.protocol.tool_values import clean

LEVELS: tuple[str, ...] = get_args(LoggingLevel)
"""The levels of log lines, from the least to the most severe."""

DEFAULT_LEVEL = "info"
"""What a session is told before it said what it wants to be told."""

MAX_QUESTIONS = 100
"""Most questions of one call."""

KEY_CHARS = 200
"""Most characters of the name of a question."""

_LOGGER_CHARS = 200


class Told:
    """What both kinds of callers have: lines for the client's log. ``level`` is the least that it wants, or None."""

    def __init__(self, teller: Teller, level: Callable[[], str | None]) -> None:
        self._teller = teller
        self._level = level
        self._loop = asyncio.get_running_loop()

    def log(self, level: str, data: Json, logger: str = "") -> None:
        """See ``Caller.log``; may be called from any thread.

        Raises ValueError or TypeError for a level that is none and for data that is no JSON.
        """
        if level not in LEVELS:
            raise ValueError(f"{level!r} is none of the levels {', '.join(LEVELS)}")
        severity = LEVELS.index(level)
        data = clean(data)
        compact_json(data, strict=True)
        try:
            here = asyncio.get_running_loop() is self._loop
        except RuntimeError:
            here = False
        if here:
            self._line(severity, data, logger)
        else:
            self._loop.call_soon_threadsafe(self._line, severity, data, logger)

    def _line(self, severity: int, data: Json, logger: str) -> None:
        least = self._level()
        if least is not None and severity >= LEVELS.index(least):
            level: Any = LEVELS[severity]
            named = whole(logger[:_LOGGER_CHARS]) or None
            self._teller.line(LoggingMessageNotificationParams(level=level, data=data, logger=named))


class SessionCaller(Told):
    """A client with a session: it is sent requests, on the stream of its call."""

    def __init__(
        self,
        context: Context,
        teller: Teller,
        seconds: Callable[[], float],
        level: Callable[[], str | None],
        validate: Validate,
    ) -> None:
        super().__init__(teller, level)
        self._context = context
        self._seconds = seconds
        self._validate = validate
        self._asked = 0

    def can(self, question: Question, params: Mapping[str, Json]) -> bool:
        """See ``Caller.can``."""
        session = self._context.session
        return session.can_send_request and can_answer(
            session.client_capabilities, self._context.protocol_version, question, params
        )

    async def ask(self, question: Question, params: Mapping[str, Json], *, key: str = "") -> Mapping[str, Json]:
        """See ``Caller.ask``; requests have ids of their own, so ``key`` is of no use here."""
        params = for_session(question, params, self._context.protocol_version)
        request = as_request(question, params)
        if not self.can(question, params):
            raise cannot(question)
        self._asked += 1
        if self._asked > MAX_QUESTIONS:
            raise too_many()
        seconds = self._seconds()
        try:
            async with asyncio.timeout(seconds):
                answer = await self._context.session.send_request(
                    request,
                    answer_type(question, params),
                    metadata=ServerMessageMetadata(related_request_id=self._context.request_id),
                )
        except TimeoutError:
            raise unanswered(question, seconds) from None
        except MCPError as error:
            raise refused(question, error.error.message) from error
        except ValidationError as error:
            raise refused(question, "no answer of the protocol") from error
        try:
            return read_answer(question, params, as_json(answer), self._validate)
        except BadRequestError as error:
            raise refused(question, error.message) from error


@dataclass(slots=True)
class Asked:
    """A question that waits for the client to come back."""

    question: Question
    params: Mapping[str, Json]
    written: Mapping[str, Json]
    answer: asyncio.Future[Mapping[str, Json]]


class ReturningCaller(Told):
    """A client without a session: its call ends with what is asked, and it comes back with the answers.

    ``news`` is called when there is another question. ``open`` are those that wait for an answer, ``missing`` is what
    could not be asked for want of a capability. ``context`` is that of the client's newest request.
    A question that a tool has named may have been answered with the call itself.
    """

    def __init__(
        self,
        context: Context,
        teller: Teller,
        seconds: Callable[[], float],
        news: Callable[[], None],
        validate: Validate,
    ) -> None:
        super().__init__(teller, self._wanted_level)
        self.context = context
        self.open: dict[str, Asked] = {}
        self.missing: dict[str, Json] | None = None
        self._seconds = seconds
        self._news = news
        self._validate = validate
        sent = (context.params or {}).get("inputResponses")
        self._sent = dict(sent) if isinstance(sent, Mapping) else {}
        self._count = 0

    def _wanted_level(self) -> str | None:
        wanted = dict(self.context.meta or {}).get(LOG_LEVEL_META_KEY)
        return wanted if isinstance(wanted, str) and wanted in LEVELS else None

    def can(self, question: Question, params: Mapping[str, Json]) -> bool:
        """See ``Caller.can``."""
        return can_answer(self.context.session.client_capabilities, self.context.protocol_version, question, params)

    async def ask(self, question: Question, params: Mapping[str, Json], *, key: str = "") -> Mapping[str, Json]:
        """See ``Caller.ask``."""
        request = as_request(question, params)
        if not self.can(question, params):
            self.missing = wanted_capability(question, params)
            raise cannot(question)
        self._count += 1
        if self._count > MAX_QUESTIONS:
            raise too_many()
        answer = self._sent_before(question, params, key)
        if answer is not None:
            return answer
        key = self._free(whole(key[:KEY_CHARS]))
        asked = Asked(question, params, as_json(request), asyncio.get_running_loop().create_future())
        self.open[key] = asked
        self._news()
        seconds = self._seconds()
        try:
            async with asyncio.timeout(seconds):
                return await asked.answer
        except TimeoutError:
            raise unanswered(question, seconds) from None
        finally:
            self.open.pop(key, None)

    def _sent_before(self, question: Question, params: Mapping[str, Json], key: str) -> Mapping[str, Json] | None:
        """The answer that came with the call itself, once; None when there is none, or it is none to this question."""
        if not key or key not in self._sent:
            return None
        try:
            return read_answer(question, params, self._sent.pop(key), self._validate)
        except BadRequestError:
            return None  # so it is asked

    def _free(self, key: str) -> str:
        """A key that no open question has."""
        if key and key not in self.open:
            return key
        numbers = itertools.count(self._count)
        wanted = f"{key}-" if key else "question-"
        return next(name for name in (f"{wanted}{number}" for number in numbers) if name not in self.open)


def cannot(question: Question) -> CallerError:
    """The client did not say that it answers such questions."""
    return CallerError(
        both(f"客户端未声明支持 {question.value}", f"the client did not say that it answers {question.value}")
    )


def too_many() -> CallerError:
    """One call asks without end."""
    return CallerError(
        both(f"一次调用最多提问 {MAX_QUESTIONS} 次", f"one call may ask {MAX_QUESTIONS} questions at most")
    )


def unanswered(question: Question, seconds: float) -> CallerError:
    """Nobody answered in time."""
    return CallerError(
        both(
            f"客户端在 {seconds:g} 秒内没有回答 {question.value}",
            f"the client did not answer {question.value} within {seconds:g} s",
        )
    )


def refused(question: Question, why: str) -> CallerError:
    """The client answered with an error, or is gone."""
    said = " ".join(why.split())[:200]
    return CallerError(
        both(f"客户端没有回答 {question.value}：{said}", f"the client did not answer {question.value}: {said}")
    )
