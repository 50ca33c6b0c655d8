"""A small authorization server, made of the SDK's parts, whose person always says yes (mcp.md MCP-72).

Its tokens are JWTs; with ``opaque`` they are words that only it understands, and can be asked about (RFC 7662).
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.routes import build_metadata, create_auth_routes
from mcp.server.auth.settings import ClientRegistrationOptions, RevocationOptions
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyHttpUrl
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from app.web.server import serve

LIFETIME = 7200
SCOPES = ["tools", "admin"]

Private = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey

RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC = ec.generate_private_key(ec.SECP256R1())
ED = ed25519.Ed25519PrivateKey.generate()


def public(key: Private, name: str | None, **more: Any) -> dict[str, Any]:
    """The public key as it stands in the server's list."""
    kinds: dict[type, Any] = {
        rsa.RSAPrivateKey: jwt.algorithms.RSAAlgorithm,
        ec.EllipticCurvePrivateKey: jwt.algorithms.ECAlgorithm,
        ed25519.Ed25519PrivateKey: jwt.algorithms.OKPAlgorithm,
    }
    algorithm = next(algorithm for kind, algorithm in kinds.items() if isinstance(key, kind))
    written: dict[str, Any] = json.loads(algorithm.to_jwk(key.public_key()))
    return {**written, **({} if name is None else {"kid": name}), **more}


class AuthorizationServer:
    """The provider of the SDK's routes, its keys, and what was asked of it."""

    def __init__(self, resource: str = "") -> None:
        self.issuer = ""
        self.resource = resource
        self.keys: list[dict[str, Any]] = [public(RSA, "rsa"), public(EC, "ec"), public(ED, "ed")]
        self.opaque = False
        self.scopes: list[str] | None = None
        self.asked: list[str] = []
        self.status = 200
        self.introspected: dict[str, dict[str, Any]] = {}
        self.credentials: list[str | None] = []
        self._clients: dict[str, OAuthClientInformationFull] = {}
        self._codes: dict[str, AuthorizationCode] = {}

    # ------------------------------------------------------------------ tokens

    def claims(self, **other: Any) -> dict[str, Any]:
        now = int(time.time())
        said = {
            "iss": self.issuer,
            "aud": self.resource,
            "sub": "person",
            "client_id": "client",
            "scope": "tools",
            "iat": now,
            "exp": now + LIFETIME,
            **other,
        }
        return {name: value for name, value in said.items() if value is not None}

    def token(self, key: Private = RSA, algorithm: str = "RS256", kid: str | None = "rsa", **claims: Any) -> str:
        """A token; a claim of None is left out."""
        return jwt.encode(self.claims(**claims), key, algorithm, headers={} if kid is None else {"kid": kid})

    # ------------------------------------------------------------------ what the SDK asks its provider for

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self._clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        assert client_info.client_id is not None
        self._clients[client_info.client_id] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        assert client.client_id is not None
        code = secrets.token_hex(20)
        self._codes[code] = AuthorizationCode(
            code=code,
            client_id=client.client_id,
            scopes=params.scopes or [],
            expires_at=time.time() + 60,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
            subject="person",
        )
        return construct_redirect_uri(str(params.redirect_uri), code=code, state=params.state, iss=self.issuer)

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        return self._codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        del self._codes[authorization_code.code]
        scopes = " ".join(authorization_code.scopes if self.scopes is None else self.scopes)
        said = {"client_id": client.client_id, "scope": scopes, "aud": authorization_code.resource}
        token = self.token(**said)
        if self.opaque:
            token = secrets.token_hex(20)
            self.introspected[token] = {"active": True, **self.claims(**said)}
        return OAuthToken(access_token=token, expires_in=LIFETIME, scope=scopes)

    async def load_refresh_token(self, client: OAuthClientInformationFull, refresh_token: str) -> RefreshToken | None:
        return None

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        raise AssertionError("no refresh token was given out")

    async def load_access_token(self, token: str) -> AccessToken | None:
        return None

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        self.introspected.pop(token.token, None)

    # ------------------------------------------------------------------ routes

    def app(self) -> Starlette:
        """The application, made when the address is known: the issuer is part of its documents."""
        registration = ClientRegistrationOptions(enabled=True, valid_scopes=SCOPES, default_scopes=SCOPES)
        issuer = AnyHttpUrl(self.issuer)

        async def metadata(_request: Request) -> Response:
            self.asked.append("metadata")
            built = build_metadata(issuer, None, registration, RevocationOptions())
            document = {**built.model_dump(mode="json", exclude_none=True), "issuer": self.issuer}
            if not self.opaque:
                document["jwks_uri"] = f"{self.issuer}/keys"
            document["introspection_endpoint"] = f"{self.issuer}/introspect"
            return JSONResponse(document, self.status)

        async def keys(_request: Request) -> Response:
            self.asked.append("keys")
            return JSONResponse({"keys": self.keys}, self.status)

        async def introspect(request: Request) -> Response:
            self.asked.append("introspect")
            self.credentials.append(request.headers.get("authorization"))
            form = await request.form()
            return JSONResponse(self.introspected.get(str(form["token"]), {"active": False}), self.status)

        made = create_auth_routes(self, issuer, client_registration_options=registration)
        others = [route for route in made if "well-known" not in route.path]
        return Starlette(
            routes=[
                Route("/.well-known/oauth-authorization-server", metadata),
                Route("/keys", keys),
                Route("/introspect", introspect, methods=["POST"]),
                *others,
            ]
        )


@asynccontextmanager
async def authorization_server(resource: str = "") -> AsyncIterator[AuthorizationServer]:
    """One that runs."""
    server = AuthorizationServer(resource)
    app: Starlette | None = None

    async def late(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            assert app is not None
            await app(scope, receive, send)
            return
        while True:
            message = await receive()
            await send({"type": f"{message['type']}.complete"})
            if message["type"] == "lifespan.shutdown":
                return

    async with serve(late) as url:
        server.issuer = url
        app = server.app()
        yield server
