"""An MCP server that lets nobody in without a token, and its authorization server, out of the SDK's parts."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import uvicorn
from mcp.server.auth.handlers.authorize import AuthorizationHandler
from mcp.server.auth.handlers.register import RegistrationHandler
from mcp.server.auth.handlers.token import TokenHandler
from mcp.server.auth.middleware.client_auth import ClientAuthenticator
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    OAuthAuthorizationServerProvider,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.settings import ClientRegistrationOptions
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from app.mcp.client.oauth.sign_ins import SignIns
from app.mcp.client.server_entry import OAuthEntry, ServerEntry, ServerKind

PROTECTED = "/.well-known/oauth-protected-resource"
SERVER = "/.well-known/oauth-authorization-server"
OPENID = "/.well-known/openid-configuration"
PATIENCE = 30.0
"""Seconds; no test waits so long, but a busy machine may stand still for more than the five that are usual."""


@dataclass
class Asked:
    """A request as it came."""

    method: str
    path: str
    headers: Mapping[str, str]
    query: Mapping[str, str]
    form: Mapping[str, str]


class Accounts(OAuthAuthorizationServerProvider[AuthorizationCode, RefreshToken, AccessToken]):
    """Clients, codes and tokens in memory; whoever asks is let in at once."""

    def __init__(self) -> None:
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.access: dict[str, AccessToken] = {}
        self.refresh: dict[str, RefreshToken] = {}
        self.expires_in = 3600
        self.more: dict[str, str] = {}

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        code = f"secret-code-{secrets.token_hex(8)}"
        self.codes[code] = AuthorizationCode(
            code=code,
            scopes=params.scopes or [],
            expires_at=time.time() + 300,
            client_id=client.client_id,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        return construct_redirect_uri(str(params.redirect_uri), code=code, state=params.state, **self.more)

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        del self.codes[authorization_code.code]
        return self._tokens(client, authorization_code.scopes)

    async def load_refresh_token(self, client: OAuthClientInformationFull, refresh_token: str) -> RefreshToken | None:
        return self.refresh.get(refresh_token)

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        del self.refresh[refresh_token.token]  # each is good for once
        return self._tokens(client, scopes)

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self.access.get(token)

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        self.access.pop(token.token, None)

    def _tokens(self, client: OAuthClientInformationFull, scopes: list[str]) -> OAuthToken:
        access, refresh = f"secret-access-{secrets.token_hex(8)}", f"secret-refresh-{secrets.token_hex(8)}"
        self.access[access] = AccessToken(token=access, client_id=client.client_id, scopes=scopes)
        self.refresh[refresh] = RefreshToken(token=refresh, client_id=client.client_id, scopes=scopes)
        return OAuthToken(
            access_token=access, expires_in=self.expires_in, refresh_token=refresh, scope=" ".join(scopes) or None
        )


Answer = Callable[[Asked], Response | None]


@dataclass
class Realm:
    """Both servers on one port. Tests change what the documents say and what is answered."""

    url: str = ""
    accounts: Accounts = field(default_factory=Accounts)
    asked: list[Asked] = field(default_factory=list)
    protected: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    issuer: str = ""
    protected_at: tuple[str, ...] = (f"{PROTECTED}/mcp",)
    metadata_at: tuple[str, ...] = (SERVER,)
    challenge: str = "Bearer"
    scopes: list[str] = field(default_factory=list)
    first: Answer = lambda asked: None
    slow: asyncio.Event | None = None
    holds: Callable[[Asked], asyncio.Event | None] = lambda asked: None

    @property
    def server_url(self) -> str:
        return f"{self.url}/mcp"

    def entry(self, name: str = "s", *, oauth: OAuthEntry | None = None, **more: Any) -> ServerEntry:
        return ServerEntry(name, ServerKind.HTTP, url=self.server_url, oauth=oauth, **more)

    def paths(self, method: str | None = None) -> list[str]:
        return [one.path for one in self.asked if method in (None, one.method)]

    def of(self, path: str) -> list[Asked]:
        return [one for one in self.asked if one.path == path]

    async def answer(self, request: Request) -> Response:
        form = dict(await request.form()) if "form" in request.headers.get("content-type", "") else {}
        path = request.url.path.rstrip("/") or "/"
        asked = Asked(
            request.method,
            path,
            dict(request.headers),
            dict(request.query_params),
            {name: str(value) for name, value in form.items()},
        )
        self.asked.append(asked)
        held = self.holds(asked)
        if held is not None:
            await held.wait()
        answer = self.first(asked)
        if answer is not None:
            return answer
        if path == "/mcp":
            return await self._resource(asked)
        if path in self.protected_at:
            return JSONResponse(self._protected())
        if path in self.metadata_at:
            return JSONResponse(self._metadata())
        if path == "/authorize":
            return await AuthorizationHandler(self.accounts).handle(request)
        if path == "/token":
            return await TokenHandler(self.accounts, ClientAuthenticator(self.accounts)).handle(request)
        if path == "/register":
            options = ClientRegistrationOptions(enabled=True, valid_scopes=None)
            return await RegistrationHandler(self.accounts, options).handle(request)
        return Response(status_code=404)

    def _protected(self) -> Any:
        value = {"resource": self.server_url, "authorization_servers": [self.issuer or self.url], **self.protected}
        return {name: one for name, one in value.items() if one is not None}

    def _metadata(self) -> Any:
        value = {
            "issuer": self.issuer or self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "registration_endpoint": f"{self.url}/register",
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
            **self.metadata,
        }
        return {name: one for name, one in value.items() if one is not None}

    async def _resource(self, asked: Asked) -> Response:
        token = self.accounts.access.get(asked.headers.get("authorization", "").removeprefix("Bearer "))
        if token is None:
            return Response(status_code=401, headers={"WWW-Authenticate": self.challenge})
        if missing := set(self.scopes) - set(token.scopes):
            wanted = f'Bearer error="insufficient_scope", scope="{" ".join(sorted(missing))}"'
            return Response(status_code=403, headers={"WWW-Authenticate": wanted})
        if self.slow is not None and "x-slow" in asked.headers:
            await self.slow.wait()
        return JSONResponse({"jsonrpc": "2.0", "id": 1, "result": {}})


@asynccontextmanager
async def serving(app: Any) -> AsyncIterator[str]:
    """An ASGI application on a port of its own."""
    server = uvicorn.Server(
        uvicorn.Config(app, port=0, log_config=None, lifespan="off", interface="asgi3", timeout_graceful_shutdown=1)
    )
    task = asyncio.create_task(server.serve())
    try:
        while not server.started:
            await asyncio.sleep(0.001)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        await task


@asynccontextmanager
async def realm(**more: Any) -> AsyncIterator[Realm]:
    """Both servers, served."""
    made = Realm(**more)
    app = Starlette()
    app.add_route("/{path:path}", made.answer, methods=["GET", "POST", "DELETE"])
    async with serving(app) as url:
        made.url = url
        yield made


class Browser:
    """A person with a browser on this machine: visits what is shown, and goes where it is sent."""

    def __init__(self, change: Callable[[str], str] = lambda address: address) -> None:
        self.shown: list[str] = []
        self.ends: list[str] = []
        self.statuses: list[int] = []
        self._change = change
        self._tasks: set[asyncio.Task[None]] = set()

    def __call__(self, url: str) -> None:
        self.shown.append(url)
        task = asyncio.get_running_loop().create_task(self._visit(url))
        self._tasks.add(task)

    async def _visit(self, url: str) -> None:
        async with httpx2.AsyncClient(timeout=PATIENCE, trust_env=False, verify=False) as client:
            answer = await client.get(url)
            address = self._change(answer.headers.get("Location", ""))
            self.ends.append(address)
            if address:
                self.statuses.append((await client.get(address)).status_code)


def sign_ins(home: Path, **more: Any) -> SignIns:
    return SignIns(home, seconds=more.pop("seconds", PATIENCE), **more)


@asynccontextmanager
async def client(signing: SignIns, entry: ServerEntry) -> AsyncIterator[httpx2.AsyncClient]:
    """What the transport of an MCP connection uses."""
    auth = signing.auth(entry)
    async with httpx2.AsyncClient(
        auth=auth, base_url=entry.url, timeout=PATIENCE, trust_env=False, verify=False
    ) as made:
        yield made
