"""One connection to an MCP server, from the first word to the last (MCP-50, MCP-54, MCP-57, MCP-58)."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import anyio
import httpx2
import mcp_types as types
from mcp.client.auth import OAuthFlowError
from mcp.client.client import Client
from mcp.client.session import ClientRequestContext, ClientSession, IncomingMessage
from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, ConfigDict, ValidationError

from app import __version__
from app.errors import VcpError, both
from app.extend import Json
from app.mcp.client.around import Around
from app.mcp.client.environment import server_environment
from app.mcp.client.http_link import FRAME_EXTRA, HttpLink
from app.mcp.client.link import Link, cause, one_line
from app.mcp.client.server_entry import ServerEntry, ServerKind
from app.mcp.client.status import McpServerError, SessionLostError, SignInNeededError, Tool, ToolRefusedError
from app.mcp.client.stdio_link import StdioLink
from app.mcp.client.tap import Tap

MAX_PAGES = 100
MAX_TOOLS = 2_000
MAX_ROUNDS = 10
"""So often a server of the newest revision may want something before it gives a result (MCP-57)."""

CLOSE_SECONDS = 12.0
SETTLE_SECONDS = 0.3
LISTEN_SECONDS = 30.0
"""Pause before a lost stream of changes is opened again."""

CLIENT_NAME = "vcp-server-client"

_UNKNOWN_WHY = ("Server returned an error response", "Not Found")
"""What the SDK says when an HTTP answer was an error; the link knows more."""

_CLOSED = "Connection closed"
"""What the SDK says of a connection that has ended, when it knows no more; we say it in both languages."""

_FAULTS = (
    MCPError,
    VcpError,
    OAuthFlowError,
    httpx2.HTTPError,
    httpx2.StreamError,
    httpx2.InvalidURL,
    anyio.BrokenResourceError,
    anyio.ClosedResourceError,
    anyio.EndOfStream,
    OSError,
    RuntimeError,
    ValueError,
    LookupError,
    TypeError,
    ExceptionGroup,
)
"""What may come out of the SDK when a server, or what is between us, is not as it should be."""


@dataclass(frozen=True, slots=True)
class Way:
    """How a server is spoken to: ``old`` for HTTP+SSE, ``mode`` and ``discovered`` as the SDK wants them."""

    old: bool = False
    mode: str = "auto"
    discovered: types.DiscoverResult | None = None


class _Raw(BaseModel):
    """A result as it came; its fields are in ``model_extra``."""

    model_config = ConfigDict(extra="allow")


@dataclass(frozen=True, slots=True)
class Listing:
    """What a server lists; ``ttl`` are the seconds for which it says that this holds (0: it does not say)."""

    tools: tuple[Tool, ...]
    ttl: float = 0.0


class Connection:
    """Talks to one server through the SDK's client, which lives in a task of its own."""

    def __init__(self, entry: ServerEntry, around: Around, way: Way) -> None:
        self._entry = entry
        self._around = around
        self._way = way
        self.link: Link = self._made_link()
        self._questions = around.questions(entry) if around.questions is not None else None
        self._over = asyncio.Event()
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._scope = anyio.CancelScope()
        self._fault: BaseException | None = None
        self._task: asyncio.Task[None] | None = None
        self.closed = asyncio.Event()
        asked = self._questions
        self.client = Client(
            Tap(entry.name, lambda: self.is_modern).over(self.link.streams()),
            mode=way.mode,
            prior_discover=way.discovered,
            client_info=types.Implementation(name=CLIENT_NAME, version=__version__),
            sampling_callback=asked.sampling_callback if asked is not None else None,
            sampling_capabilities=asked.sampling_capabilities if asked is not None else None,
            elicitation_callback=asked.elicitation_callback if asked is not None else None,
            list_roots_callback=asked.list_roots_callback if asked is not None else None,
            logging_callback=self._logged,
            log_level="info",
            message_handler=self._told,
            input_required_max_rounds=MAX_ROUNDS,
            cache=None,
        )
        self._is_modern = way.mode in MODERN_PROTOCOL_VERSIONS

    @property
    def is_modern(self) -> bool:
        """Whether the server speaks a revision without sessions."""
        return self._is_modern

    @property
    def way(self) -> Way:
        """The way that worked, for the next time."""
        session = self.client.session
        if session.discover_result is not None:
            return Way(mode=self.client.protocol_version, discovered=session.discover_result)
        return Way(old=self._way.old, mode="legacy")

    @property
    def questions(self) -> Any:
        """The callbacks of this connection, None where nobody answers questions."""
        return self._questions

    def _made_link(self) -> Link:
        entry, around = self._entry, self._around
        limits = around.limits()
        if entry.kind is ServerKind.STDIO:
            return StdioLink(
                entry,
                around.home / entry.cwd,
                server_environment(entry, around.environ(), around.ours),
                frame_bytes=limits.result_bytes + FRAME_EXTRA,
                probe_seconds=around.probe_seconds,
                stop_seconds=around.stop_seconds,
            )
        return HttpLink(
            entry,
            old=self._way.old,
            frame_bytes=limits.result_bytes + FRAME_EXTRA,
            connect_seconds=entry.connect_seconds or limits.connect_seconds,
            auth=around.sign_in(entry) if around.sign_in is not None else None,
            probe_seconds=around.probe_seconds,
            certificates=around.certificates.context,
        )

    # --- the beginning and the end ---------------------------------------------------------------------------------

    async def opened(self) -> Connection:
        """Begin, and return when the server is ready. Raises McpServerError."""
        # An empty context: the connection outlives the call that needs it first, and knows nothing of it.
        self._task = asyncio.create_task(self._live(), context=contextvars.Context())
        try:
            await asyncio.shield(self._ready)
        except BaseException:
            await self.close()
            self._around.last_details = self.link.details()
            raise
        return self

    async def _live(self) -> None:
        try:
            with self._scope:
                async with self.client, anyio.create_task_group() as tasks:
                    self._is_modern = self.client.protocol_version in MODERN_PROTOCOL_VERSIONS
                    tasks.start_soon(self._watch)
                    if self._is_modern:
                        tasks.start_soon(self._listen)
                    if not self._ready.done():
                        self._ready.set_result(None)
                    await self._over.wait()
                    tasks.cancel_scope.cancel()
        except _FAULTS as error:
            self._fault = cause(error)
        finally:
            if not self._ready.done():
                self._ready.set_exception(self.failure(self._fault))
                self._ready.exception()  # whoever waits gets it; nobody may be waiting any more
            self.closed.set()

    async def _watch(self) -> None:
        await self.link.gone.wait()
        self._over.set()

    async def _listen(self) -> None:
        """Servers of now tell of changes only where somebody listens; those that cannot are left in peace."""
        capabilities = self.client.server_capabilities
        if not any(
            part is not None and part.list_changed
            for part in (capabilities.tools, capabilities.prompts, capabilities.resources)
        ):
            return
        while True:  # ends with the connection
            with contextlib.suppress(*_FAULTS):
                async with self.client.listen(
                    tools_list_changed=True, prompts_list_changed=True, resources_list_changed=True
                ) as changes:
                    async for _ in changes:
                        pass  # ``_told`` hears of it too
            await asyncio.sleep(LISTEN_SECONDS)
            self._around.told(self._entry.name, "tools")  # nobody repeats what happened meanwhile

    async def close(self) -> None:
        """End the connection and reap what belongs to it; bounded, and in full when this is cancelled."""
        self._over.set()
        if self._task is None:
            return
        if not self._ready.done():
            self._scope.cancel()
        cancelled: asyncio.CancelledError | None = None
        while not self._task.done():
            try:
                await asyncio.wait({self._task}, timeout=CLOSE_SECONDS)
                self._scope.cancel()
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            raise cancelled

    def failure(self, error: BaseException | None) -> McpServerError:
        """What went wrong, for people: what the transport knows of it, else the error itself."""
        details = self.link.details()
        link = self.link
        signing = link.error if isinstance(link, HttpLink) else None
        if isinstance(signing, VcpError) and signing.code == SignInNeededError.code:
            return SignInNeededError(one_line(signing.message), details)
        # A server of now refuses the probe in this way, and the ``initialize`` that the SDK then tries in another.
        if isinstance(link, HttpLink) and (link.status in (401, 403) or link.refused) and link.error is None:
            status = link.status if link.status in (401, 403) else 401
            return SignInNeededError(
                both(f"需要登录（HTTP {status}）", f"wants somebody to sign in (HTTP {status})"), details
            )
        told = link.trouble()
        if error is not None and not told:
            told = (str(error) if not isinstance(error, ValidationError) else _misfit(error)) or type(error).__name__
        told = link.clean(told) or both("连接已关闭", "the connection was closed")
        more = link.clean(f"{type(error).__name__}: {error}") if error is not None else ""
        return McpServerError(one_line(told), "\n".join(dict.fromkeys(part for part in (details, more) if part)))

    # --- what is asked ---------------------------------------------------------------------------------------------

    def _session(self) -> ClientSession:
        """The SDK's session. Raises SessionLostError when the connection has ended, so that nothing can be asked."""
        try:
            return self.client.session
        except RuntimeError:
            raise SessionLostError(self.failure(None).message) from None

    async def tools(self) -> Listing:
        """The tools that the server lists now (MCP-54). Raises McpServerError."""
        capabilities = self._session().server_capabilities
        if self._is_modern and capabilities is not None and capabilities.tools is None:
            return Listing(())
        tools: list[Tool] = []
        cursor: str | None = None
        seen: set[str] = set()
        ttl = 0.0
        try:
            for _ in range(MAX_PAGES):
                params = types.PaginatedRequestParams(cursor=cursor) if cursor is not None else None
                page = await self._session().list_tools(params=params)
                tools += (tool.model_dump(by_alias=True, mode="json", exclude_none=True) for tool in page.tools)
                ttl = (page.ttl_ms or 0) / 1000
                cursor = page.next_cursor
                if cursor is None or cursor in seen or len(tools) >= MAX_TOOLS:
                    break
                seen.add(cursor)
        except MCPError as error:
            if error.code == types.METHOD_NOT_FOUND:
                return Listing(())  # a server with prompts and resources only
            raise await self._refused(error) from error
        except ValidationError as error:
            raise McpServerError(_misfit(error), str(error)) from error
        return Listing(tuple(tools[:MAX_TOOLS]), ttl)

    async def call_tool(
        self, name: str, arguments: Mapping[str, Json], progress: ProgressFnT | None
    ) -> dict[str, Json]:
        """The result of ``tools/call`` as JSON. Raises McpServerError, SessionLostError, ToolRefusedError.

        Not the SDK's own ``call_tool``: that judges results by the tool's output schema in unbounded time.
        """
        try:
            result = await self._asked(name, arguments, progress, None, None)
            for _ in range(MAX_ROUNDS):
                if result.get("resultType", "complete") == "complete":
                    return result
                wanted = types.InputRequiredResult.model_validate(result, by_name=False)
                given = await self._given(wanted)
                result = await self._asked(name, arguments, progress, given, wanted.request_state)
            if result.get("resultType", "complete") == "complete":
                return result
        except MCPError as error:
            raise await self._refused(error) from error
        except ValidationError as error:
            raise McpServerError(_misfit(error), str(error)) from error
        raise McpServerError(
            both(f"在 {MAX_ROUNDS} 轮询问后仍无结果", f"gave no result after {MAX_ROUNDS} rounds of questions")
        )

    async def _asked(
        self,
        name: str,
        arguments: Mapping[str, Json],
        progress: ProgressFnT | None,
        responses: types.InputResponses | None,
        state: str | None,
    ) -> dict[str, Json]:
        params = types.CallToolRequestParams(
            name=name, arguments=dict(arguments), input_responses=responses, request_state=state
        )
        request = types.CallToolRequest(params=params)
        try:
            raw = await self._session().send_request(request, _Raw, progress_callback=progress)
        except MCPError as error:
            if error.code != types.HEADER_MISMATCH or not self._is_modern:
                raise
            await self._session().list_tools()  # the SDK learns from it which arguments are headers (MCP-56)
            raw = await self._session().send_request(request, _Raw, progress_callback=progress)
        return raw.model_extra or {}

    async def _given(self, wanted: types.InputRequiredResult) -> types.InputResponses | None:
        if not wanted.input_requests:
            await asyncio.sleep(0.1)
            return None
        session = self._session()
        responses: types.InputResponses = {}
        for key, request in wanted.input_requests.items():
            meta = request.params.meta if request.params else None
            context = ClientRequestContext(session=session, request_id=key, meta=meta)
            answer = await session.dispatch_input_request(context, request)
            if isinstance(answer, types.ErrorData):
                raise MCPError.from_error_data(answer)
            responses[key] = answer
        return responses

    async def _refused(self, error: MCPError) -> McpServerError:
        """What an error of the SDK means: the server's own word, or that it is not there."""
        link = self.link
        if link.session_lost:
            return SessionLostError(both("会话已失效", "the session was lost"))
        if error.code == types.CONNECTION_CLOSED:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(link.gone.wait(), SETTLE_SECONDS)
                await asyncio.wait_for(self.closed.wait(), CLOSE_SECONDS)  # then the exit code is known
            return self.failure(None if error.message == _CLOSED else error)
        if link.trouble() and error.message in (*_UNKNOWN_WHY, link.trouble()):
            return self.failure(error)
        if error.code == types.PARSE_ERROR:
            return ToolRefusedError(one_line(link.clean(error.message)))  # further lines hold parts of what came
        return ToolRefusedError(f"{link.clean(error.message)[:2000]} ({error.code})")

    # --- what the server tells -------------------------------------------------------------------------------------

    async def _told(self, message: IncomingMessage) -> None:
        match message:
            case types.ToolListChangedNotification():
                self._around.told(self._entry.name, "tools")
            case types.PromptListChangedNotification():
                self._around.told(self._entry.name, "prompts")
            case types.ResourceListChangedNotification():
                self._around.told(self._entry.name, "resources")

    async def _logged(self, params: types.LoggingMessageNotificationParams) -> None:
        self._around.logged(self._entry.name, params.level, params.data, params.logger or "")


def _misfit(error: ValidationError) -> str:
    """Where an answer does not fit the protocol; its values are not told."""
    first = error.errors(include_input=False, include_url=False, include_context=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    return both(f"回答不符合协议：{place}", f"its answer does not fit the protocol at {place}: {first['msg']}")[:400]
