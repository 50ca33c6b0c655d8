"""Redirected names in chat and in the list of models (spec 1.4, 1.5)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.demo.script import json_reply, raw_reply, say
from app.demo.scripted import ScriptedUpstream
from app.web.model_names import with_public_names
from tests.server import run, running

REDIRECT = {"//": "comment", "fast": "vendor/fast-2", "also-fast": "vendor/fast-2", "smart": "vendor/smart"}


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/chatvcp/completions"])
def test_a_chat_goes_out_under_the_internal_name_which_also_decides_on_sar_texts(tmp_path: Path, path: str) -> None:
    (tmp_path / "ModelRedirect.json").write_text(json.dumps(REDIRECT), encoding="utf-8")
    config = ["SarModel1=vendor/fast-2", "SarPrompt1=for-fast", "SarModel2=fast", "SarPrompt2=for-public"]

    async def main() -> None:
        async with (
            ScriptedUpstream([say("a"), say("b")]) as up,
            running(tmp_path, up.base_url, config=config) as server,
        ):
            system = {"role": "system", "content": "{{SarPrompt1}}|{{SarPrompt2}}"}
            answer = await server.chat(system, path=path, model="fast", foo=1, messageId="m-1")
            assert answer.json()["model"] == "vendor/fast-2"  # answers are not mapped back
            await server.chat(system, path=path, model="FAST")
            first, second = up.bodies
            assert first["model"] == "vendor/fast-2"
            assert (first["foo"], first["messageId"]) == (1, "m-1")  # R19
            assert first["messages"][0]["content"] == "for-fast|"
            assert second["model"] == "FAST"

    run(main())


def test_the_list_of_models_shows_public_names(tmp_path: Path) -> None:
    (tmp_path / "ModelRedirect.json").write_text(json.dumps(REDIRECT), encoding="utf-8")
    listed = {"object": "list", "data": [{"id": "vendor/fast-2", "x": 1}, {"id": "other"}, {"id": 7}, "odd", None]}
    replies = [json_reply(listed), json_reply(listed, 404), raw_reply(b"{cut", 200, "application/json"), json_reply([])]

    async def main() -> None:
        async with ScriptedUpstream(replies) as up, running(tmp_path, up.base_url) as server:
            answers = [await server.client.get("/v1/models") for _ in replies]
            data = [{"id": "also-fast", "x": 1}, {"id": "other"}, {"id": 7}, "odd", None]
            assert answers[0].json() == {"object": "list", "data": data}
            assert answers[1].json() == listed
            assert (answers[2].content, answers[3].json()) == (b"{cut", [])

    run(main())


@pytest.mark.parametrize(
    "body", [b'{ "data" : [] }', b'{"data": [{"id": "x"}]}', b"", b"\xff", b"[" * 100_000, b"null"]
)
def test_a_list_without_such_a_model_stays_byte_for_byte(body: bytes) -> None:
    assert with_public_names(body, {"internal": "public"}) is body
