"""OAuth for the requests to one MCP server: the SDK's flow, with our storage and within our rules (MCP-73 to MCP-79).

What the SDK does: discovery, registration, PKCE, the checks of issuers, the exchange. What is added here: tokens, their
expiry and the metadata outlive the process; a token is refreshed before it expires, by one process at a time, and
before anybody is bothered; requests do not wait for each other; S256 has to be announced; addresses from metadata are
checked; answers have a size; nothing of them gets into messages.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import httpx2
from mcp.client.auth import OAuthClientProvider
from mcp.client.auth.exceptions import OAuthFlowError
from mcp.client.auth.oauth2 import OAuthContext
from mcp.client.auth.utils import extract_field_from_www_auth, extract_scope_from_www_auth
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

from app.errors import both
from app.extend import Clock
from app.mcp.client.oauth.addresses import check_address
from app.mcp.client.oauth.answers import error_of, read_answer, said_of
from app.mcp.client.oauth.callback import Callback, Expected
from app.mcp.client.oauth.errors import SignInError, too_late
from app.mcp.client.oauth.kept import Kept
from app.mcp.client.oauth.registered import RegisteredClient, check_pkce
from app.mcp.client.oauth.store import MAX_CHALLENGE_CHARS, Credentials, OAuthStore

CLIENT_NAME = "vcp-server"
EARLY_SECONDS = 60.0
"""A token is refreshed so long before it expires."""

MAX_KNOWN_STEP_UPS = 100
MAX_STEP_UPS = 2
"""How often a person is asked for the same further scopes (MCP-77)."""
_log = logging.getLogger(__name__)


class _Context(OAuthContext):
    def should_include_resource_param(self, protocol_version: str | None = None) -> bool:
        return True  # MCP-74 wants it in all requests; whoever does not know it ignores it


class _Storage:
    """The SDK's ``TokenStorage`` over the credentials that the provider holds and writes."""

    def __init__(self, owner: SignedInAuth) -> None:
        self._owner = owner

    async def get_tokens(self) -> OAuthToken | None:
        return self._owner.credentials.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        await self._owner.keep(tokens=tokens)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self._owner.credentials.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        await self._owner.keep(client=client_info)


class SignedInAuth(OAuthClientProvider):
    """The ``httpx2.Auth`` of one server. Without ``browser`` nobody is asked.

    Then ``needed`` is told once a person has to sign in, with the server's challenge, and the transport gets the 401
    or 403 as it is. With it, this object runs the flow: ``show`` is given the address for the person. ``clock`` gives
    seconds since the epoch.
    """

    def __init__(
        self,
        server_url: str,
        registered: RegisteredClient,
        store: OAuthStore,
        *,
        clock: Clock,
        needed: Callable[[str], None] | None = None,
        browser: Callback | None = None,
        show: Callable[[str], None] | None = None,
        seconds: float = 300.0,
    ) -> None:
        self._redirect_uri = browser.redirect_uri if browser is not None else "http://127.0.0.1/oauth/callback"
        metadata = OAuthClientMetadata(
            client_name=CLIENT_NAME,
            redirect_uris=[AnyUrl(self._redirect_uri)],
            token_endpoint_auth_method="none",
            application_type="native",
        )
        storage = _Storage(self)
        super().__init__(
            server_url,
            metadata,
            storage,
            redirect_handler=self._show if browser is not None else None,
            callback_handler=self._answered if browser is not None else None,
            client_metadata_url=registered.metadata_url,
        )
        self.context = _Context(
            server_url=server_url,
            client_metadata=metadata,
            storage=storage,
            redirect_handler=self.context.redirect_handler,
            callback_handler=self.context.callback_handler,
            client_metadata_url=registered.metadata_url,
        )
        self._kept = Kept(store, server_url, self._adopt)
        self._in_flow = False
        self._server_url = server_url
        self._registered = registered
        self._clock = clock
        self._needed = needed
        self._browser = browser
        self._show_address = show
        self._seconds = seconds
        self._challenged = False
        self._step_ups: dict[str, int] = {}

    # ------------------------------------------------------------------ what is kept

    @property
    def credentials(self) -> Credentials:
        """What is known of the server now."""
        return self._kept.credentials

    async def keep(self, *, tokens: OAuthToken | None = None, client: OAuthClientInformationFull | None = None) -> None:
        """Write what the flow has found, or a refresh, which has its turn already."""

        def change(kept: Credentials) -> None:
            if client is not None:
                kept.client, kept.tokens, kept.expires_at = client, None, None
            if tokens is not None:
                kept.tokens, kept.challenge = tokens, ""
                kept.expires_at = None if tokens.expires_in is None else self._clock() + tokens.expires_in
                self._use_tokens(kept)  # while this waited, another request may have read those from before
            if self.context.oauth_metadata is not None:
                kept.metadata = self.context.oauth_metadata
            if self.context.protected_resource_metadata is not None:
                kept.resource = self.context.protected_resource_metadata
            metadata = self.context.oauth_metadata
            kept.issuer = str(metadata.issuer) if metadata is not None else self._expected_issuer()

        async with AsyncExitStack() as held:
            if self._in_flow:  # else a refresh in another process, begun before, would write its tokens over these
                await held.enter_async_context(self._kept.turn())
            await self._kept.change(change)

    def _use_tokens(self, kept: Credentials) -> None:
        self.context.current_tokens, self.context.token_expiry_time = kept.tokens, kept.expires_at

    def _adopt(self) -> None:
        kept, registered = self.credentials, self._registered
        given = registered.information(self._redirect_uri, kept.issuer)
        if given is not None:
            if kept.client is not None and kept.client.client_id != given.client_id:
                kept.tokens = kept.expires_at = None  # they belong to another client
            kept.client = given
        elif kept.client is not None and kept.client.client_id != registered.metadata_url and self._browser is not None:
            uris = [str(uri) for uri in kept.client.redirect_uris or ()]
            if self._redirect_uri not in uris:
                kept.client = None  # it was registered with another port
        context = self.context
        context.client_info = kept.client
        self._use_tokens(kept)
        context.oauth_metadata, context.protected_resource_metadata = kept.metadata, kept.resource
        if kept.resource is not None:
            context.auth_server_url = str(kept.resource.authorization_servers[0])
        self._initialized = True

    # ------------------------------------------------------------------ requests

    async def _auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Add the token to a request; refresh it, or get one, where that is needed.

        Other than the SDK's flow this holds nothing while a request is under way, so that a slow answer keeps no
        other request waiting, such as the one that cancels it.
        """
        await self._kept.load()
        if self._browser is not None and self.credentials.challenge:
            # The server wanted more scopes before; whatever is sent now may not need them.
            response = httpx2.Response(403, headers={"WWW-Authenticate": self.credentials.challenge}, request=request)
        else:
            if self._due() and self.context.can_refresh_token():
                async with self._one_at_a_time() as ours:
                    if ours and self._due() and (refresh := await self._refresh_request()) is not None:
                        await self._take_refreshed((yield refresh))
            used = self._token()
            self._add(request)
            response = yield request
            if response.status_code == 401 and used and (self.context.can_refresh_token() or self._token() != used):
                told = True
                async with self._one_at_a_time() as ours:
                    refresh = await self._refresh_request() if ours and self._token() == used else None
                    if refresh is not None:
                        told = await self._take_refreshed((yield refresh))
                self._add(request)
                response = yield request  # also where there is no new token: the transport gets the last answer
                if not told:
                    return  # nobody has to sign in for a fault on the way
        step_up = self._is_step_up(response)
        if response.status_code != 401 and not step_up:
            return
        if self._browser is None:
            await self._tell(response, step_up=step_up)
            return
        flow = self._flow(request, response)
        try:
            outgoing = await flow.__anext__()
            while True:
                outgoing = await flow.asend((yield outgoing))
        except StopAsyncIteration:
            return
        finally:
            await flow.aclose()

    async def _flow(
        self, request: httpx2.Request, refused: httpx2.Response
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """The SDK's flow with a person, after the server has ``refused`` the request; raises SignInError."""
        flow = super()._auth_flow(request)
        self._in_flow = True
        self.context.token_expiry_time = None  # what was to be refreshed is
        scopes = extract_scope_from_www_auth(refused)
        self._challenged = scopes is not None
        if self._registered.is_less_than(self.context.client_info, scopes or ""):
            self.context.client_info = None
        try:
            await anext(flow)  # the request, which has been sent
            outgoing = await flow.asend(refused)
            while True:
                if outgoing is not request:
                    await self._check(outgoing)
                answer = yield outgoing
                if outgoing is not request:
                    await self._take(outgoing, answer)
                outgoing = await flow.asend(answer)
        except StopAsyncIteration:
            return
        except OAuthFlowError as error:
            raise SignInError(said_of(error)) from None
        finally:
            self._in_flow = False
            await flow.aclose()

    def _token(self) -> str:
        return self.context.current_tokens.access_token if self.context.current_tokens is not None else ""

    def _add(self, request: httpx2.Request) -> None:
        request.headers.pop("Authorization", None)
        if self._token():
            self._add_auth_header(request)

    def _due(self) -> bool:
        """Whether the token has expired, or is about to."""
        expires_at = self.context.token_expiry_time
        return bool(self._token()) and expires_at is not None and self._clock() >= expires_at - EARLY_SECONDS

    def _is_step_up(self, response: httpx2.Response) -> bool:
        """Whether the server wants more scopes than the token has, and a person was not asked for them too often."""
        if response.status_code != 403 or extract_field_from_www_auth(response, "error") != "insufficient_scope":
            return False
        return self._step_ups.get(extract_scope_from_www_auth(response) or "", 0) < MAX_STEP_UPS

    async def _tell(self, response: httpx2.Response, *, step_up: bool) -> None:
        """Leave it to a person to sign in."""
        challenge = response.headers.get("WWW-Authenticate", "")[:MAX_CHALLENGE_CHARS]
        if step_up:
            scopes = extract_scope_from_www_auth(response) or ""
            self._step_ups[scopes] = self._step_ups.pop(scopes, 0) + 1
            while len(self._step_ups) > MAX_KNOWN_STEP_UPS:
                self._step_ups.pop(next(iter(self._step_ups)))

            def change(kept: Credentials) -> None:
                kept.challenge = challenge

            async with self._one_at_a_time() as ours:
                if ours:  # else tokens that another process gets right now would be lost for it
                    await self._kept.change(change)
        if self._needed is not None:
            self._needed(challenge)

    # ------------------------------------------------------------------ refreshing

    @asynccontextmanager
    async def _one_at_a_time(self) -> AsyncIterator[bool]:
        """One refresh at a time, over all processes (MCP-78); who comes second finds the new token.

        False when it is not our turn for too long: then the old token has to do.
        """
        async with self._kept.turn() as ours:
            await self._kept.load()
            yield ours

    async def _refresh_request(self) -> httpx2.Request | None:
        """The request for new tokens; None when there is no refresh token or the address may not be asked."""
        if not self.context.can_refresh_token():
            return None
        request = await self._refresh_token()
        try:
            await self._check(request)
        except SignInError as error:
            _log.warning("a token of an MCP server is not refreshed: %s", error.message)
            return None
        return request

    async def _take_refreshed(self, answer: httpx2.Response) -> bool:
        """Take over new tokens. A refusal ends the old ones; a fault on the way does not, and gives False."""
        try:
            await read_answer(answer)
        except SignInError as error:
            _log.warning("a token of an MCP server is not refreshed: %s", error.message)
            return False
        if answer.status_code >= 500 or answer.status_code == 429:
            _log.warning("a token of an MCP server is not refreshed: status %d", answer.status_code)
            return False
        if not await self._handle_refresh_response(answer):
            await self._kept.change(self._end_tokens)
        return True

    def _end_tokens(self, kept: Credentials) -> None:
        kept.tokens = kept.expires_at = None
        self._use_tokens(kept)

    # ------------------------------------------------------------------ the rules of a flow

    async def _check(self, request: httpx2.Request) -> None:
        """Before a request of the flow is sent: where to, and whether it may be (MCP-75, MCP-76, MCP-79)."""
        await check_address(str(request.url), self._server_url)
        request.headers["Accept-Encoding"] = "identity"  # so that the limit of the answer is one
        if request.method == "POST" and self.context.client_info is None:
            check_pkce(self.context.oauth_metadata)
            self._registered.check_registration(
                self.context.oauth_metadata, issuer=self.credentials.issuer, redirect_uri=self._redirect_uri
            )

    async def _take(self, request: httpx2.Request, answer: httpx2.Response) -> None:
        """Read an answer of the flow within its limit; a refusal is told by its code and nothing else of it."""
        await read_answer(answer)
        if request.method != "POST" or answer.status_code in (200, 201):
            return
        what = (
            both("注册", "registration") if self.context.client_info is None else both("换取令牌", "the token request")
        )
        raise SignInError(
            both("授权服务器拒绝了", "the authorization server refused ")
            + f"{what}: {answer.status_code} {error_of(answer)}"
        )

    async def _perform_authorization_code_grant(self) -> tuple[str, str]:
        metadata, client = self.context.oauth_metadata, self.context.client_info
        check_pkce(metadata)
        if self._registered.scopes and not self._challenged:
            self.context.client_metadata.scope = self._registered.scopes
        methods = metadata.token_endpoint_auth_methods_supported if metadata is not None else None
        if client is not None and client.client_secret and methods and "client_secret_basic" not in methods:
            client.token_endpoint_auth_method = "client_secret_post"
        return await super()._perform_authorization_code_grant()

    async def _show(self, address: str) -> None:
        await check_address(address, self._server_url)
        assert self._browser is not None
        metadata = self.context.oauth_metadata
        state = httpx2.URL(address).params.get("state", "")
        announced = metadata is not None and bool(metadata.authorization_response_iss_parameter_supported)
        self._browser.expect(Expected(state, str(metadata.issuer) if metadata is not None else "", announced))
        if self._show_address is not None:
            self._show_address(address)

    async def _answered(self) -> AuthorizationCodeResult:
        assert self._browser is not None
        try:
            async with asyncio.timeout(self._seconds):
                return await self._browser.answer()
        except TimeoutError:
            raise too_late() from None
