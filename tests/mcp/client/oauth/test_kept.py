"""What is known of one server while several use it at once (MCP-78)."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest
from mcp.shared.auth import OAuthToken

from app.mcp.client.oauth.kept import Kept
from app.mcp.client.oauth.provider import SignedInAuth
from app.mcp.client.oauth.registered import RegisteredClient
from app.mcp.client.oauth.store import Credentials, OAuthStore
from tests.mcp.client.oauth.realm import PATIENCE, Asked, Browser, Realm, client, realm, sign_ins
from tests.waiting import until

URL = "https://far.example/mcp"


class Disk(OAuthStore):
    """A store on a disk that takes as long as it is told to, for each reading and each writing."""

    def __init__(self, home: Path, *, read: Callable[[], object], write: Callable[[], object] = lambda: None) -> None:
        super().__init__(home)
        self._read, self._write = read, write

    def load(self, server_url: str) -> Credentials:
        found = super().load(server_url)
        self._read()
        return found

    def save(self, server_url: str, credentials: Credentials) -> None:
        self._write()
        super().save(server_url, credentials)


def to(token: str) -> Callable[[Credentials], None]:
    def change(kept: Credentials) -> None:
        kept.tokens = OAuthToken(access_token=token)

    return change


def token_of(kept: Credentials) -> str:
    return kept.tokens.access_token if kept.tokens is not None else ""


def test_what_was_read_before_a_change_does_not_undo_it(tmp_path: Path) -> None:
    OAuthStore(tmp_path).save(URL, Credentials(tokens=OAuthToken(access_token="old")))
    reading, go = threading.Event(), threading.Event()

    def slowly() -> None:
        reading.set()
        assert go.wait(30)

    async def main() -> None:
        kept = Kept(Disk(tmp_path, read=slowly), URL, lambda: None)
        loading = asyncio.create_task(kept.load())
        await until(reading.is_set)
        changing = asyncio.create_task(kept.change(to("new")))
        await asyncio.sleep(0)
        go.set()
        await asyncio.gather(loading, changing)
        assert token_of(kept.credentials) == token_of(OAuthStore(tmp_path).load(URL)) == "new"

    asyncio.run(main())


def test_a_change_whose_request_is_cancelled_is_written_before_it_is_anybody_elses_turn(tmp_path: Path) -> None:
    writing, go = threading.Event(), threading.Event()

    def slowly() -> None:
        writing.set()
        assert go.wait(30)

    async def main() -> None:
        kept = Kept(Disk(tmp_path, read=lambda: None, write=slowly), URL, lambda: None)
        other = Kept(OAuthStore(tmp_path), URL, lambda: None)

        async def refresh() -> None:
            async with kept.turn():
                await kept.change(to("new"))

        async def wait() -> str:
            async with other.turn() as ours:
                await other.load()
                assert ours
                return token_of(other.credentials)

        refreshing = asyncio.create_task(refresh())
        await until(writing.is_set)
        waiting = asyncio.create_task(wait())
        refreshing.cancel()
        await asyncio.sleep(0)
        go.set()
        assert await waiting == "new"
        with pytest.raises(asyncio.CancelledError):
            await refreshing

    asyncio.run(main())


@pytest.mark.parametrize("taken_back", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_one_refresh_at_a_time_on_a_slow_disk(tmp_path: Path, seed: int, taken_back: bool) -> None:
    """The refresh token is good for once: a second refresh, or one that is not written, would lose the sign-in."""
    now = [0.0]
    chance = random.Random(seed)

    def takes() -> None:
        time.sleep(chance.random() * 0.02)

    async def main() -> None:
        async with realm() as made:
            entry = made.entry()
            assert await sign_ins(tmp_path, clock=lambda: now[0]).sign_in(entry, Browser())
            if taken_back:
                made.accounts.access.clear()
            else:
                now[0] = 3590.0
            processes = [
                SignedInAuth(
                    entry.url, RegisteredClient(), Disk(tmp_path, read=takes, write=takes), clock=lambda: now[0]
                )
                for _ in range(2)
            ]
            async with httpx2.AsyncClient(timeout=PATIENCE, trust_env=False, verify=False) as used:
                answers = await asyncio.gather(
                    *(used.post(entry.url, json={}, auth=auth) for auth in processes for _ in range(4))
                )
            assert [answer.status_code for answer in answers] == [200] * 8
            assert len(made.of("/token")) == 2  # the exchange, and one refresh

    asyncio.run(main())


# ---------------------------------------------------------------------- what others write while a token is refreshed


def refreshes(asked: Asked) -> bool:
    return asked.form.get("grant_type") == "refresh_token"


def exchanges(made: Realm) -> list[Asked]:
    return [one for one in made.of("/token") if not refreshes(one)]


def test_a_sign_in_that_ends_while_a_token_is_refreshed_is_not_undone(tmp_path: Path) -> None:
    now, go = [0.0], asyncio.Event()

    async def main() -> None:
        async with realm() as made:
            running, command = sign_ins(tmp_path, clock=lambda: now[0]), sign_ins(tmp_path, clock=lambda: now[0])
            assert await running.sign_in(made.entry(), Browser())
            (registered,) = made.accounts.clients.values()
            registered.scope = "write"  # so that it need not register anew, which would wait for the refresh too
            made.scopes = ["write"]
            async with client(running, made.entry()) as used:
                assert (await used.post("", json={})).status_code == 403
                now[0] = 3590.0
                made.holds = lambda asked: go if refreshes(asked) else None
                refreshing = asyncio.create_task(used.post("", json={}))
                await until(lambda: any(map(refreshes, made.asked)))
                signing = asyncio.create_task(command.sign_in(made.entry(), Browser()))
                await until(lambda: len(exchanges(made)) == 2 and len(made.accounts.access) == 2)
                go.set()
                assert (await refreshing).status_code == 403 and await signing
                assert (await used.post("", json={})).status_code == 200

    asyncio.run(main())


def test_a_sign_out_while_a_token_is_refreshed_is_one(tmp_path: Path) -> None:
    now, go = [0.0], asyncio.Event()

    async def main() -> None:
        async with realm() as made:
            running, command = sign_ins(tmp_path, clock=lambda: now[0]), sign_ins(tmp_path)
            assert await running.sign_in(made.entry(), Browser())
            now[0] = 3590.0
            made.holds = lambda asked: go if refreshes(asked) else None
            async with client(running, made.entry()) as used:
                refreshing = asyncio.create_task(used.post("", json={}))
                await until(lambda: any(map(refreshes, made.asked)))
                leaving = asyncio.create_task(command.sign_out(made.entry()))
                await asyncio.sleep(0)
                go.set()
                await refreshing
                assert await leaving
                assert (await used.post("", json={})).status_code == 401

    asyncio.run(main())


def test_a_wish_for_more_scopes_does_not_bring_old_tokens_back(tmp_path: Path) -> None:
    """Its request was sent with the token from before the refresh of another process."""
    now, go = [0.0], asyncio.Event()

    async def main() -> None:
        async with realm() as made:
            one, two = sign_ins(tmp_path, clock=lambda: 0.0), sign_ins(tmp_path, clock=lambda: now[0])
            assert await one.sign_in(made.entry(), Browser())
            made.holds = lambda asked: go if "x-slow" in asked.headers else None
            async with client(one, made.entry()) as slow, client(two, made.entry()) as quick:
                wishing = asyncio.create_task(slow.post("", json={}, headers={"x-slow": "1"}))
                await until(lambda: any("x-slow" in asked.headers for asked in made.asked))
                now[0] = 3590.0
                assert (await quick.post("", json={})).status_code == 200
                made.scopes = ["write"]
                go.set()
                assert (await wishing).status_code == 403
            kept = OAuthStore(tmp_path).load(made.server_url)
            assert kept.challenge and kept.tokens is not None
            assert {kept.tokens.refresh_token} == set(made.accounts.refresh)

    asyncio.run(main())
