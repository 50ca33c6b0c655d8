"""``/mcp`` as an OAuth resource before a real authorization server (mcp.md MCP-41, MCP-63, MCP-70, MCP-71, MCP-72)."""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import httpx2
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from mcp.client import Client
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

from app.web import mcp_oauth
from app.web.mcp_oauth import Resource, TokenCheck, metadata_addresses
from app.web.mcp_token_errors import ExpiredTokenError, IssuerError, ScopeError, WrongTokenError
from tests.server import ECHO, Running, run, running, write_plugin
from tests.waiting import until
from tests.web.authorization_server import EC, ED, RSA, AuthorizationServer, authorization_server, public
from tests.web.mcp_posts import BOTH, NOWHERE, initialize, modern, opened, post, request

RESOURCE = "https://vcp.example/mcp"
SMALL = rsa.generate_private_key(public_exponent=65537, key_size=1024)
OTHER = ec.generate_private_key(ec.SECP256R1())


class Clock:
    """Time that passes when a test says so."""

    def __init__(self) -> None:
        self.now = time.time()

    def __call__(self) -> float:
        return self.now


@asynccontextmanager
async def checking(**fields: Any) -> AsyncIterator[tuple[AuthorizationServer, TokenCheck, Resource, Clock]]:
    """A check of tokens, and who makes them."""
    clock = Clock()
    async with authorization_server(RESOURCE) as issuer, httpx.AsyncClient(trust_env=False) as http:
        resource = Resource(RESOURCE, issuer.issuer, **{"scopes": ("tools",), **fields})
        yield issuer, TokenCheck(http, clock, clock), resource, clock


def test_mcp_71_sound_tokens_of_all_kinds_of_signatures_tell_who_comes() -> None:
    async def main() -> None:
        async with checking() as (issuer, check, resource, _):
            tokens = (
                issuer.token(),
                issuer.token(RSA, "PS256"),
                issuer.token(EC, "ES256", "ec"),
                issuer.token(ED, "EdDSA", "ed"),
                issuer.token(EC, "ES256", None),  # the only key that fits
                issuer.token(aud=["https://other.example", RESOURCE + "/"]),
                issuer.token(scope=None, scp=["tools", "more"]),
                issuer.token(iss=issuer.issuer + "/"),
                issuer.token(nbf=int(time.time()) + 20, exp=int(time.time()) - 20),  # clocks are never quite equal
            )
            for token in tokens:
                principal = await check.principal(token, resource)
                assert (principal.client, principal.subject) == ("client", "person")
            assert issuer.asked == ["metadata", "keys"]  # asked once for all of them

    run(main())


def by_hand(issuer: AuthorizationServer, algorithm: str, sign: Callable[[bytes], bytes], kid: str = "rsa") -> str:
    """A token as no library makes it."""
    parts = ({"alg": algorithm, "kid": kid}, issuer.claims())
    signed = b".".join(encoded(json.dumps(part).encode()) for part in parts)
    return (signed + b"." + encoded(sign(signed))).decode()


def encoded(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def confused(issuer: AuthorizationServer) -> str:
    """Signed with the public key as if it were a secret."""
    secret = RSA.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return by_hand(issuer, "HS256", lambda signed: hmac.digest(secret, signed, "sha256"))


FAULTS: dict[str, Any] = {
    "nothing": lambda issuer: "",
    "blanks": lambda issuer: "   ",
    "no ASCII": lambda issuer: "é.é.é",
    "too long": lambda issuer: issuer.token(more="x" * 20_000),
    "no signature": lambda issuer: by_hand(issuer, "none", lambda signed: b""),
    "a signature with the public key": confused,
    "a key that the server never had": lambda issuer: issuer.token(OTHER, "ES256", "ec"),
    "a key of another kind": lambda issuer: issuer.token(EC, "ES256", "rsa"),
    "a cut signature": lambda issuer: issuer.token()[:-8],
    "claims of another": lambda issuer: ".".join(
        (issuer.token().split(".")[0], issuer.token(sub="boss").split(".")[1], issuer.token().split(".")[2])
    ),
    "another issuer": lambda issuer: issuer.token(iss="https://evil.example"),
    "no issuer": lambda issuer: issuer.token(iss=None),
    "another audience": lambda issuer: issuer.token(aud="https://other.example/mcp"),
    "a longer audience": lambda issuer: issuer.token(aud=RESOURCE + "/more"),
    "no audience": lambda issuer: issuer.token(aud=None),
    "no end": lambda issuer: issuer.token(exp=None),
    "an end that is no number": lambda issuer: issuer.token(exp="2099"),
    "not yet": lambda issuer: issuer.token(nbf=int(time.time()) + 5000),
    "made in the future": lambda issuer: issuer.token(iat=int(time.time()) + 5000),
    "a weak key": lambda issuer: by_hand(
        issuer, "RS256", lambda signed: SMALL.sign(signed, PKCS1v15(), SHA256()), "small"
    ),
    "a key for something else": lambda issuer: issuer.token(EC, "ES256", "enc"),
    "a shared secret": lambda issuer: jwt.encode(issuer.claims(), b"s" * 32, "HS256", headers={"kid": "oct"}),
}


def test_mcp_71_a_token_with_any_fault_lets_nobody_in() -> None:
    """Signature, kind of signature, issuer, audience and times are all checked; ``alg: none`` is nothing."""

    async def main() -> None:
        async with checking() as (issuer, check, resource, clock):
            secret = base64.urlsafe_b64encode(b"s" * 32).decode().rstrip("=")
            issuer.keys += [
                public(SMALL, "small"),
                public(EC, "enc", use="enc"),
                {"kty": "oct", "k": secret, "kid": "oct"},
                {"kty": "RSA", "kid": "broken"},
                "nonsense",
            ]
            for name, made in FAULTS.items():
                clock.now += 60  # unknown keys are asked for again
                with pytest.raises(WrongTokenError) as fault:
                    await check.principal(made(issuer), resource)
                assert not isinstance(fault.value, ExpiredTokenError), name
                assert "person" not in fault.value.why + fault.value.message
            with pytest.raises(ExpiredTokenError):
                await check.principal(issuer.token(exp=int(clock.now) - 100), resource)
            with pytest.raises(ScopeError):
                await check.principal(issuer.token(scope="other tools2"), resource)

    run(main())


def test_mcp_71_keys_are_kept_and_asked_for_anew_when_an_unknown_one_comes_but_not_without_end() -> None:
    async def main() -> None:
        async with checking() as (issuer, check, resource, clock):
            await check.principal(issuer.token(), resource)
            issuer.keys = [public(OTHER, "new")]
            clock.now += 40
            principal = await check.principal(issuer.token(OTHER, "ES256", "new"), resource)
            assert principal.subject == "person"
            assert issuer.asked == ["metadata", "keys", "keys"]
            for _ in range(20):
                with pytest.raises(WrongTokenError):
                    await check.principal(issuer.token(RSA, "RS256", "unknown"), resource)
            assert issuer.asked == ["metadata", "keys", "keys"]
            with pytest.raises(WrongTokenError):
                await check.principal(issuer.token(), resource)  # its key was taken back
            clock.now += 700
            await check.principal(issuer.token(OTHER, "ES256", "new", exp=int(clock.now) + 60), resource)
            assert issuer.asked[3:] == ["metadata", "keys"]

    run(main())


def test_mcp_71_words_that_are_no_jwt_are_asked_about_and_believed_for_a_short_while() -> None:
    async def main() -> None:
        async with checking(client="me", secret="secret") as (issuer, check, resource, clock):
            good = {"active": True, **issuer.claims()}
            issuer.introspected = {
                "good": good,
                "late": {**good, "exp": int(clock.now) - 100},
                "elsewhere": {**good, "aud": "https://other.example"},
                "nowhere": {name: value for name, value in good.items() if name != "aud"},
                "stranger": {**good, "iss": "https://evil.example"},
                "narrow": {**good, "scope": ""},
                "almost": {**good, "active": "true"},
            }
            for _ in range(3):
                principal = await check.principal("good", resource)
            assert (principal.client, principal.subject, principal.issuer) == ("client", "person", issuer.issuer)
            assert issuer.asked.count("introspect") == 1
            assert issuer.credentials == ["Basic " + base64.b64encode(b"me:secret").decode()]
            for word, fault in (
                ("late", ExpiredTokenError),
                ("elsewhere", WrongTokenError),
                ("nowhere", WrongTokenError),
                ("stranger", WrongTokenError),
                ("almost", WrongTokenError),
                ("unknown", WrongTokenError),
                ("narrow", ScopeError),
            ):
                with pytest.raises(fault):
                    await check.principal(word, resource)
            del issuer.introspected["good"]
            clock.now += 31
            with pytest.raises(WrongTokenError):
                await check.principal("good", resource)

    run(main())


def test_an_authorization_server_that_cannot_be_asked_is_no_fault_of_the_token() -> None:
    async def main() -> None:
        async with checking() as (issuer, check, resource, clock):
            issuer.status = 500
            with pytest.raises(IssuerError):
                await check.principal(issuer.token(), resource)
            asked = len(issuer.asked)
            with pytest.raises(IssuerError):
                await check.principal(issuer.token(), resource)
            assert len(issuer.asked) == asked  # it is left in peace for a while
            issuer.status = 200
            clock.now += 31
            assert (await check.principal(issuer.token(), resource)).subject == "person"
            other = Resource(RESOURCE, issuer.issuer + "/tenant", ())
            with pytest.raises(IssuerError):
                await check.principal(issuer.token(), other)

    run(main())


def test_a_flood_of_words_asks_the_authorization_server_a_few_questions_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever has no key can send any number of them, and the answers may be slow."""
    monkeypatch.setattr(mcp_oauth, "MAX_WAITING", 40)
    asking: list[int] = []
    running = 0
    go = asyncio.Event()

    async def slow(request: httpx.Request) -> httpx.Response:
        nonlocal running
        running += 1
        asking.append(running)
        await go.wait()
        running -= 1
        return httpx.Response(200, json={"active": False})

    async def main() -> None:
        resource = Resource(RESOURCE, "https://issuer.example", (), introspection="https://issuer.example/introspect")
        async with httpx.AsyncClient(transport=httpx.MockTransport(slow)) as http:
            check = TokenCheck(http, Clock(), Clock())
            flood = [asyncio.create_task(check.principal(f"word-{number}", resource)) for number in range(60)]
            await until(lambda: len(asking) == mcp_oauth.MAX_ASKING)
            await until(lambda: sum(task.done() for task in flood) == 20)
            go.set()
            faults = await asyncio.gather(*flood, return_exceptions=True)
        assert max(asking) == mcp_oauth.MAX_ASKING
        assert [type(fault) for fault in faults] == [WrongTokenError] * 40 + [IssuerError] * 20

    run(main())


def test_metadata_is_looked_for_in_the_order_of_the_rfcs() -> None:
    assert metadata_addresses("https://as.example/t") == (
        "https://as.example/.well-known/oauth-authorization-server/t",
        "https://as.example/.well-known/openid-configuration/t",
        "https://as.example/t/.well-known/openid-configuration",
    )
    assert len(metadata_addresses("https://as.example/")) == 2


@asynccontextmanager
async def protected(home: Path, *config: str) -> AsyncIterator[tuple[Running, AuthorizationServer, httpx.AsyncClient]]:
    """A server before an issuer, and a client without the key."""
    async with authorization_server() as issuer:
        lines = [f"MCPOAuthIssuer={issuer.issuer}", "MCPOAuthScopes=tools", *config]
        async with (
            running(home, NOWHERE, config=lines) as server,
            httpx.AsyncClient(base_url=server.url, trust_env=False) as client,
        ):
            issuer.resource = f"{server.url}/mcp"
            yield server, issuer, client


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def test_mcp_70_metadata_and_challenges_lead_a_client_to_the_authorization_server(tmp_path: Path) -> None:
    async def main() -> None:
        async with protected(tmp_path) as (server, issuer, client):
            well_known = f"{server.url}/.well-known/oauth-protected-resource"
            for address in (well_known, f"{well_known}/mcp"):
                told = await client.get(address)
                assert told.status_code == 200
                assert told.json() == {
                    "resource": f"{server.url}/mcp",
                    "authorization_servers": [issuer.issuer],
                    "bearer_methods_supported": ["header"],
                    "resource_name": "vcp-server",
                    "scopes_supported": ["tools"],
                }
            refused = await post(client, initialize())
            assert refused.status_code == 401
            expected = f'Bearer resource_metadata="{well_known}/mcp", scope="tools"'
            assert refused.headers["www-authenticate"] == expected
            wrong = await post(client, initialize(), **bearer("x.y.z"))
            assert wrong.status_code == 401
            assert wrong.headers["www-authenticate"].startswith('Bearer error="invalid_token", resource_metadata=')
            narrow = await post(client, initialize(), **bearer(issuer.token(scope="admin")))
            assert narrow.status_code == 403
            assert narrow.headers["www-authenticate"].startswith('Bearer error="insufficient_scope", ')
            assert 'scope="tools"' in narrow.headers["www-authenticate"]
            asked = await client.post(f"/mcp?access_token={issuer.token()}", json=initialize())
            assert asked.status_code == 401  # MCP-71: in the header only
            assert (await post(client, initialize(), **bearer(issuer.token()))).status_code == 200
            assert (await post(server.client, initialize())).status_code == 200  # the key goes on working
            assert (await client.get("/v1/models", headers=bearer(issuer.token()))).status_code == 401

    run(main())


def test_mcp_41_a_session_belongs_to_who_opened_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with protected(tmp_path) as (server, issuer, client):
            mine = bearer(issuer.token())
            first = await post(client, initialize(), **mine)
            session = {"mcp_session_id": first.headers["mcp-session-id"]}
            ping = request("ping", id=3)
            assert (await post(client, ping, **mine, **session)).status_code == 200
            assert (await post(client, ping, **bearer(issuer.token(jti="renewed")), **session)).status_code == 200
            for other in (issuer.token(sub="somebody"), issuer.token(client_id="another")):
                assert (await post(client, ping, **bearer(other), **session)).status_code == 404
                stolen = {"accept": BOTH, "mcp-session-id": first.headers["mcp-session-id"], **bearer(other)}
                for method in ("DELETE", "GET"):
                    assert (await client.request(method, "/mcp", headers=stolen, timeout=10)).status_code == 404
            assert (await post(server.client, ping, **session)).status_code == 404
            keyed = await opened(server)
            assert (await post(client, ping, **mine, mcp_session_id=keyed.id)).status_code == 404

    run(main())


class Memory:
    """Where the SDK's client keeps what it was given."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


SHOWS_ENVIRONMENT = """
import json, os, sys
sys.stdin.read()
print(json.dumps({"status": "success", "result": "\\n".join(os.environ.values())}))
"""


@pytest.mark.parametrize("opaque", [False, True])
def test_mcp_72_the_sdk_client_signs_in_by_itself_and_its_token_goes_no_further(tmp_path: Path, opaque: bool) -> None:
    """From the 401 over discovery, registration and PKCE to a call; MCP-63: the tool sees nothing of the token."""

    async def main() -> None:
        write_plugin(tmp_path, "Echo", ECHO)
        write_plugin(tmp_path, "Environment", SHOWS_ENVIRONMENT)
        async with protected(tmp_path) as (server, issuer, _):
            issuer.opaque = opaque
            answers: asyncio.Queue[str] = asyncio.Queue()

            async def visit(address: str) -> None:
                async with httpx.AsyncClient(trust_env=False) as browser:
                    answers.put_nowait((await browser.get(address)).headers["location"])

            async def come_back() -> AuthorizationCodeResult:
                said = parse_qs(urlsplit(await answers.get()).query)
                return AuthorizationCodeResult(code=said["code"][0], state=said["state"][0], iss=said["iss"][0])

            metadata = OAuthClientMetadata(redirect_uris=[AnyUrl("http://localhost:1/callback")], client_name="test")
            memory = Memory()
            provider = OAuthClientProvider(f"{server.url}/mcp", metadata, memory, visit, come_back)
            async with (
                httpx2.AsyncClient(auth=provider, trust_env=False) as http,
                Client(streamable_http_client(f"{server.url}/mcp", http_client=http)) as client,
            ):
                assert (await client.call_tool("Echo", {"text": "x"})).content[0].text == "x"
                assert memory.tokens is not None
                environment = (await client.call_tool("Environment", {})).content[0].text
                assert memory.tokens.access_token not in environment
            assert ("introspect" in issuer.asked) == opaque

    run(main())


def test_expired_tokens_of_honest_clients_block_nobody_and_forged_ones_do_once_each(tmp_path: Path) -> None:
    async def main() -> None:
        async with protected(tmp_path, "TrustedProxies=127.0.0.1") as (_, issuer, client):
            old = issuer.token(exp=int(time.time()) - 100)

            async def status(token: str, address: str) -> int:
                headers = {**bearer(token), "x-forwarded-for": address}
                return (await client.get("/mcp", headers=headers)).status_code

            shown = [(old, "203.0.113.8"), ("same", "203.0.113.9")] * 25
            shown += [(f"forged-{number}", "203.0.113.10") for number in range(20)]
            assert set(await asyncio.gather(*(status(*one) for one in shown))) == {401}
            assert await status(old, "203.0.113.8") == await status("same", "203.0.113.9") == 401
            assert await status(issuer.token(), "203.0.113.10") == 403

    run(main())


def test_the_public_address_of_the_settings_is_the_audience_and_a_name_that_is_allowed(tmp_path: Path) -> None:
    async def main() -> None:
        async with protected(tmp_path, f"MCPOAuthResource={RESOURCE}") as (_, issuer, client):
            named = {"host": "vcp.example"}
            call = modern("tools/list")
            headers = {"mcp_protocol_version": "2026-07-28", "mcp_method": "tools/list", **named}
            assert (await post(client, call, **headers, **bearer(issuer.token(aud=RESOURCE)))).status_code == 200
            here = await post(client, call, **headers, **bearer(issuer.token()))
            assert here.status_code == 401
            address = "https://vcp.example/.well-known/oauth-protected-resource/mcp"
            assert f'resource_metadata="{address}"' in here.headers["www-authenticate"]

    run(main())
