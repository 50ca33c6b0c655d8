"""What an entry gives its server in confidence does not come back in errors and log lines."""

from __future__ import annotations

import base64
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from app.mcp.client.entry_secrets import MAX_TOKENS, EntrySecrets
from app.mcp.client.server_entry import OAuthEntry, ServerEntry, ServerKind
from tests.mcp.client.bench import bench
from tests.mcp.client.web import answer, serving
from tests.server import run


def test_values_that_are_secret_by_their_place_or_name_are_masked_and_others_stay() -> None:
    entry = ServerEntry(
        "s",
        ServerKind.STDIO,
        args=("--root", "/srv/documents", "--token=arg-secret", "--api-key", "other-secret"),
        env={"MY_API_KEY": "env-secret", "FOLDER": "/srv/pictures", "PASSWORD": "short"},
        url="https://user:p%40ssword@host/mcp?key=url-secret",
        headers={"Authorization": "Bearer head-secret", "X-Any": "any-secret", "Accept": "text/plain"},
        oauth=OAuthEntry("id", "oauth-secret"),
    )
    secrets = EntrySecrets(entry)
    basic = base64.b64encode(b"user:p@ssword").decode()
    text = (
        "arg-secret other-secret env-secret p@ssword p%40ssword url-secret head-secret any-secret oauth-secret "
        f"{basic} | /srv/documents /srv/pictures short Bearer text/plain"
    )
    masks, _, plain = secrets.clean(text).partition(" | ")
    assert set(masks.split()) == {"***"}
    assert plain == "/srv/documents /srv/pictures short Bearer text/plain"


def test_the_tokens_that_were_sent_last_are_masked() -> None:
    secrets = EntrySecrets(ServerEntry("s", ServerKind.HTTP))
    for number in range(MAX_TOKENS + 1):
        secrets.sent(f"Bearer token-{number:04}")
    assert secrets.clean("token-0000 token-0001 token-0008") == "token-0000 *** ***"


@pytest.mark.parametrize("kind", ["page", "error"])
def test_a_server_that_quotes_the_request_tells_nobody_its_secrets(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    """A page of an error with the request's headers: neither model nor log, nor the panel, gets them."""
    caplog.set_level(logging.DEBUG, logger="app")

    async def quotes(scope: Any, receive: Any, send: Any) -> None:
        said = b"; ".join(b"=".join(header) for header in scope["headers"]) + scope["query_string"]
        if kind == "page":
            await answer(send, 500, said, (b"content-type", b"text/plain"))
            return
        asked = json.loads((await receive())["body"])
        error = {"code": -1, "message": said.decode()}
        body = json.dumps({"jsonrpc": "2.0", "id": asked["id"], "error": error}).encode()
        await answer(send, 200, body, (b"content-type", b"application/json"))

    async def main() -> None:
        async with serving(quotes) as url:
            entry = {"url": f"{url}/mcp?key=url-secret", "headers": {"Authorization": "Bearer head-secret"}}
            async with bench(tmp_path, {"s": entry}) as b:
                result = await b.call("s.any")
                assert not result.ok
                (status,) = b.servers.states()
                assert "***" in f"{status.details}"
                told = f"{result} {status.error} {status.details} {status.shown} {caplog.text}"
                assert "head-secret" not in told and "url-secret" not in told

    run(main())
