"""``/mcp`` as an OAuth resource: its metadata, who a token lets in (mcp.md MCP-70, MCP-71; RFC 9728, 8414, 7662)."""

from __future__ import annotations

import asyncio
import hashlib
import importlib
import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import httpx
import orjson

from app.config.settings import Settings
from app.extend import Clock, Json
from app.mcp.server.principal import Principal
from app.web.mcp_token_errors import IssuerError, ScopeError, WrongTokenError

if TYPE_CHECKING:
    from jwt import PyJWK

log = logging.getLogger(__name__)

WELL_KNOWN = "/.well-known/oauth-protected-resource"

TOKEN_CHARS = 16 * 1024
DOCUMENT_BYTES = 1024 * 1024
REQUEST_SECONDS = 10.0
"""Longest token, largest answer of the authorization server, and longest wait for it."""

KEYS_SECONDS = 600.0
"""How long keys and metadata of the authorization server are taken for what they were."""

AGAIN_SECONDS = 30.0
"""Shortest pause between two questions for the same document, whatever tokens come."""

MAX_ASKING = 16
MAX_WAITING = 500
"""Questions about tokens at a time, and tokens that wait for their turn: whoever has no key may send any number."""

CHECKED_SECONDS = 30.0
CHECKED_TOKENS = 1000
"""How long, and for how many tokens, the authorization server is not asked about one again."""


@dataclass(frozen=True, slots=True)
class Resource:
    """What tokens are for: the public address of ``/mcp``, who makes them, what they must allow."""

    address: str
    issuer: str
    scopes: tuple[str, ...]
    introspection: str = ""
    client: str = ""
    secret: str = ""

    @property
    def metadata_address(self) -> str:
        """Where the metadata is, as clients derive it from the address (RFC 9728, section 3.1)."""
        parts = urlsplit(self.address)
        return f"{parts.scheme}://{parts.netloc}{WELL_KNOWN}{parts.path.rstrip('/')}"

    def metadata(self) -> dict[str, Json]:
        """The document that says who makes tokens for this resource."""
        document: dict[str, Json] = {
            "resource": self.address,
            "authorization_servers": [self.issuer],
            "bearer_methods_supported": ["header"],
            "resource_name": "vcp-server",
        }
        if self.scopes:
            document["scopes_supported"] = list(self.scopes)
        return document

    def challenge(self, error: str = "") -> str:
        """The value of ``WWW-Authenticate`` for who is not let in."""
        said = {"error": error, "resource_metadata": self.metadata_address, "scope": " ".join(self.scopes)}
        return "Bearer " + ", ".join(f'{name}="{value}"' for name, value in said.items() if value)


def resource_of(settings: Settings, own_address: str) -> Resource | None:
    """The resource of these settings; None while no ``MCPOAuthIssuer`` is set. ``own_address`` has no path."""
    if not settings.mcp_oauth_issuer:
        return None
    return Resource(
        settings.mcp_oauth_resource or f"{own_address}/mcp",
        settings.mcp_oauth_issuer,
        settings.mcp_oauth_scopes,
        settings.mcp_oauth_introspection,
        settings.mcp_oauth_client,
        settings.mcp_oauth_secret,
    )


@dataclass(frozen=True, slots=True)
class _Checked:
    said: Mapping[str, Json]
    until: float


class TokenCheck:
    """Says who a token belongs to. ``clock`` is that of the world, ``timer`` a steady one; both in seconds."""

    def __init__(self, http: httpx.AsyncClient, clock: Clock, timer: Callable[[], float]) -> None:
        self._http = http
        self._clock = clock
        self._timer = timer
        self._documents: OrderedDict[str, tuple[float, Mapping[str, Json]]] = OrderedDict()
        self._asked: OrderedDict[str, float] = OrderedDict()
        self._lock = asyncio.Lock()
        self._asking = asyncio.Semaphore(MAX_ASKING)
        self._waiting = 0
        self._checked: OrderedDict[bytes, _Checked] = OrderedDict()

    async def principal(self, token: str, resource: Resource) -> Principal:
        """Whose token this is. Raises WrongTokenError, ExpiredTokenError, ScopeError, IssuerError."""
        if not token or len(token) > TOKEN_CHARS or not token.isascii():
            raise WrongTokenError(why="it is no token")
        await asyncio.to_thread(importlib.import_module, "app.web.mcp_tokens")  # late, for it takes its time
        from app.web import mcp_tokens

        if mcp_tokens.is_jwt(token) and (address := await self._keys_address(resource)) is not None:
            said = mcp_tokens.claims(
                token,
                await self._key(token, address),
                issuers=_spellings(resource.issuer),
                audiences=_spellings(resource.address),
                now=self._clock(),
            )
        else:
            said = await self._introspected(token, resource)
            mcp_tokens.check_times(said, self._clock())
        missing = set(resource.scopes) - _scopes(said)
        if missing:
            raise ScopeError(" ".join(resource.scopes))
        client = said.get("client_id") or said.get("azp") or ""
        subject = said.get("sub")
        return Principal(str(client), str(subject) if subject is not None else None, resource.issuer)

    async def _keys_address(self, resource: Resource) -> str | None:
        address = (await self._metadata(resource)).get("jwks_uri")
        return address if isinstance(address, str) else None

    async def _key(self, token: str, address: str) -> PyJWK:
        from app.web.mcp_tokens import Keys

        found = Keys(await self._document(address)).find(token)
        if found is None:  # the keys may have been changed
            found = Keys(await self._document(address, anew=True)).find(token)
        if found is None:
            raise WrongTokenError(why="the authorization server has no such key")
        return found

    async def _metadata(self, resource: Resource) -> Mapping[str, Json]:
        for address in metadata_addresses(resource.issuer):
            try:
                document = await self._document(address)
            except IssuerError:
                continue
            if str(document.get("issuer", "")).rstrip("/") == resource.issuer.rstrip("/"):
                return document
            log.error("%s is the metadata of another issuer", _shown(address))
        raise IssuerError

    async def _introspected(self, token: str, resource: Resource) -> Mapping[str, Json]:
        """What the authorization server says of a token (RFC 7662); for a short while what it said before."""
        digest = hashlib.sha256(f"{resource.issuer}\0{resource.address}\0{token}".encode()).digest()
        known = self._checked.get(digest)
        if known is not None and known.until > self._timer():
            return known.said
        address = resource.introspection or (await self._metadata(resource)).get("introspection_endpoint")
        if not isinstance(address, str):
            raise WrongTokenError(why="it is no JWT, and nobody is there to ask about others")
        if self._waiting >= MAX_WAITING:
            raise IssuerError
        self._waiting += 1
        try:
            async with self._asking:
                said = await self._fetched(
                    "POST",
                    address,
                    data={"token": token, "token_type_hint": "access_token"},
                    auth=httpx.BasicAuth(resource.client, resource.secret) if resource.client else None,
                )
        finally:
            self._waiting -= 1
        if said.get("active") is not True:
            raise WrongTokenError(why="it is not active")
        issuer = said.get("iss")
        if issuer is not None and str(issuer).rstrip("/") != resource.issuer.rstrip("/"):
            raise WrongTokenError(why="it is of another issuer")
        audience = said.get("aud")
        named = audience if isinstance(audience, list) else [audience]
        if not any(name in _spellings(resource.address) for name in named):
            raise WrongTokenError(why="it is for another resource")
        self._checked[digest] = _Checked(said, self._timer() + CHECKED_SECONDS)
        self._checked.move_to_end(digest)
        while len(self._checked) > CHECKED_TOKENS:
            self._checked.popitem(last=False)
        return said

    async def _document(self, address: str, *, anew: bool = False) -> Mapping[str, Json]:
        """A document of the authorization server, at most ``KEYS_SECONDS`` old, younger than any if ``anew``.

        Nobody makes us ask more often than each ``AGAIN_SECONDS``; until then what is known holds. Raises IssuerError.
        """
        known = self._documents.get(address)
        if known is not None and not anew and self._timer() - known[0] < KEYS_SECONDS:
            return known[1]
        async with self._lock:
            now = self._timer()
            known = self._documents.get(address)
            fresh = known is not None and now - known[0] < KEYS_SECONDS
            asked = self._asked.get(address)
            may_ask = asked is None or now - asked >= AGAIN_SECONDS
            if known is not None and (not may_ask or (fresh and not anew)):
                return known[1]
            if not may_ask:
                raise IssuerError
            self._asked[address] = now
            while len(self._asked) > CHECKED_TOKENS:
                self._asked.popitem(last=False)
            document = await self._fetched("GET", address)
            self._documents[address] = now, document
            while len(self._documents) > CHECKED_TOKENS:
                self._documents.popitem(last=False)
            return document

    async def _fetched(
        self,
        method: str,
        address: str,
        data: Mapping[str, str] | None = None,
        auth: httpx.Auth | None = None,
    ) -> Mapping[str, Json]:
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                request = self._http.stream(
                    method, address, data=data, auth=auth, headers={"Accept": "application/json"}
                )
                async with request as response:
                    parts: list[bytes] = []
                    size = 0
                    async for part in response.aiter_bytes():
                        size += len(part)
                        if size > DOCUMENT_BYTES:
                            raise ValueError("the answer is too large")
                        parts.append(part)
                    if response.status_code != 200:
                        raise ValueError(f"status {response.status_code}")
            document = orjson.loads(b"".join(parts))
            if not isinstance(document, dict):
                raise ValueError("the answer is no JSON object")
            return document
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError, ValueError) as error:
            log.warning("%s %s gave no answer about tokens: %s", method, _shown(address), type(error).__name__)
            raise IssuerError from error


def metadata_addresses(issuer: str) -> Sequence[str]:
    """Where the metadata of an authorization server may be, in this order (mcp.md MCP-73)."""
    parts = urlsplit(issuer)
    origin, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    found = (
        f"{origin}/.well-known/oauth-authorization-server{path}",
        f"{origin}/.well-known/openid-configuration{path}",
        f"{origin}{path}/.well-known/openid-configuration",
    )
    return tuple(dict.fromkeys(found))


def _spellings(address: str) -> tuple[str, str]:
    return address.rstrip("/"), address.rstrip("/") + "/"


def _scopes(said: Mapping[str, Json]) -> set[str]:
    found: set[str] = set()
    for name in ("scope", "scp"):
        value = said.get(name)
        if isinstance(value, str):
            found.update(value.split())
        elif isinstance(value, list):
            found.update(entry for entry in value if isinstance(entry, str))
    return found


def _shown(address: str) -> str:
    """An address without anything that could be a secret."""
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.hostname or ''}{parts.path}"
