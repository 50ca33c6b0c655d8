"""A server with several upstreams, as its operator and its clients see it."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from app.config.snapshot import load
from app.demo.script import Close, Hold, Received, Reply, json_reply, no_answer, raw_reply, say
from app.demo.scripted import ScriptedUpstream
from app.errors import ConfigError
from tests.server import ECHO, call_text, run, running, write_plugin

MODES = pytest.mark.parametrize("stream", [True, False], ids=["stream", "plain"])
CLOSED = "http://127.0.0.1:1"
ONCE = "ApiRetries=1"


async def text_of(server: Any, stream: bool, **body: Any) -> str:
    if stream:
        got = await server.stream("x", **body)
        assert (got.status, got.done, len(got.finishes), got.roles) == (200, 1, 1, ["assistant"])
        text: str = got.text
        return text
    response = await server.chat("x", **body)
    assert response.status_code == 200, response.text
    text = response.json()["choices"][0]["message"]["content"]
    return text


@MODES
@pytest.mark.parametrize(
    "fault",
    [
        None,
        no_answer(Close()),
        json_reply({"error": {"message": "bad key"}}, 401),
        json_reply({"error": {"message": "slow down"}}, 429, [("Retry-After", "120")]),
        json_reply({"error": {"message": "broken"}}, 500),
        raw_reply(b"<html>502</html>", 502, "text/html"),
    ],
)
def test_a_client_sees_one_good_answer_when_the_first_upstream_fails(
    tmp_path: Path, stream: bool, fault: Reply | None
) -> None:
    async def main() -> None:
        async with (
            ScriptedUpstream(lambda _: fault or json_reply({})) as first,
            ScriptedUpstream(lambda _: say("from the spare")) as spare,
            running(
                tmp_path,
                first.base_url if fault else CLOSED,
                config=[f"Upstream_spare_URL={spare.base_url}", "Upstream_spare_Key=spare-key"],
            ) as server,
        ):
            assert await text_of(server, stream) == "from the spare"
            (request,) = spare.requests
            assert request.headers["authorization"] == "Bearer spare-key"
            assert request.json["model"] == "m"
            assert len(first.requests) <= 1

    run(main())


@MODES
def test_when_all_fail_the_client_is_told_in_the_shape_it_asked_for(tmp_path: Path, stream: bool) -> None:  # P22, P36
    async def main() -> None:
        refuse = json_reply({"error": {"message": "no credit", "type": "t"}}, 402)
        async with (
            ScriptedUpstream(lambda _: refuse) as first,
            running(tmp_path, first.base_url, config=[f"Upstream_spare_URL={CLOSED}", ONCE]) as server,
        ):
            if stream:
                text = await text_of(server, True)
                assert text.startswith("[UPSTREAM_ERROR] 上游API返回状态码 402")
                assert "no credit" in text
            else:
                response = await server.chat("x")
                assert (response.status_code, response.json()["error"]["message"]) == (402, "no credit")

    run(main())


@MODES
def test_a_model_that_nobody_serves_is_told(tmp_path: Path, stream: bool) -> None:
    async def main() -> None:
        config = ["API_URL=", f"Upstream_a_URL={CLOSED}", "Upstream_a_Models=one"]
        async with running(tmp_path, "", config=config) as server:
            if stream:
                assert '"m"' in await text_of(server, True)
            else:
                response = await server.chat("x")
                assert (response.status_code, response.json()["error"]["code"]) == (404, "model_not_found")

    run(main())


def test_each_round_of_a_turn_may_be_served_by_another_upstream(tmp_path: Path) -> None:
    async def main() -> None:
        write_plugin(tmp_path, "Echo", ECHO)
        async with (
            ScriptedUpstream([say(call_text("Echo", text="hi")), no_answer(Close()), no_answer(Close())]) as first,
            ScriptedUpstream([say("done")]) as spare,
            running(tmp_path, first.base_url, config=[f"Upstream_spare_URL={spare.base_url}"]) as server,
        ):
            assert (await text_of(server, True)).endswith("done")
            assert "hi" in json.dumps(spare.bodies[0])
            assert [status.running for status in server.services.upstream.status()] == [0, 0]

    run(main())


def test_one_that_fails_is_not_asked_by_every_request_and_the_server_stays_ready(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            ScriptedUpstream(lambda _: json_reply({}, 500)) as first,
            ScriptedUpstream(lambda _: say("ok")) as spare,
            running(tmp_path, first.base_url, config=[f"Upstream_spare_URL={spare.base_url}", ONCE]) as server,
        ):
            for _ in range(6):
                assert await text_of(server, False) == "ok"
            assert (len(first.requests), len(spare.requests)) == (3, 6)
            assert [status.resting > 0 for status in server.services.upstream.status()] == [True, False]
            numbers = (await server.client.get("/metrics")).text
            assert 'vcp_upstream_attempts_total{upstream="API_URL"} 3.0' in numbers
            assert 'vcp_upstream_faults_total{upstream="API_URL"} 3.0' in numbers
            assert 'vcp_upstream_attempts_total{upstream="spare"} 6.0' in numbers
            assert 'vcp_upstream_running{upstream="spare"} 0.0' in numbers
            assert (await server.client.get("/readyz")).text == "ready"

    run(main())


def test_a_full_upstream_makes_a_request_wait_and_then_say_so(tmp_path: Path) -> None:
    async def main() -> None:
        def script(request: Received) -> Reply:
            reply = say("first").reply(request)
            return Reply((Hold("go"), *reply.steps), reply.status, reply.headers)

        async with (
            ScriptedUpstream(script) as up,
            running(tmp_path, up.base_url, config=["ApiMaxRunning=1", "UpstreamQueueSeconds=0.05"]) as server,
        ):
            first = asyncio.create_task(server.chat("x"))
            await up.held()
            refused = await server.chat("x")
            assert (refused.status_code, refused.json()["error"]["code"]) == (503, "upstream_busy")
            up.release()
            assert (await first).status_code == 200
            assert await text_of(server, False) == "first"
            assert len(up.requests) == 2

    run(main())


# --- the list of models ----------------------------------------------------------------------------------------------


def listing(*names: str) -> Reply:
    return json_reply({"object": "list", "data": [{"id": name, "object": "model"} for name in names]})


def test_the_lists_of_all_upstreams_are_one_and_each_model_stands_where_it_is_served(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            ScriptedUpstream([listing("gpt", "deepseek-1", "both")]) as first,
            ScriptedUpstream([listing("deepseek-1", "deepseek-2", "other")]) as second,
            ScriptedUpstream([listing("both", "spare-only")]) as spare,
            running(
                tmp_path,
                first.base_url,
                config=[
                    f"Upstream_deep_URL={second.base_url}/v1",
                    "Upstream_deep_Models=deepseek-*",
                    "Upstream_deep_Key=k",
                    f"Upstream_spare_URL={spare.base_url}",
                ],
            ) as server,
        ):
            answer = await server.client.get("/v1/models", headers={"User-Agent": "my client/1", "Accept": "text/html"})
            assert answer.status_code == 200
            assert answer.json()["object"] == "list"
            assert [model["id"] for model in answer.json()["data"]] == [
                "gpt",
                "both",
                "deepseek-1",
                "deepseek-2",
                "spare-only",
            ]
            (request,) = second.requests
            assert request.headers["authorization"] == "Bearer k"
            assert (request.headers["user-agent"], request.headers["accept"]) == ("my client/1", "application/json")

    run(main())


def test_names_for_clients_stand_in_the_merged_list_and_lead_to_the_upstream_of_the_model(tmp_path: Path) -> None:
    async def main() -> None:
        (tmp_path / "ModelRedirect.json").write_text('{"nice": "deepseek-1"}', encoding="utf-8")
        async with (
            ScriptedUpstream([listing("gpt")]) as first,
            ScriptedUpstream([listing("deepseek-1"), say("hello")]) as deep,
            running(
                tmp_path,
                first.base_url,
                config=[f"Upstream_deep_URL={deep.base_url}", "Upstream_deep_Models=deepseek-*"],
            ) as server,
        ):
            answer = await server.client.get("/v1/models")
            assert [model["id"] for model in answer.json()["data"]] == ["gpt", "nice"]
            assert await text_of(server, True, model="nice") == "hello"
            assert deep.requests[1].json["model"] == "deepseek-1"

    run(main())


@pytest.mark.parametrize("size", [1000, 2_000_000], ids=["held", "streamed"])
@pytest.mark.parametrize("first_field", ["model", "file"])
def test_an_upload_goes_to_whom_its_model_belongs_under_the_name_it_has_there(
    tmp_path: Path, size: int, first_field: str
) -> None:
    (tmp_path / "ModelRedirect.json").write_text('{"nice": "whisper-large-internal"}', encoding="utf-8")
    model = b'--b\r\nContent-Disposition: form-data; name="model"\r\n\r\nNAME\r\n'
    file = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n' + b"x" * size + b"\r\n"
    form = (model + file if first_field == "model" else file + model) + b"--b--\r\n"
    internal = form.replace(b"NAME", b"whisper-large-internal")

    async def main() -> None:
        async with (
            ScriptedUpstream(lambda _: json_reply({"text": "never"})) as first,
            ScriptedUpstream(lambda _: json_reply({"text": "heard"})) as home,
            running(
                tmp_path,
                first.base_url,
                config=[f"Upstream_home_URL={home.base_url}", "Upstream_home_Models=whisper-*"],
            ) as server,
        ):
            for name in (b"nice", b"whisper-large-internal"):
                answer = await server.client.post(
                    "/v1/audio/transcriptions",
                    content=form.replace(b"NAME", name),
                    headers={"Content-Type": "multipart/form-data; boundary=b"},
                )
                assert answer.json() == {"text": "heard"}
            assert not first.requests
            assert [request.body for request in home.requests] == [internal, internal]

    run(main())


@pytest.mark.parametrize("size", [1000, 2_000_000], ids=["held", "streamed"])
def test_a_body_that_is_streamed_up_goes_to_one_upstream_only_and_others_may_take_over(
    tmp_path: Path, size: int
) -> None:
    async def main() -> None:
        async with (
            ScriptedUpstream(lambda _: json_reply({"error": "busy"}, 503)) as first,
            ScriptedUpstream(lambda _: json_reply({"text": "heard"})) as spare,
            running(tmp_path, first.base_url, config=[f"Upstream_spare_URL={spare.base_url}"]) as server,
        ):
            form = {"content": b"x" * size, "headers": {"Content-Type": "multipart/form-data; boundary=b"}}
            answer = await server.client.post("/v1/audio/transcriptions", **form)
            streamed = size > 1000
            assert answer.status_code == (503 if streamed else 200)
            assert (len(first.requests), len(spare.requests)) == (1, 0 if streamed else 1)
            assert [status.running for status in server.services.upstream.status()] == [0, 0]

    run(main())


@pytest.mark.parametrize(
    "faulty",
    [
        no_answer(Close()),
        raw_reply(b"<html>not here</html>", 404, "text/html"),
        json_reply({"error": "sk-of-b is wrong"}, 401),
        raw_reply(b"x" * 2000, 200, "application/json"),
        raw_reply(b"", 302),
        no_answer(Hold("never")),
    ],
)
def test_an_upstream_that_gives_no_list_loses_only_its_own_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, faulty: Reply
) -> None:
    monkeypatch.setattr("app.upstream.client.LIST_BYTES", 1000)
    monkeypatch.setattr("app.upstream.client.LIST_SECONDS", 0.3)

    async def main() -> None:
        async with (
            ScriptedUpstream(lambda _: faulty) as first,
            ScriptedUpstream([listing("good")]) as second,
            running(
                tmp_path, first.base_url, config=["API_Key=sk-of-b", f"Upstream_b_URL={second.base_url}"]
            ) as server,
        ):
            answer = await server.client.get("/v1/models")
            assert (answer.status_code, [model["id"] for model in answer.json()["data"]]) == (200, ["good"])

    run(main())
    assert "the list of models lacks those of upstream API_URL" in caplog.text
    assert "sk-of-b" not in caplog.text


def test_when_no_upstream_gives_a_list_the_first_fault_is_told(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            ScriptedUpstream(lambda _: json_reply({"error": {"message": "bad key"}}, 401)) as first,
            running(tmp_path, first.base_url, config=[f"Upstream_b_URL={CLOSED}"]) as server,
        ):
            answer = await server.client.get("/v1/models")
            assert answer.status_code == 500
            error = answer.json()["error"]
            assert error["code"] == "upstream_status"
            assert error["message"].startswith("Internal Server Error: ")
            assert "401" in error["message"]

    run(main())


# --- reload ----------------------------------------------------------------------------------------------------------


def test_a_reload_changes_the_upstreams_of_the_next_turn_and_a_running_one_goes_on(tmp_path: Path) -> None:
    async def main() -> None:
        write_plugin(tmp_path, "Echo", ECHO)

        def held(request: Received) -> Reply:
            reply = say(call_text("Echo", text="hi")).reply(request)
            return Reply((Hold("go"), *reply.steps), reply.status, reply.headers)

        replies = [held, lambda request: say("old").reply(request)]
        async with (
            ScriptedUpstream(lambda request: replies.pop(0)(request)) as old,
            ScriptedUpstream(lambda _: say("new")) as new,
            running(tmp_path, old.base_url) as server,
        ):
            first = asyncio.create_task(server.stream("x"))
            await old.held()
            changed = {"API_URL": new.base_url, "API_Key": "new-key"}
            server.services.apply(load(tmp_path, {**server.services.config.environ, **changed}))
            assert await text_of(server, False) == "new"
            assert new.requests[0].headers["authorization"] == "Bearer new-key"
            old.release()
            assert (await first).text.endswith("old")  # its second round too
            assert len(old.requests) == 2

    run(main())


def test_a_configuration_with_which_nothing_can_be_asked_changes_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with ScriptedUpstream([say("still here")]) as up, running(tmp_path, up.base_url) as server:
            before = server.services.config
            for changed in ({"API_URL": "http://user:secret@host"}, {"API_URL": ""}, {"API_Key": "a\nb"}):
                with pytest.raises(ConfigError) as caught:
                    server.services.apply(load(tmp_path, {**before.environ, **changed}))
                assert "secret" not in caught.value.message
            assert server.services.config is before
            assert await text_of(server, True) == "still here"

    run(main())


def test_no_key_of_any_upstream_reaches_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    async def main() -> None:
        said = json_reply({"error": {"message": "the key sk-secret-a is wrong"}}, 401)
        async with (
            ScriptedUpstream(lambda _: said) as first,
            running(
                tmp_path,
                CLOSED,
                config=[
                    "API_Key=sk-secret-main",
                    f"Upstream_a_URL={first.base_url}",
                    "Upstream_a_Key=sk-secret-a",
                    "Upstream_b_URL=http://user:sk-secret-b@host",
                    ONCE,
                ],
            ) as server,
        ):
            response = await server.chat("x")
            assert "sk-secret" not in response.text
            assert "sk-secret" not in (await server.client.get("/v1/models")).text

    run(main())
    assert "sk-secret" not in caplog.text
