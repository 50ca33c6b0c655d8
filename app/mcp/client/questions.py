"""What MCP servers ask while their tools run: a word of a model, a person's answer, our folders (MCP-52, 57, 62; D75).

Answered by the client behind the call where it can, else by us. The same three callbacks serve requests of older
servers and the ``input_required`` answers of the newest revision, which the SDK's ``Client`` resolves in at most ten
rounds.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from mcp.client.session import ClientRequestContext, ElicitationFnT, ListRootsFnT, SamplingFnT
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    CreateMessageRequestParams,
    CreateMessageResult,
    CreateMessageResultWithTools,
    ElicitRequestFormParams,
    ElicitRequestParams,
    ElicitResult,
    ErrorData,
    ListRootsResult,
    Root,
    SamplingCapability,
    SamplingToolsCapability,
)
from pydantic import BaseModel, FileUrl, ValidationError

from app.errors import VcpError
from app.extend import CallContext, Caller, Door, Json, People, PersonQuestion, Question, ToolCall
from app.mcp.client.sampling import Sampling
from app.protocol.forms import read_form
from app.protocol.pages import page_fault

CALLERS_ROOTS = "client"
"""Among the roots of an entry: the folders of the client that called."""

MAX_ROOTS = 100
MAX_QUESTIONS_OF_A_CALL = 100
"""So often a server may ask while one call of ours runs, whose time stands still meanwhile."""

MAX_QUESTIONS_A_MINUTE = 60
"""So often a server may ask at all; further questions reach nobody."""

MINUTE = 60.0

_TOO_MANY = ErrorData(code=INVALID_REQUEST, message="Too many questions")

_log = logging.getLogger(__name__)


class AskingEntry(Protocol):
    """What is read of a server's entry in the file of servers.

    ``sampling`` is the operator's consent to questions to a model (D75; default off), ``sampling_model`` the model for
    them (empty: that of the settings). ``roots`` are folders that the server is told of: paths, relative ones to the
    home, and the word ``client`` for those of the client that called.
    """

    @property
    def name(self) -> str:
        """The server's name."""
        ...

    @property
    def sampling(self) -> bool:
        """Whether it may have a model answer."""
        ...

    @property
    def sampling_model(self) -> str:
        """The model that answers it."""
        ...

    @property
    def roots(self) -> Sequence[str]:
        """The folders that it is told of."""
        ...


@dataclass(eq=False, slots=True)
class Running:
    """A call of ours at the server. While ``open`` questions wait for an answer, the call's time must stand still.

    ``answered`` seconds have been spent on questions that are answered; ``asked`` is how many there were.
    """

    call: ToolCall
    context: CallContext
    open: int = 0
    answered: float = 0.0
    asked: int = 0


_CURRENT: ContextVar[Running | None] = ContextVar("mcp_call", default=None)
"""The call in whose context a question arrives; the SDK's HTTP transports hand the context of a request on."""


class Questions:
    """The callbacks of one connection to a server, for the SDK's ``Client``; one object for each connection.

    A callback that is None is not given to the SDK: then the capability is not declared, and the SDK refuses such
    questions with -32600. Every ``call_tool`` of the connection runs inside ``during``, and so do ``read_resource`` and
    ``get_prompt``; a connection is opened outside of it, since tasks keep the context in which they begin.

    ``people`` and ``seconds`` (how long a person is waited for) are asked at each use.
    """

    def __init__(
        self,
        entry: AskingEntry,
        *,
        home: Path,
        people: Callable[[], People],
        sampling: Sampling,
        seconds: Callable[[], float],
    ) -> None:
        self._server = entry.name
        self._entry = entry
        self._home = home
        self._people = people
        self._sampling = sampling
        self._seconds = seconds
        self._running: list[Running] = []
        self._times: deque[float] = deque()
        self.sampling_callback: SamplingFnT | None = self._sample if entry.sampling else None
        self.sampling_capabilities = SamplingCapability(tools=SamplingToolsCapability())
        self.elicitation_callback: ElicitationFnT | None = self._elicit
        self.list_roots_callback: ListRootsFnT | None = self._list_roots if entry.roots else None

    @contextmanager
    def during(self, call: ToolCall, context: CallContext) -> Iterator[Running]:
        """Questions that come while the block runs may belong to this call."""
        running = Running(call, context)
        self._running.append(running)
        token = _CURRENT.set(running)
        try:
            yield running
        finally:
            _CURRENT.reset(token)
            self._running.remove(running)

    def _current(self) -> Running | None:
        """The call that a question belongs to, as far as the transport tells; else the only one there is (MCP-62)."""
        current = _CURRENT.get()
        if current is not None and current in self._running:
            return current
        return self._running[0] if len(self._running) == 1 else None

    def _may_ask(self) -> bool:
        """Count one more question; False for one too many, with which a server only wins time or wears people out."""
        now = asyncio.get_running_loop().time()
        while self._times and self._times[0] <= now - MINUTE:
            self._times.popleft()
        current = self._current()
        meant = [current] if current is not None else self._running
        if len(self._times) >= MAX_QUESTIONS_A_MINUTE or any(one.asked >= MAX_QUESTIONS_OF_A_CALL for one in meant):
            _log.warning("MCP server %s asks too much: its question reaches nobody", self._server)
            return False
        self._times.append(now)
        for one in meant:
            one.asked += 1
        return True

    @contextmanager
    def _asked(self) -> Iterator[Running | None]:
        """The current call, whose time stands still meanwhile; of calls that may be meant it does for all."""
        current = self._current()
        waiting = [current] if current is not None else list(self._running)
        began = asyncio.get_running_loop().time()
        for one in waiting:
            one.open += 1
        try:
            yield current
        finally:
            for one in waiting:
                one.open -= 1
                one.answered += asyncio.get_running_loop().time() - began

    # ------------------------------------------------------------------ a word of a model

    async def _sample(
        self, context: ClientRequestContext, params: CreateMessageRequestParams
    ) -> CreateMessageResult | CreateMessageResultWithTools | ErrorData:
        if not self._may_ask():
            return _TOO_MANY
        kind = CreateMessageResultWithTools if params.tools else CreateMessageResult
        asked = _as_json(params)
        with self._asked() as current:
            answer = await self._from_caller(current, Question.SAMPLE, asked)
            if answer is None:
                depth = current.context.depth if current is not None else 0
                try:
                    async with asyncio.timeout(self._seconds()):
                        answer = await self._sampling(self._server, asked, self._entry.sampling_model, depth=depth + 1)
                except TimeoutError:
                    return ErrorData(code=INTERNAL_ERROR, message="The model did not answer in time")
                except VcpError as error:
                    _log.warning("sampling of MCP server %s is refused: %s", self._server, error.message)
                    code = INVALID_REQUEST if error.status < 500 else INTERNAL_ERROR
                    return ErrorData(code=code, message=error.message)
        return _read(kind, answer)

    # ------------------------------------------------------------------ a person's answer

    async def _elicit(self, context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult | ErrorData:
        schema: Mapping[str, Json] | None = None
        url = ""
        if isinstance(params, ElicitRequestFormParams):
            schema = params.requested_schema
            try:
                read_form(schema)
            except ValueError as error:
                return ErrorData(code=INVALID_PARAMS, message=f"requestedSchema: {error}")
        else:
            url = params.url
            if fault := page_fault(url):
                _log.warning("MCP server %s wants a person to visit a page that is refused: %s", self._server, fault)
                return ElicitResult(action="decline")
        if not self._may_ask():
            return ElicitResult(action="decline")
        with self._asked() as current:
            answer = await self._from_caller(current, Question.ELICIT, _as_json(params))
            if answer is not None:
                return _read(ElicitResult, answer)
            context_of_call = current.context if current is not None else CallContext("", Door.MCP)
            tool = current.call.tool if current is not None else ""
            question = PersonQuestion(self._server, params.message, context_of_call, schema, url, tool)
            said = await self._people().ask(question, self._seconds())
        content = None if said.content is None else dict(said.content)
        return _read(ElicitResult, {"action": said.action.value, "content": content})

    # ------------------------------------------------------------------ folders

    async def _list_roots(self, context: ClientRequestContext) -> ListRootsResult | ErrorData:
        if not self._may_ask():
            return _TOO_MANY
        roots: list[Root] = []
        for path in self._entry.roots[:MAX_ROOTS]:
            if path == CALLERS_ROOTS:
                with self._asked() as current:
                    answer = await self._from_caller(current, Question.ROOTS, {})
                if answer is not None:
                    told = _read(ListRootsResult, answer)
                    roots += told.roots[:MAX_ROOTS] if isinstance(told, ListRootsResult) else []
            else:
                roots.append(_root(self._home, path))
        return ListRootsResult(roots=roots)

    # ------------------------------------------------------------------ the client behind the call

    async def _from_caller(
        self, current: Running | None, question: Question, params: Mapping[str, Json]
    ) -> Mapping[str, Json] | None:
        """The calling client's answer; None when there is none, it cannot be asked, or it gives none."""
        caller: Caller | None = current.context.caller if current is not None else None
        if caller is None or not caller.can(question, params):
            return None
        try:
            async with asyncio.timeout(self._seconds()):
                return await caller.ask(question, params)
        except (VcpError, TimeoutError) as error:
            _log.info("the client did not answer %s of MCP server %s: %s", question.value, self._server, error)
            return None


Model = TypeVar("Model", bound=BaseModel)


def _root(home: Path, path: str) -> Root:
    folder = (home / Path(path).expanduser()).absolute()
    return Root(uri=FileUrl(folder.as_uri()), name=folder.name or None)


def _read(kind: type[Model], answer: Mapping[str, Json]) -> Model | ErrorData:
    try:
        return kind.model_validate(answer)
    except ValidationError:
        return ErrorData(code=INTERNAL_ERROR, message="The answer does not have the shape of the protocol")


def _as_json(params: BaseModel) -> dict[str, Json]:
    """Params for the next hop: progress tokens, tasks and other ``_meta`` are those of this one (MCP-60)."""
    asked: dict[str, Json] = params.model_dump(by_alias=True, mode="json", exclude_none=True)
    return {name: value for name, value in asked.items() if name not in ("_meta", "task")}
