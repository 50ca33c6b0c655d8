"""What clients get when the model API fails, in every place and in both modes (spec 4.10, B20-B26, P22-P37)."""

import asyncio
import json
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.chat.running import RunningTurn
from app.chat.stream_rendering import StreamRenderer
from app.chat.turn import Turn, TurnRequest
from app.demo.script import (
    EVENT_STREAM,
    Close,
    Framing,
    Hold,
    Received,
    Reply,
    Reset,
    Send,
    broken,
    event_bytes,
    events,
    json_reply,
    no_answer,
    raw_reply,
    say,
    stream_of,
)
from app.demo.scripted import ScriptedUpstream
from app.extend import CallFinished, CallStarted, Outcome, TurnFinished
from tests.chat.gated_tools import GatedTools
from tests.server import ECHO, Running, Streamed, call_text, chat_body, run, running, write_plugin

MODES = pytest.mark.parametrize("stream", [True, False], ids=["stream", "plain"])

UNREACHABLE = "[ERROR] 代理服务器在连接上游API时失败，可能已达到重试上限或网络错误: "
REFUSED = "[UPSTREAM_ERROR] 上游API返回状态码 "
EXHAUSTED = "Fetch failed after all retries."


def well_ended(got: Streamed) -> str:
    """The text of a stream that ended as every stream must, however it went."""
    assert got.status == 200
    assert (got.done, len(got.finishes), got.roles) == (1, 1, ["assistant"]), got.raw
    return got.text


async def text_of(server: Running, stream: bool, **body: Any) -> str:
    if stream:
        return well_ended(await server.stream("x", **body))
    response = await server.chat("x", **body)
    assert response.status_code == 200, response.text
    content: str = response.json()["choices"][0]["message"]["content"]
    return content


FIRST_CALL = [
    (json_reply({"error": {"message": "no such model", "type": "t"}}, 404), 1, "404", "no such model"),
    (json_reply({"error": {"message": "bad key"}}, 401), 1, "401", "bad key"),
    (raw_reply(b"x", 400), 1, "400", "x"),
    (raw_reply(b"<html><h1>Forbidden</h1>", 403, "text/html"), 1, "403", "<h1>Forbidden</h1>"),
    (raw_reply(b"", 422), 1, "422", ""),
    (json_reply({"error": {"message": "broken inside"}}, 500), 2, "500", "broken inside"),
    (raw_reply(b"<html>bad gateway</html>", 502, "text/html"), 2, "502", "bad gateway"),
    (json_reply({"error": {"message": "busy"}}, 503), 2, "503", "busy"),
    (json_reply({"error": {"message": "overloaded"}}, 529), 2, "529", "overloaded"),
    (json_reply({"error": {"message": "slow down"}}, 429), 2, "429", "slow down"),
    (json_reply({"error": {"message": "quota"}}, 429, [("retry-after", "120")]), 1, "429", "quota"),
]


@pytest.mark.parametrize(("reply", "attempts", "status", "said"), FIRST_CALL)
def test_a_first_call_that_is_refused_is_told_in_the_shape_that_was_asked_for(
    tmp_path: Path, reply: Reply, attempts: int, status: str, said: str
) -> None:
    async def main() -> None:
        config = ["ApiRetries=2"]
        async with ScriptedUpstream(lambda _: reply) as up, running(tmp_path, up.base_url, config=config) as server:
            text = well_ended(await server.stream("x"))
            if attempts == 1:
                assert text.startswith(f"{REFUSED}{status}，错误信息: ")
            else:
                assert text.startswith(f"{UNREACHABLE}上游返回状态码 / upstream answered status {status}: ")
            assert said in text
            assert len(up.requests) == attempts

            response = await server.chat("x")
            assert response.status_code == int(status)
            error = response.json()["error"]
            assert said in error["message"]
            assert (EXHAUSTED in error["message"]) is (attempts > 1)
            assert response.json()["choices"][0]["message"]["role"] == "assistant"
            assert response.headers.get("retry-after") == ("120" if said == "quota" else None)
            assert len(up.requests) == 2 * attempts
            assert [e.outcome for e in server.events if isinstance(e, TurnFinished)] == [Outcome.ERROR] * 2

    run(main())


@pytest.mark.parametrize("fault", [Close(), Reset()])
@MODES
def test_a_connection_that_breaks_before_the_first_byte_is_tried_again(
    tmp_path: Path, stream: bool, fault: Close | Reset
) -> None:
    async def main() -> None:
        script = [no_answer(fault), no_answer(fault), say("third")]
        async with ScriptedUpstream(script) as up, running(tmp_path, up.base_url) as server:
            assert await text_of(server, stream) == "third"

    run(main())


@MODES
def test_an_upstream_that_cannot_be_reached_is_told(tmp_path: Path, stream: bool) -> None:
    async def main() -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))  # taken, but nobody listens
            async with running(tmp_path, f"http://127.0.0.1:{taken.getsockname()[1]}") as server:
                if stream:
                    assert (await text_of(server, True)).startswith(UNREACHABLE)
                else:
                    response = await server.chat("x")
                    assert response.status_code == 500
                    assert EXHAUSTED in response.json()["error"]["message"]

    run(main())


@pytest.mark.parametrize("fault", [Close(), Reset()])
@MODES
def test_an_answer_that_breaks_off_is_never_asked_for_again_and_what_came_is_kept(
    tmp_path: Path, stream: bool, fault: Close | Reset
) -> None:
    async def main() -> None:
        def cut(request: Received) -> Reply:
            whole = say("some text that stops").reply(request)
            sent = sum(len(step.data) for step in whole.steps if isinstance(step, Send))
            return broken(whole, fault, sent * 2 // 3)

        async with ScriptedUpstream(cut) as up, running(tmp_path, up.base_url) as server:
            if stream:
                text = await text_of(server, True)
                assert text.startswith("some text")
                # A reset may take away bytes that were on their way, the text before the error may be shorter then.
                assert "\n" + UNREACHABLE in text
            else:
                response = await server.chat("x")
                assert response.status_code == 502
                assert "broke off" in response.json()["error"]["message"]
            assert len(up.requests) == 1

    run(main())


def test_calls_started_before_the_break_are_cancelled_and_nothing_is_fed_back(tmp_path: Path) -> None:
    async def main() -> None:
        tools = GatedTools("Slow")
        data = event_bytes(say(call_text("Slow") + " and", sizes=[50]).chunks()[:-1])
        whole = Reply((Send(data.removesuffix(b"data: [DONE]\n\n")), Hold(), Close()))
        async with ScriptedUpstream([whole]) as up, running(tmp_path, up.base_url, sources=[tools]) as server:
            asking = asyncio.create_task(server.stream("x"))
            await tools.begun["Slow"].wait()
            up.release()
            text = well_ended(await asking)
            assert text.startswith(call_text("Slow") + " and\n" + UNREACHABLE)
            assert tools.log == ["Slow cancelled"]
            (started,) = [event for event in server.events if isinstance(event, CallStarted)]
            assert started.eager
            assert [e.outcome for e in server.events if isinstance(e, CallFinished)] == [Outcome.CANCELLED]

    run(main())


def test_calls_are_cancelled_at_once_even_if_the_client_does_not_read_the_error(tmp_path: Path) -> None:
    async def main() -> None:
        tools = GatedTools("Slow")
        data = event_bytes(say(call_text("Slow"), sizes=[200]).chunks()[:-1]).removesuffix(b"data: [DONE]\n\n")
        reply = Reply((Send(data), Hold(), Close()))
        async with ScriptedUpstream([reply]) as up, running(tmp_path, up.base_url, sources=[tools]) as server:
            reading = asyncio.Event()

            async def write(data: bytes, last: bool) -> None:
                if b"[ERROR]" in data:
                    await reading.wait()

            request = TurnRequest(id="t", body=chat_body("x", stream=True), model="m", stream=True)
            services, handle = server.services, RunningTurn()
            rules, renderer = services.turn_rules(stream=True), StreamRenderer(write, model="m")
            turn = Turn(request, rules, services.turn_parts, renderer, handle)
            task = services.running.start(handle, turn.run(), "t")
            await tools.begun["Slow"].wait()
            up.release()
            await tools.ended["Slow"].wait()
            assert tools.log == ["Slow cancelled"]
            reading.set()
            await task

    run(main())


LATER = [
    json_reply({"error": {"message": "later"}}, 400),
    json_reply({"error": {"message": "later"}}, 500),
    no_answer(Close()),
    json_reply({"error": {"message": "later"}}),
    raw_reply(b"<html>later", 502, "text/html"),
]


@pytest.mark.parametrize("reply", LATER)
@MODES
def test_a_later_round_that_fails_keeps_what_was_said_and_ends_with_a_note(
    tmp_path: Path, stream: bool, reply: Reply
) -> None:
    async def main() -> None:
        write_plugin(tmp_path, "Echo", ECHO)
        first = "before " + call_text("Echo", text="hi")
        config = ["ApiRetries=2", "ShowVCP=true"]

        def script(request: Received) -> Any:
            return say(first, usage={"total_tokens": 1}) if request.number == 1 else reply

        async with ScriptedUpstream(script) as up, running(tmp_path, up.base_url, config=config) as server:
            text = await text_of(server, stream)
            assert text.startswith(first + "\n[[VCP调用结果信息汇总:")
            note = text.rpartition("]]\n")[2]
            assert note.startswith("\n")
            assert note.lstrip("\n").startswith((REFUSED, UNREACHABLE))
            assert "later" in note or reply.steps == (Close(),)
            assert "[object Object]" not in text

    run(main())


@pytest.mark.parametrize("status", [200, 400, 401])
@MODES
def test_an_error_object_is_an_error_whatever_its_status(tmp_path: Path, stream: bool, status: int) -> None:
    async def main() -> None:
        reply = json_reply({"error": {"message": "the words", "code": "c"}}, status)
        async with ScriptedUpstream([reply]) as up, running(tmp_path, up.base_url) as server:
            if stream:
                text = await text_of(server, True)
                assert text.startswith(f"{REFUSED}{status}，错误信息: ")
                assert "the words" in text
            else:
                response = await server.chat("x")
                assert response.status_code == (502 if status == 200 else status)
                assert response.json()["error"]["message"] == "the words"

    run(main())


@pytest.mark.parametrize("named", ["text/event-stream", "application/json", "text/plain; charset=utf-8", ""])
@MODES
def test_an_answer_is_read_as_what_it_is_whatever_its_content_type_says(
    tmp_path: Path, stream: bool, named: str
) -> None:
    async def main() -> None:
        kind = (("content-type", named),) if named else ()
        refusal = json_reply({"error": {"message": "no quota", "code": "c"}})
        bodies = [say("good text").streamed("m"), say("good text").whole("m"), refusal]
        script = [replace(reply, headers=kind) for reply in bodies]
        async with ScriptedUpstream(script) as up, running(tmp_path, up.base_url) as server:
            assert await text_of(server, stream) == "good text"
            assert await text_of(server, stream) == "good text"
            if stream:
                assert "no quota" in await text_of(server, True)
            else:
                response = await server.chat("x")
                assert (response.status_code, response.json()["error"]["message"]) == (502, "no quota")

    run(main())


@MODES
def test_an_error_inside_an_event_stream_ends_the_answer(tmp_path: Path, stream: bool) -> None:
    async def main() -> None:
        reply = events([chunk({"role": "assistant", "content": "half"}), {"error": {"message": "provider gone"}}])
        async with ScriptedUpstream([reply]) as up, running(tmp_path, up.base_url) as server:
            if stream:
                text = await text_of(server, True)
                assert text.startswith("half\n" + UNREACHABLE)
                assert "provider gone" in text
            else:
                response = await server.chat("x")
                assert response.status_code == 502
                assert response.json()["error"]["message"] == "provider gone"

    run(main())


@pytest.mark.parametrize(
    ("reply", "status"),
    [
        (json_reply({"error": {"message": "m"}}, 400), 400),
        (json_reply({"error": {"message": "m"}}, 429, [("retry-after", "120")]), 429),
        (json_reply({"error": {"message": "m"}}), 502),
        (events([{"error": {"message": "m"}}]), 502),
        (no_answer(Close()), 500),
    ],
)
def test_with_errors_as_status_a_stream_request_gets_the_status(tmp_path: Path, reply: Reply, status: int) -> None:
    async def main() -> None:
        config = ["UpstreamErrorsAsStatus=true", "HeartbeatSeconds=0.01", "ApiRetries=1"]
        held = replace(reply, steps=(Hold(), *reply.steps))
        async with ScriptedUpstream([held]) as up, running(tmp_path, up.base_url, config=config) as server:
            asking = asyncio.create_task(server.chat("x", stream=True))
            await up.held()
            await asyncio.sleep(0.03)  # beats would have come by now, and with them status 200
            up.release()
            response = await asking
            assert response.status_code == status
            assert response.headers["content-type"].startswith("application/json")
            assert response.json()["error"]["message"]
            assert response.headers.get("retry-after") == ("120" if status == 429 else None)

    run(main())


def test_with_errors_as_status_a_good_stream_is_a_stream_and_a_later_fault_is_text(tmp_path: Path) -> None:
    async def main() -> None:
        write_plugin(tmp_path, "Echo", ECHO)
        config = ["UpstreamErrorsAsStatus=true"]
        script = [say("a" + call_text("Echo")), raw_reply(b"no", 400)]
        async with ScriptedUpstream(script) as up, running(tmp_path, up.base_url, config=config) as server:
            assert (await text_of(server, True)).endswith(f"\n{REFUSED}400，错误信息: no")

    run(main())


def chunk(delta: Any, **more: Any) -> Any:
    return {
        "id": "c",
        "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": delta, "finish_reason": None, **more}],
    }


START, MORE = chunk({"role": "assistant", "content": "good "}), chunk({"content": "text"})
PAIR = [
    b'data: {"choices":[{"index":0,"delta":{"content":"\\ud83d"},"finish_reason":null}]}\n\n',
    b'data: {"choices":[{"index":0,"delta":{"content":"\\ude00"},"finish_reason":null}]}\n\n',
]
ODD_STREAMS = {
    "bad event": (stream_of(event_bytes([START])[:-14], b"data: {oops\n\n", event_bytes([MORE])), "good text", "stop"),
    "foreign events": (
        stream_of(b'event: ping\ndata: {"type":"ping","choices":[]}\n\n', event_bytes([START, MORE])),
        "good text",
        "stop",
    ),
    "no end mark": (stream_of(event_bytes([START, MORE])[:-14]), "good text", "stop"),
    "closed without length": (
        stream_of(event_bytes([START, MORE])[:-14], framing=Framing.CLOSE),
        "good text",
        "stop",
    ),
    "last blank line missing": (stream_of(event_bytes([START, MORE])[:-15]), "good text", "stop"),
    "ends within a block": (
        events([START, chunk({"content": "<<<[TOOL_REQUEST]>>>\ntool_name:「始」Ec"}, finish_reason="length")]),
        "good <<<[TOOL_REQUEST]>>>\ntool_name:「始」Ec",
        "length",
    ),
    "role in every chunk": (events([START, chunk({"role": "assistant", "content": "text"})]), "good text", "stop"),
    "no role": (events([chunk({"content": "good "}), MORE]), "good text", "stop"),
    "empty choices first": (
        events([{"choices": [], "prompt_filter_results": []}, START, MORE]),
        "good text",
        "stop",
    ),
    "text after the end mark": (stream_of(event_bytes([START, MORE]) + event_bytes([MORE])), "good text", "stop"),
    "torn character": (stream_of(event_bytes([START])[:-14], *PAIR, b"data: [DONE]\n\n"), "good 😀", "stop"),
    "nothing at all": (stream_of(b"data: [DONE]\n\n"), "", "stop"),
    "empty body": (stream_of(b""), "", "stop"),
}


@pytest.mark.parametrize("name", list(ODD_STREAMS))
def test_odd_streams_give_well_formed_answers_streamed_joined_and_torn(tmp_path: Path, name: str) -> None:
    async def main() -> None:
        reply, text, finish = ODD_STREAMS[name]
        torn = replace(reply, steps=tuple(replace(step, block=1) for step in reply.steps if isinstance(step, Send)))
        async with ScriptedUpstream([reply, torn, reply]) as up, running(tmp_path, up.base_url) as server:
            for _ in range(2):
                got = await server.stream("x")
                said = "".join(
                    choice["delta"].get("content") or "" for one in got.chunks for choice in one.get("choices", ())
                )
                assert said.encode("utf-16-le", "surrogatepass").decode("utf-16-le") == text
                assert (got.done, got.finishes) == (1, [finish])
                assert got.roles == ["assistant"]
            choice = (await server.chat("x")).json()["choices"][0]  # joined, although a plain answer was asked for
            assert (choice["message"]["content"], choice["finish_reason"]) == (text, finish)

    run(main())


def test_a_call_with_a_torn_character_gets_it_whole_and_so_does_the_next_round(tmp_path: Path) -> None:
    async def main() -> None:
        write_plugin(tmp_path, "Echo", ECHO)
        head, tail = call_text("Echo", text="@").split("@")
        data = event_bytes([chunk({"role": "assistant", "content": head})])[:-14]
        last = event_bytes([chunk({"content": tail})])
        script = [stream_of(data, *PAIR, last), say("end")]
        for stream in (True, False):
            async with ScriptedUpstream(script) as up, running(tmp_path, up.base_url) as server:
                await server.chat("x", stream=stream)
                assistant, results = up.bodies[1]["messages"][1:]
                assert assistant["content"] == head + "😀" + tail
                assert '"original_plugin_output": "😀"' in results["content"][0]["text"]

    run(main())


@MODES
def test_an_upstreams_header_in_any_characters_reaches_the_client(tmp_path: Path, stream: bool) -> None:
    async def main() -> None:
        def script(request: Received) -> Reply:
            reply = say("ok").reply(request)
            kind = EVENT_STREAM if stream else reply.headers
            extra = (("X-Request-Id", "汉字".encode().decode("latin-1")), ("X-Other", "no"))
            return replace(reply, headers=(*kind, *extra))

        async with ScriptedUpstream(script) as up, running(tmp_path, up.base_url) as server:
            response = await server.chat("x", stream=stream)
            assert response.status_code == 200
            raw = {name.lower(): value for name, value in response.headers.raw}
            assert raw[b"x-request-id"] == "汉字".encode()
            assert b"x-other" not in raw

    run(main())


@MODES
def test_a_message_of_twelve_megabytes_goes_up_whole(tmp_path: Path, stream: bool) -> None:
    async def main() -> None:
        picture = "data:image/png;base64," + "QUJD" * (3 * 1024 * 1024)
        content = [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": picture}}]
        async with ScriptedUpstream([say("seen")]) as up, running(tmp_path, up.base_url) as server:
            response = await server.client.post(
                "/v1/chat/completions",
                json={"model": "m", "stream": stream, "messages": [{"role": "user", "content": content}]},
            )
            assert response.status_code == 200
            assert up.bodies[0]["messages"][0]["content"] == content

    run(main())


def test_while_the_first_byte_is_late_comments_keep_the_line_open(tmp_path: Path) -> None:
    async def main() -> None:
        config = ["HeartbeatSeconds=0.02"]

        def script(request: Received) -> Reply:
            reply = say("late").reply(request)
            return replace(reply, steps=(Hold(), *reply.steps))

        async with (
            ScriptedUpstream(script) as up,
            running(tmp_path, up.base_url, config=config) as server,
            server.client.stream(
                "POST",
                "/v1/chat/completions",
                json={"model": "m", "stream": True, "messages": [{"role": "user", "content": "x"}]},
            ) as response,
        ):
            lines = response.aiter_lines()
            seen = [await anext(lines) for _ in range(4)]
            assert seen == [": vcp-keepalive", "", ": vcp-keepalive", ""]
            up.release()
            rest = [line async for line in lines]
            said = [json.loads(line[6:]) for line in rest if line.startswith("data: {")]
            assert "".join(one["choices"][0]["delta"].get("content", "") for one in said) == "late"
            assert rest[-2:] == ["data: [DONE]", ""]

    run(main())


def test_a_silent_upstream_is_given_up_within_its_limit(tmp_path: Path) -> None:
    async def main() -> None:
        config = ["UpstreamFirstByteTimeout=0.05"]
        for stream in (True, False):
            async with (
                ScriptedUpstream([no_answer(Hold("never"))]) as up,
                running(tmp_path, up.base_url, config=config) as server,
            ):
                if stream:
                    assert (await text_of(server, True)).startswith(UNREACHABLE)
                else:
                    response = await server.chat("x")
                    assert response.status_code == 504
                    assert "0.05 s" in response.json()["error"]["message"]
                assert len(up.requests) == 1

    run(main())


@MODES
def test_content_in_parts_is_understood_and_kept(tmp_path: Path, stream: bool) -> None:
    async def main() -> None:
        write_plugin(tmp_path, "Echo", ECHO)
        parts = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "yes"}]
        calling = [{"type": "text", "text": call_text("Echo", text="hi")}]

        def whole(content: Any) -> Reply:
            return json_reply({"choices": [{"index": 0, "message": {"role": "assistant", "content": content}}]})

        script = [whole(parts), whole(calling), say("end")]
        async with ScriptedUpstream(script) as up, running(tmp_path, up.base_url) as server:
            response = await server.chat("x", stream=stream)
            if not stream:
                assert response.json()["choices"][0]["message"]["content"] == parts
            response = await server.chat("x", stream=stream)
            if not stream:
                assert response.json()["choices"][0]["message"]["content"] == calling[0]["text"] + "\nend"
            assert len(up.requests) == 3

    run(main())
