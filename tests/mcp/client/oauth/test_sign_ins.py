"""Signing in to MCP servers, against an authorization server of the SDK's parts (MCP-73 to MCP-79; mcp.md 2.6)."""

from __future__ import annotations

import asyncio
import json
import logging
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.shared.auth import OAuthClientInformationFull
from pydantic import AnyUrl
from starlette.responses import JSONResponse, Response

from app.mcp.client.oauth.errors import SignInError
from app.mcp.client.oauth.sign_ins import SignIns
from app.mcp.client.oauth.store import OAUTH_FOLDER
from app.mcp.client.server_entry import OAuthEntry, ServerEntry, ServerKind
from tests.mcp.client.oauth.realm import (
    OPENID,
    PATIENCE,
    PROTECTED,
    SERVER,
    Asked,
    Browser,
    Realm,
    client,
    realm,
    sign_ins,
)
from tests.waiting import until


def with_realm(test: Callable[[Realm], Awaitable[None]], **more: Any) -> None:
    async def main() -> None:
        async with realm(**more) as made:
            await test(made)

    asyncio.run(main())


def records(home: Path) -> list[Path]:
    return sorted((home / OAUTH_FOLDER).glob("*.*.json"))


async def signed_in(home: Path, made: Realm, **more: Any) -> SignIns:
    signing = sign_ins(home)
    assert await signing.sign_in(made.entry(**more), Browser())
    return signing


async def refused(home: Path, made: Realm, browser: Browser | None = None, **more: Any) -> str:
    with pytest.raises(SignInError) as raised:
        await sign_ins(home).sign_in(made.entry(**more), browser or Browser())
    return raised.value.message


# ---------------------------------------------------------------------- the whole way


def test_a_person_signs_in_once_and_requests_have_the_token_after_a_restart_too(tmp_path: Path) -> None:
    async def test(made: Realm) -> None:
        browser, signing = Browser(), sign_ins(tmp_path)
        told: list[str] = []
        signing.signed_in(told.append)
        async with client(signing, made.entry()) as before:
            assert (await before.post("", json={})).status_code == 401
            assert signing.needed("s") is not None
            assert await signing.sign_in(made.entry(), browser)
            assert (await before.post("", json={})).status_code == 200
        assert signing.needed("s") is None and told == ["s"]
        async with client(sign_ins(tmp_path), made.entry()) as later:
            assert (await later.post("", json={})).status_code == 200
        assert not await sign_ins(tmp_path).sign_in(made.entry(), browser)
        assert len(browser.shown) == 1 and browser.statuses == [200]

    with_realm(test)


def test_pkce_state_and_resource_are_in_the_requests(tmp_path: Path) -> None:
    """MCP-74, MCP-75."""

    async def test(made: Realm) -> None:
        await signed_in(tmp_path, made)
        (authorized,), (exchanged,) = made.of("/authorize"), made.of("/token")
        assert authorized.query["code_challenge_method"] == "S256" and len(authorized.query["code_challenge"]) == 43
        assert len(authorized.query["state"]) >= 32
        assert authorized.query["resource"] == exchanged.form["resource"] == made.server_url
        assert authorized.query["redirect_uri"].startswith("http://127.0.0.1:")
        assert authorized.query["redirect_uri"].endswith("/oauth/callback")

    with_realm(test)


def test_files_are_for_the_owner_alone_and_named_by_digests(tmp_path: Path) -> None:
    """MCP-78; mcp.md 2.6: SHA-256 of the canonical address and of the issuer."""

    async def test(made: Realm) -> None:
        await signed_in(tmp_path, made)
        (record,) = records(tmp_path)
        server, issuer, _json = record.name.split(".")
        assert len(server) == len(issuer) == 64
        folder = tmp_path / OAUTH_FOLDER
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        files = [path for path in folder.rglob("*") if path.is_file()]
        assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
        assert not (folder / "pending.json").exists()

    with_realm(test)


def test_no_secret_is_in_the_log_or_in_what_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    async def test(made: Realm) -> None:
        oauth = OAuthEntry("known", "client-secret-value")
        made.accounts.clients["known"] = OAuthClientInformationFull(
            client_id="known",
            client_secret="client-secret-value",
            token_endpoint_auth_method="client_secret_basic",
            redirect_uris=[AnyUrl("http://127.0.0.1/x")],
        )
        made.accounts.expires_in = 1
        await _allow_any_port(made)
        signing = await signed_in(tmp_path, made, oauth=oauth)
        async with client(signing, made.entry(oauth=oauth)) as used:
            assert (await used.post("", json={})).status_code == 200
        made.first = lambda asked: _echo(asked) if asked.path == "/token" else None
        made.accounts.access.clear()
        async with client(sign_ins(tmp_path), made.entry(oauth=oauth)) as used:
            await used.post("", json={})
        made.accounts.refresh.clear()
        message = await refused(tmp_path, made, oauth=oauth)
        entry = made.entry(oauth=oauth)
        ours = [one.getMessage() + str(one.exc_info) for one in caplog.records if one.name.startswith(("app", "mcp"))]
        assert ours
        for text in (*ours, message, repr(entry), repr(signing), str(signing.needed("s"))):
            assert "secret" not in text

    with_realm(test)


def _echo(asked: Asked) -> Response:
    """An authorization server that says all it knows."""
    return JSONResponse(
        {"error": "invalid_grant", "error_description": json.dumps(asked.form), "x": dict(asked.form)}, 400
    )


async def _allow_any_port(made: Realm) -> None:
    """A registered client whose redirect address may have any port (RFC 8252)."""
    known = made.accounts.clients["known"]

    class AnyPort(OAuthClientInformationFull):
        def validate_redirect_uri(self, redirect_uri: AnyUrl | None) -> AnyUrl:
            assert redirect_uri is not None
            return redirect_uri

    made.accounts.clients["known"] = AnyPort.model_validate(known.model_dump(exclude_none=True))


# ---------------------------------------------------------------------- discovery


def test_the_address_in_the_challenge_is_asked_first(tmp_path: Path) -> None:
    """MCP-73."""

    async def test(made: Realm) -> None:
        made.protected_at = ("/elsewhere",)
        made.challenge = f'Bearer resource_metadata="{made.url}/elsewhere"'
        await signed_in(tmp_path, made)
        assert made.paths("GET")[:2] == ["/elsewhere", SERVER]

    with_realm(test)


def test_without_one_the_well_known_path_is_asked_and_then_the_root(tmp_path: Path) -> None:
    """MCP-73."""

    async def test(made: Realm) -> None:
        made.protected_at = (PROTECTED,)
        await signed_in(tmp_path, made)
        assert made.paths("GET")[:3] == [f"{PROTECTED}/mcp", PROTECTED, SERVER]

    with_realm(test)


@pytest.mark.parametrize("found_at", [0, 1, 2])
def test_metadata_of_an_issuer_with_a_path_is_looked_for_in_three_places(tmp_path: Path, found_at: int) -> None:
    """MCP-73: OAuth with the path inserted, OpenID inserted, OpenID appended."""
    places = (f"{SERVER}/tenant", f"{OPENID}/tenant", f"/tenant{OPENID}")

    async def test(made: Realm) -> None:
        made.issuer = f"{made.url}/tenant"
        made.metadata_at = (places[found_at],)
        await signed_in(tmp_path, made)
        assert made.paths("GET")[1 : 2 + found_at] == list(places[: found_at + 1])

    with_realm(test)


def test_a_server_of_2025_03_26_has_its_endpoints_at_its_origin(tmp_path: Path) -> None:
    """MCP-73: no metadata at all."""

    async def test(made: Realm) -> None:
        made.protected_at = made.metadata_at = ()
        await signed_in(tmp_path, made)
        assert made.paths("GET") == [f"{PROTECTED}/mcp", PROTECTED, SERVER, "/authorize"]
        assert made.paths("POST") == ["/mcp", "/register", "/token", "/mcp"]
        assert made.of("/token")[0].form["resource"] == made.server_url

    with_realm(test)


def test_metadata_of_another_issuer_is_refused(tmp_path: Path) -> None:
    """MCP-73: the issuer in the document must be the one that was asked for."""

    async def test(made: Realm) -> None:
        made.metadata = {"issuer": "https://other.example"}
        assert "issuer mismatch" in await refused(tmp_path, made)
        assert "/register" not in made.paths()

    with_realm(test)


@pytest.mark.parametrize("resource", ["https://other.example/mcp", "{url}/mcp/deeper", "{url}/mc"])
def test_metadata_of_another_resource_stops_the_flow(tmp_path: Path, resource: str) -> None:
    """MCP-74."""

    async def test(made: Realm) -> None:
        made.protected = {"resource": resource.format(url=made.url)}
        assert "does not match" in await refused(tmp_path, made)
        assert made.paths("GET") == [f"{PROTECTED}/mcp"]

    with_realm(test)


# ---------------------------------------------------------------------- PKCE, state, issuer


@pytest.mark.parametrize("methods", [None, ["plain"]])
def test_without_s256_nothing_goes_on(tmp_path: Path, methods: Any) -> None:
    """MCP-75: refused before a client is registered or anybody is asked."""

    async def test(made: Realm) -> None:
        made.metadata = {"code_challenge_methods_supported": methods}
        browser = Browser()
        assert "S256" in await refused(tmp_path, made, browser)
        assert not browser.shown and "/register" not in made.paths()
        made.accounts.clients["known"] = OAuthClientInformationFull(client_id="known", redirect_uris=None)
        assert "S256" in await refused(tmp_path, made, browser, oauth=OAuthEntry("known"))
        assert not browser.shown

    with_realm(test)


def test_an_answer_with_another_state_changes_nothing(tmp_path: Path) -> None:
    """MCP-75: a page that the browser visits meanwhile cannot end the flow, nor complete it."""

    async def test(made: Realm) -> None:
        async def visits(url: str) -> None:
            redirect = httpx2.URL(url).params["redirect_uri"]
            async with httpx2.AsyncClient(timeout=PATIENCE, trust_env=False, verify=False) as foreign:
                for query in ("code=evil&state=guess", "code=evil", "error=access_denied", "error=x&state=guess"):
                    assert (await foreign.get(f"{redirect}?{query}")).status_code == 400
            browser(url)

        browser = Browser()
        tasks: list[asyncio.Task[None]] = []
        assert await sign_ins(tmp_path).sign_in(
            made.entry(), lambda url: tasks.append(asyncio.create_task(visits(url)))
        )
        assert [one.form["code"] for one in made.of("/token")] != ["evil"]

    with_realm(test)


@pytest.mark.parametrize(
    ("announced", "sent", "good"),
    [(True, "right", True), (True, None, False), (False, "https://evil.example", False), (False, "right/", False)],
)
def test_the_issuer_of_an_answer_is_checked(tmp_path: Path, announced: bool, sent: str | None, good: bool) -> None:
    """MCP-75, RFC 9207: required when announced; if present it must match exactly."""

    async def test(made: Realm) -> None:
        made.metadata = {"authorization_response_iss_parameter_supported": announced}
        if sent is not None:
            made.accounts.more = {"iss": sent.replace("right", made.url)}
        if good:
            await signed_in(tmp_path, made)
        else:
            assert "iss" in await refused(tmp_path, made)
            assert not made.of("/token")

    with_realm(test)


def test_a_refusal_of_the_authorization_server_is_told(tmp_path: Path) -> None:
    """MCP-75: error responses are checked too: this one has the right state."""

    async def test(made: Realm) -> None:
        denied = Browser(lambda address: address.replace("code=", "error=access_denied&x="))
        assert "access_denied" in await refused(tmp_path, made, denied)
        forged = Browser(lambda address: address.replace("code=", "error=x&iss=https%3A%2F%2Fevil.example&x="))
        assert "(iss)" in await refused(tmp_path, made, forged)
        odd = Browser(lambda address: address.replace("code=", "error=%3Cscript%3E&x="))
        assert "<script>" not in await refused(tmp_path, made, odd)

    with_realm(test)


# ---------------------------------------------------------------------- registration


def test_a_client_is_registered_as_a_native_one_and_kept(tmp_path: Path) -> None:
    """MCP-76."""

    async def test(made: Realm) -> None:
        await signed_in(tmp_path, made)
        (registered,) = made.accounts.clients.values()
        (uri,) = registered.redirect_uris or ()
        assert registered.application_type == "native" and str(uri).startswith("http://127.0.0.1:")
        assert registered.token_endpoint_auth_method == "none" and registered.client_secret is None
        made.accounts.access.clear()
        made.accounts.refresh.clear()
        await signed_in(tmp_path, made)  # the port is the same, so the registration is
        assert len(made.of("/register")) == 1

    with_realm(test)


@pytest.mark.parametrize(("methods", "basic"), [(None, True), (["client_secret_post"], False)])
def test_a_client_that_is_known_already_is_used_and_none_registered(
    tmp_path: Path, methods: list[str] | None, basic: bool
) -> None:
    """MCP-76: pre-registered comes first."""

    async def test(made: Realm) -> None:
        made.metadata = {"token_endpoint_auth_methods_supported": methods}
        made.accounts.clients["known"] = OAuthClientInformationFull(
            client_id="known",
            client_secret="x",
            token_endpoint_auth_method="client_secret_basic" if basic else "client_secret_post",
            redirect_uris=[AnyUrl("http://127.0.0.1/x")],
            scope="read write",
        )
        await _allow_any_port(made)
        await signed_in(tmp_path, made, oauth=OAuthEntry("known", "x", ("read", "write")))
        assert not made.of("/register")
        assert made.of("/authorize")[0].query["client_id"] == "known"
        assert made.of("/authorize")[0].query["scope"] == "read write"
        assert ("authorization" in made.of("/token")[0].headers) is basic

    with_realm(test)


@pytest.mark.parametrize("supported", [True, False])
def test_a_client_metadata_document_is_used_where_the_server_takes_one(tmp_path: Path, supported: bool) -> None:
    """MCP-76: before dynamic registration."""
    document = "https://vcp.example/client.json"

    async def test(made: Realm) -> None:
        made.metadata = {"client_id_metadata_document_supported": supported}
        made.accounts.clients["known"] = OAuthClientInformationFull(
            client_id=document, token_endpoint_auth_method="none", redirect_uris=[AnyUrl("http://127.0.0.1/x")]
        )
        await _allow_any_port(made)
        made.accounts.clients[document] = made.accounts.clients.pop("known")
        await signed_in(tmp_path, made, oauth=OAuthEntry(document))
        assert bool(made.of("/register")) is not supported
        assert (made.of("/authorize")[0].query["client_id"] == document) is supported

    with_realm(test)


def test_where_nobody_can_register_the_user_is_asked_to(tmp_path: Path) -> None:
    """MCP-76: and the server's own origin is not tried behind the issuer's back."""

    async def test(made: Realm) -> None:
        made.metadata = {"registration_endpoint": None}
        message = await refused(tmp_path, made)
        assert "oauth.clientId" in message and "http://127.0.0.1:" in message
        assert not made.of("/register")

    with_realm(test)


def test_a_refused_registration_is_told_by_its_code(tmp_path: Path) -> None:
    async def test(made: Realm) -> None:
        made.first = lambda asked: _echo(asked) if asked.path == "/register" else None
        message = await refused(tmp_path, made)
        assert "registration: 400 invalid_grant" in message

    with_realm(test)


# ---------------------------------------------------------------------- scopes


@pytest.mark.parametrize(
    ("challenge", "protected", "metadata", "scope"),
    [
        ('Bearer scope="a b"', ["c"], None, "a b"),
        ("Bearer", ["c", "d"], None, "c d"),
        ("Bearer", None, None, None),
        ("Bearer", ["c"], ["c", "offline_access"], "c offline_access"),
        ("Bearer", ["c"], ["c"], "c"),
    ],
)
def test_scopes_are_those_of_the_challenge_or_all_that_the_server_has(
    tmp_path: Path, challenge: str, protected: Any, metadata: Any, scope: str | None
) -> None:
    """MCP-77: ``offline_access`` only when the server lists it."""

    async def test(made: Realm) -> None:
        made.challenge = challenge
        made.protected = {"scopes_supported": protected}
        made.metadata = {"scopes_supported": metadata}
        await signed_in(tmp_path, made)
        assert made.of("/authorize")[0].query.get("scope") == scope

    with_realm(test)


def test_more_scopes_are_asked_for_with_those_that_are_there_and_not_for_ever(tmp_path: Path) -> None:
    """MCP-77: step-up on 403; the same scopes twice at most."""

    async def test(made: Realm) -> None:
        made.challenge = 'Bearer scope="read"'
        signing = await signed_in(tmp_path, made)
        made.scopes = ["write"]
        async with client(signing, made.entry()) as used:
            assert (await used.post("", json={})).status_code == 403
            assert signing.needed("s") is not None
            assert await signing.sign_in(made.entry(), Browser())
            assert made.of("/authorize")[-1].query["scope"] == "read write"
            assert (await used.post("", json={})).status_code == 200
            made.scopes = ["write", "more"]
            for wanted in (True, True, False):
                signing.worked("s")
                assert (await used.post("", json={})).status_code == 403
                assert (signing.needed("s") is not None) is wanted

    with_realm(test)


# ---------------------------------------------------------------------- keeping and refreshing


def test_a_token_is_refreshed_before_it_expires_and_after_a_restart(tmp_path: Path) -> None:
    """MCP-78; the address of the token endpoint is remembered, wherever it is."""
    now = [1000.0]

    async def test(made: Realm) -> None:
        signing = sign_ins(tmp_path, clock=lambda: now[0])
        assert await signing.sign_in(made.entry(), Browser())
        for _restart in range(2):
            fresh = sign_ins(tmp_path, clock=lambda: now[0])
            async with client(fresh, made.entry()) as used:
                now[0] += 3500.0
                assert (await used.post("", json={})).status_code == 200
                now[0] += 50.0
                count = len(made.of("/token"))
                assert (await used.post("", json={})).status_code == 200
                assert len(made.of("/token")) in (count, count + 1)
        assert len(made.of("/token")) >= 3 and len(made.of("/authorize")) == 1
        assert {one.form["resource"] for one in made.of("/token")} == {made.server_url}

    with_realm(test)


@pytest.mark.parametrize("processes", [1, 2])
def test_one_refresh_at_a_time(tmp_path: Path, processes: int) -> None:
    """MCP-78: the refresh token is good for once, so a second refresh would lose the sign-in."""
    now = [0.0]

    async def test(made: Realm) -> None:
        signing = [sign_ins(tmp_path, clock=lambda: now[0]) for _ in range(processes)]
        assert await signing[0].sign_in(made.entry(), Browser())
        now[0] = 3590.0
        async with client(signing[0], made.entry()) as one, client(signing[-1], made.entry()) as two:
            answers = await asyncio.gather(*(user.post("", json={}) for user in (one, two) for _ in range(4)))
        assert [answer.status_code for answer in answers] == [200] * 8
        assert len(made.of("/token")) == 2  # the exchange, and one refresh

    with_realm(test)


def test_a_token_that_was_taken_back_is_refreshed_before_a_person_is_asked(tmp_path: Path) -> None:
    async def test(made: Realm) -> None:
        signing = await signed_in(tmp_path, made)
        made.accounts.access.clear()
        async with client(signing, made.entry()) as used:
            answers = await asyncio.gather(*(used.post("", json={}) for _ in range(4)))
        assert [answer.status_code for answer in answers] == [200] * 4
        assert signing.needed("s") is None and len(made.of("/token")) == 2

    with_realm(test)


def test_a_refused_refresh_ends_the_sign_in_and_a_fault_on_the_way_does_not(tmp_path: Path) -> None:
    async def test(made: Realm) -> None:
        signing = await signed_in(tmp_path, made)
        made.accounts.access.clear()
        async with client(signing, made.entry()) as used:
            made.first = lambda asked: Response(status_code=503) if asked.path == "/token" else None
            assert (await used.post("", json={})).status_code == 401
            assert signing.needed("s") is None
            made.first = lambda asked: _echo(asked) if asked.path == "/token" else None
            assert (await used.post("", json={})).status_code == 401
            assert signing.needed("s") is not None
            made.first = lambda asked: None
            count = len(made.of("/token"))
            assert (await used.post("", json={})).status_code == 401
            assert len(made.of("/token")) == count  # what was refused is not tried again

    with_realm(test)


def test_a_changed_issuer_discards_all_that_the_old_one_gave(tmp_path: Path) -> None:
    """MCP-78."""

    async def test(made: Realm) -> None:
        await signed_in(tmp_path, made)
        (before,) = records(tmp_path)
        made.accounts.access.clear()
        made.accounts.refresh.clear()
        made.issuer = f"{made.url}/other"
        made.metadata_at = (f"{SERVER}/other",)
        await signed_in(tmp_path, made)
        (after,) = records(tmp_path)
        assert after != before and len(made.of("/register")) == 2

    with_realm(test)


def test_a_known_client_does_not_follow_to_another_issuer(tmp_path: Path) -> None:
    """MCP-78: else a server could have our secret sent wherever it likes."""

    async def test(made: Realm) -> None:
        made.accounts.clients["known"] = OAuthClientInformationFull(
            client_id="known",
            client_secret="x",
            token_endpoint_auth_method="client_secret_basic",
            redirect_uris=[AnyUrl("http://127.0.0.1/x")],
        )
        await _allow_any_port(made)
        oauth = OAuthEntry("known", "x")
        signing = await signed_in(tmp_path, made, oauth=oauth)
        made.accounts.access.clear()
        made.accounts.refresh.clear()
        made.issuer = f"{made.url}/other"
        made.metadata_at = (f"{SERVER}/other",)
        count = len(made.of("/token"))
        assert "--sign-out" in await refused(tmp_path, made, oauth=oauth)
        assert len([one for one in made.of("/token")[count:] if one.form["grant_type"] != "refresh_token"]) == 0
        assert not made.of("/register")
        assert await signing.sign_out(made.entry()) and not records(tmp_path)
        await signed_in(tmp_path, made, oauth=oauth)

    with_realm(test)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[1]", b'{"server": "x"}', b"\xff", b'{"tokens": {"access_token": 1}}']
)
def test_a_broken_file_costs_a_sign_in_and_nothing_else(tmp_path: Path, content: bytes) -> None:
    async def test(made: Realm) -> None:
        await signed_in(tmp_path, made)
        (record,) = records(tmp_path)
        record.write_bytes(content)
        await signed_in(tmp_path, made)
        async with client(sign_ins(tmp_path), made.entry()) as used:
            assert (await used.post("", json={})).status_code == 200

    with_realm(test)


def test_tokens_go_to_their_own_server_only(tmp_path: Path) -> None:
    """MCP-63, MCP-78: each upstream has its own."""

    async def test(made: Realm) -> None:
        signing = await signed_in(tmp_path, made)
        other = ServerEntry("other", ServerKind.HTTP, url=f"{made.url}/other")
        async with client(signing, other) as used:
            await used.post("", json={})
        assert "authorization" not in made.of("/other")[0].headers

    with_realm(test)


def test_a_slow_answer_keeps_no_other_request_waiting(tmp_path: Path) -> None:
    """Else the message that cancels a call would wait for the end of the call."""

    async def test(made: Realm) -> None:
        signing = await signed_in(tmp_path, made)
        made.slow = asyncio.Event()
        async with client(signing, made.entry()) as used:
            slow = asyncio.create_task(used.post("", json={}, headers={"x-slow": "1"}))
            await until(lambda: any("x-slow" in one.headers for one in made.asked))
            assert (await used.post("", json={})).status_code == 200
            made.slow.set()
            assert (await slow).status_code == 200

    with_realm(test)


# ---------------------------------------------------------------------- people and processes


def test_a_person_without_a_browser_here_pastes_where_it_ended(tmp_path: Path) -> None:
    """mcp.md 2.6: machines without a screen."""

    async def test(made: Realm) -> None:
        lines: asyncio.Queue[str] = asyncio.Queue()

        async def elsewhere(url: str) -> None:
            async with httpx2.AsyncClient(timeout=PATIENCE, trust_env=False, verify=False) as far:
                answer = await far.get(url)
            for line in ("", "what?", "http://127.0.0.1:1/oauth/callback?code=x&state=y", answer.headers["Location"]):
                lines.put_nowait(line)

        tasks: list[asyncio.Task[None]] = []
        signing = sign_ins(tmp_path)
        assert await signing.sign_in(
            made.entry(), lambda url: tasks.append(asyncio.create_task(elsewhere(url))), lines.get
        )

    with_realm(test)


def test_nobody_comes_and_the_listener_is_closed(tmp_path: Path) -> None:
    """mcp.md 2.6: it closes after its time."""

    async def test(made: Realm) -> None:
        shown: list[str] = []
        with pytest.raises(SignInError, match="within its time"):
            await sign_ins(tmp_path, seconds=0.05).sign_in(made.entry(), shown.append)
        redirect = httpx2.URL(httpx2.URL(shown[0]).params["redirect_uri"])
        with pytest.raises(OSError):
            await asyncio.open_connection("127.0.0.1", redirect.port)

    with_realm(test)


def test_the_listener_answers_once_with_a_plain_page(tmp_path: Path) -> None:
    async def test(made: Realm) -> None:
        answers: list[httpx2.Response] = []
        made.slow = None

        async def visits(url: str) -> None:
            async with httpx2.AsyncClient(timeout=PATIENCE, trust_env=False, verify=False) as here:
                address = (await here.get(url)).headers["Location"]
                parts = httpx2.URL(address)
                answers.append(await here.get(parts.copy_with(path="/")))
                answers.append(await here.post(address))
                answers.append(await here.get(address, headers={"Host": "evil.example"}))
                both = await asyncio.gather(here.get(address), here.get(address), return_exceptions=True)
                answers.extend(one for one in both if isinstance(one, httpx2.Response))

        tasks: list[asyncio.Task[None]] = []
        assert await sign_ins(tmp_path).sign_in(
            made.entry(), lambda url: tasks.append(asyncio.create_task(visits(url)))
        )
        await tasks[0]
        assert [one.status_code for one in answers[:3]] == [404, 400, 400]
        assert [one.status_code for one in answers[3:]].count(200) == 1
        assert all("secret" not in one.text and "<script" not in one.text for one in answers)
        assert answers[3].headers["Content-Security-Policy"] == "default-src 'none'"

    with_realm(test)


def test_one_browser_flow_at_a_time_and_a_second_process_joins_it(tmp_path: Path) -> None:
    """mcp.md 2.6: a lock over processes; the command beside a running server shows the same address."""

    async def test(made: Realm) -> None:
        shown: list[str] = []
        first = asyncio.create_task(sign_ins(tmp_path).sign_in(made.entry(), shown.append))
        await until(lambda: shown)
        with pytest.raises(SignInError, match="server s right now"):
            await sign_ins(tmp_path).sign_in(made.entry("another"), Browser())
        async with httpx2.AsyncClient(timeout=PATIENCE, trust_env=False, verify=False) as far:
            pasted = (await far.get(shown[0])).headers["Location"]
        lines: asyncio.Queue[str] = asyncio.Queue()
        lines.put_nowait(pasted)
        also: list[str] = []
        assert await sign_ins(tmp_path).sign_in(made.entry(), also.append, lines.get)
        assert await first and also == shown

    with_realm(test)


def test_a_running_server_tells_where_to_sign_in_and_waits_in_the_background(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(made: Realm) -> None:
        signing = sign_ins(tmp_path, background=True)
        async with client(signing, made.entry()) as used:
            for _ in range(3):
                assert (await used.post("", json={})).status_code == 401
            await until(lambda: (needed := signing.needed("s")) is not None and needed.url)
            needed = signing.needed("s")
            assert needed is not None and needed.url in caplog.text
            assert caplog.text.count("a browser on this machine can sign in") == 1
            Browser()(needed.url)
            await until(lambda: signing.needed("s") is None)
            assert (await used.post("", json={})).status_code == 200
        await signing.stop()

    with_realm(test)


def test_a_server_that_nobody_signs_in_at_is_waited_for_once(tmp_path: Path) -> None:
    """P85: else no other server could be signed in at."""

    async def test(made: Realm) -> None:
        signing = sign_ins(tmp_path, background=True, seconds=0.05)
        async with client(signing, made.entry()) as used:
            await used.post("", json={})
            await until(lambda: (needed := signing.needed("s")) is not None and needed.error)
            for _ in range(3):
                await used.post("", json={})
        assert len(made.of("/register")) == 1
        assert await sign_ins(tmp_path).sign_in(made.entry("another"), Browser())

    with_realm(test)


def test_a_stop_ends_the_flow_that_waits(tmp_path: Path) -> None:
    async def test(made: Realm) -> None:
        signing = sign_ins(tmp_path, background=True, seconds=600.0)
        async with client(signing, made.entry()) as used:
            await used.post("", json={})
        await until(lambda: (needed := signing.needed("s")) is not None and needed.url)
        await signing.stop()
        needed = signing.needed("s")
        assert needed is not None and not needed.url

    with_realm(test)


# ---------------------------------------------------------------------- hostile servers


@pytest.mark.parametrize(
    ("where", "value"),
    [
        ("token_endpoint", "http://login.example/token"),
        ("authorization_endpoint", "http://login.example/authorize"),
        ("registration_endpoint", "http://169.254.169.254/register"),
        ("registration_endpoint", "https://user@login.example/register"),
        ("authorization_endpoint", "https://169.254.169.254/authorize"),
    ],
)
def test_no_request_goes_where_metadata_must_not_send_it(tmp_path: Path, where: str, value: str) -> None:
    """MCP-79."""

    async def test(made: Realm) -> None:
        made.metadata = {where: value}
        message = await refused(tmp_path, made)
        assert "OAuth" in message
        assert not made.of("/token")

    with_realm(test)


def test_redirects_of_the_flow_stay_at_their_origin_and_end(tmp_path: Path) -> None:
    """MCP-79: five at most, never with credentials elsewhere."""

    async def test(made: Realm) -> None:
        def loop(asked: Asked) -> Response | None:
            return Response(status_code=307, headers={"Location": "/token"}) if asked.path == "/token" else None

        made.first = loop
        assert "307" in await refused(tmp_path, made)
        assert len(made.of("/token")) == 6
        count = len(made.asked)

        def away(asked: Asked) -> Response | None:
            other = made.url.replace("127.0.0.1", "localhost") + "/stolen"
            return Response(status_code=307, headers={"Location": other}) if asked.path == "/token" else None

        made.first = away
        assert "307" in await refused(tmp_path, made)
        assert "/stolen" not in [one.path for one in made.asked[count:]]

    with_realm(test)


@pytest.mark.parametrize(("path", "kind"), [(SERVER, "endless"), ("/token", "endless"), ("/register", "zipped")])
def test_answers_without_end_are_cut(tmp_path: Path, path: str, kind: str) -> None:
    async def test(made: Realm) -> None:
        def answer(asked: Asked) -> Response | None:
            if asked.path != path:
                return None
            if kind == "zipped":
                return Response(b"x", headers={"Content-Encoding": "gzip", "Content-Type": "application/json"})
            return Response(b" " * (2 * 1024 * 1024), media_type="application/json")

        made.first = answer
        assert ("too large" if kind == "endless" else "compressed") in await refused(tmp_path, made)

    with_realm(test)


@pytest.mark.parametrize(
    "entry",
    [
        ServerEntry("s", ServerKind.STDIO, command="x"),
        ServerEntry("s", ServerKind.HTTP, url="http://far.example/mcp"),
        ServerEntry("s", ServerKind.HTTP, url="https://far.example/mcp", headers={"authorization": "Bearer own"}),
    ],
)
def test_servers_that_take_no_sign_in_have_none(tmp_path: Path, entry: ServerEntry) -> None:
    """MCP-79: no token goes over a line that others can read."""
    signing = sign_ins(tmp_path)
    assert signing.auth(entry) is None
    with pytest.raises(SignInError):
        asyncio.run(signing.sign_in(entry, print))


def test_a_server_that_cannot_be_reached_is_told(tmp_path: Path) -> None:
    entry = ServerEntry("s", ServerKind.HTTP, url="http://127.0.0.1:9/mcp")
    with pytest.raises(SignInError, match="ConnectError"):
        asyncio.run(sign_ins(tmp_path).sign_in(entry, print))
