"""The scripted upstream sends exactly what the script says, and remembers what it got."""

import asyncio
import contextlib
import json
from urllib.parse import urlsplit

import httpx
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.demo import scripted
from app.demo.script import (
    Answer,
    Choice,
    Close,
    Escape,
    EventStyle,
    Framing,
    Hold,
    Reply,
    Reset,
    Send,
    broken,
    dump,
    event_bytes,
    events,
    json_reply,
    native_call,
    no_answer,
    pieces,
    raw_reply,
    say,
    stream_of,
)
from app.demo.scripted import ScriptedUpstream

PATH = "/v1/chat/completions"
TEXT = "<<<[TOOL_REQUEST]>>>\ntool_name:「始」X「末」\U0001f600\n<<<[END_TOOL_REQUEST]>>>"
STREAM = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": True}
WHOLE = {**STREAM, "stream": False}


def scene(script, act):
    """Run ``act(upstream, client)`` against a script."""

    async def run():
        async with (
            ScriptedUpstream(script) as upstream,
            httpx.AsyncClient(trust_env=False, verify=False, base_url=upstream.base_url) as client,
        ):
            return await act(upstream, client)

    return asyncio.run(run())


def post(script, body=STREAM):
    async def act(upstream, client):
        return await client.post(PATH, json=body)

    return scene(script, act)


async def raw_bytes(upstream, body=STREAM):
    """Everything the server sends until it closes, below any HTTP library."""
    address = urlsplit(upstream.base_url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    data = json.dumps(body).encode()
    writer.write(b"POST %b HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b" % (PATH.encode(), len(data), data))
    got = b""
    try:
        while block := await reader.read(65536):
            got += block
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
    return got


def text_in(response):
    data = [line.removeprefix("data:").strip() for line in response.text.splitlines() if line.startswith("data:")]
    return "".join(
        choice["delta"].get("content") or ""
        for item in data
        if item != "[DONE]"
        for choice in json.loads(item)["choices"]
    )


def test_one_answer_serves_both_ways_of_asking():
    streamed = post([say(TEXT)])
    assert streamed.headers["content-type"] == "text/event-stream"
    assert text_in(streamed) == TEXT
    assert streamed.text.endswith("data: [DONE]\n\n")
    whole = post([say(TEXT)], WHOLE)
    assert whole.headers["content-type"] == "application/json"
    assert whole.json()["choices"][0]["message"]["content"] == TEXT
    assert whole.json()["model"] == "m"


def test_replies_are_served_in_order_and_requests_remembered():
    async def act(upstream, client):
        for number, text in enumerate("ab", start=1):
            response = await client.post(PATH, json={"n": number}, headers={"X-Mark": text})
            assert response.json()["choices"][0]["message"]["content"] == text
        assert [request.headers["x-mark"] for request in upstream.requests] == ["a", "b"]
        assert upstream.bodies == [{"n": 1}, {"n": 2}]
        assert upstream.requests[0].method == "POST"
        assert upstream.requests[0].path == PATH
        assert (await upstream.arrived(2)).number == 2

    scene([say("a"), say("b")], act)


def test_a_request_too_many_is_told_and_fails_the_block():
    with pytest.raises(AssertionError, match="1 request"):
        scene([], lambda upstream, client: client.post(PATH, json=STREAM))


def test_the_error_of_the_test_itself_is_not_hidden_by_a_request_too_many():
    async def act(upstream, client):
        response = await client.post(PATH, json=STREAM)
        assert response.status_code == 400
        assert "0 replies" in response.json()["error"]["message"]
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        scene([], act)


def test_a_function_answers_by_the_request():
    async def act(upstream, client):
        asked = [client.post(PATH, json={"echo": n}) for n in range(10)]
        return [response.json()["choices"][0]["message"]["content"] for response in await asyncio.gather(*asked)]

    assert scene(lambda received: say(str(received.json["echo"])), act) == [str(n) for n in range(10)]


def test_a_function_may_stand_inside_a_script():
    assert post([lambda received: json_reply({"was": received.json["model"]})]).json() == {"was": "m"}


@pytest.mark.parametrize("block", [1, 2, 7, None])
@pytest.mark.parametrize("framing", list(Framing))
def test_the_bytes_arrive_as_given_however_they_are_cut(block, framing):
    data = event_bytes(say(TEXT).chunks())
    assert post([Reply((Send(data, block),), framing=framing)]).content == data


def test_every_block_is_a_chunk_of_its_own_on_the_wire():
    async def act(upstream, client):
        return await raw_bytes(upstream)

    got = scene([broken(stream_of(b"abc", block=1), Close())], act)
    assert got.endswith(b"\r\n\r\n1\r\na\r\n1\r\nb\r\n1\r\nc\r\n")


@pytest.mark.parametrize(
    ("style", "data"),
    [
        (EventStyle(), b'data: {"a":"x"}\n\ndata: [DONE]\n\n'),
        (EventStyle(newline="\r\n"), b'data: {"a":"x"}\r\n\r\ndata: [DONE]\r\n\r\n'),
        (EventStyle(newline="\r"), b'data: {"a":"x"}\r\rdata: [DONE]\r\r'),
        (EventStyle(space=False), b'data:{"a":"x"}\n\ndata:[DONE]\n\n'),
        (EventStyle(done=False), b'data: {"a":"x"}\n\n'),
        (EventStyle(comment="busy"), b': busy\n\ndata: {"a":"x"}\n\n: busy\n\ndata: [DONE]\n\n'),
    ],
)
def test_events_are_written_in_every_style(style, data):
    assert post([events([{"a": "x"}], style=style)]).content == data


@pytest.mark.parametrize(
    ("escape", "text"),
    [
        (Escape.NONE, '{"a":"<「>"}'),
        (Escape.ASCII, '{"a":"<\\u300c>"}'),
        (Escape.ANGLE, '{"a":"\\u003c\\u300c\\u003e"}'),
        (Escape.UPPER, '{"a":"\\u003C\\u300C\\u003E"}'),
        (Escape.ALL, '{"a":"\\u003c\\u300c\\u003e"}'),
    ],
)
def test_json_is_escaped_as_the_style_says(escape, text):
    assert dump({"a": "<「>"}, escape) == text.encode()


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(alphabet='a<>&"\\\n\u2028「\U0001f600'),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3, alphabet="ab<「\\"), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(JSON_VALUES, st.sampled_from(list(Escape)))
def test_escapes_never_change_the_meaning(value, escape):
    assert json.loads(dump(value, escape)) == value


@given(st.text(alphabet="ab<「\U0001f600"), st.lists(st.integers(1, 5), min_size=1, max_size=4))
def test_pieces_join_to_the_text(text, sizes):
    assert "".join(pieces(text, sizes)) == text


def test_usage_reasoning_and_several_choices_are_sent_in_both_ways():
    answer = Answer((Choice("one", reasoning="hm"), Choice("two", finish="length")), usage={"total_tokens": 3})
    got = [json.loads(line[6:]) for line in post([answer]).text.split("\n\n") if line.startswith("data: {")]
    assert got[-1]["usage"] == {"total_tokens": 3}
    assert [c["choices"][0]["index"] for c in got if c["choices"] and c["choices"][0]["finish_reason"]] == [0, 1]
    assert any(c["choices"][0]["delta"].get("reasoning_content") == "hm" for c in got if c["choices"])
    whole = post([answer], WHOLE).json()
    assert whole["usage"] == {"total_tokens": 3}
    assert whole["choices"][0]["message"]["reasoning_content"] == "hm"
    assert [choice["finish_reason"] for choice in whole["choices"]] == ["stop", "length"]


def test_a_stream_may_lack_its_finish():
    response = post([say("a", finish=None, style=EventStyle(done=False))])
    assert 'finish_reason":"' not in response.text
    assert "[DONE]" not in response.text


def test_an_answer_can_ignore_how_it_was_asked():
    async def act(upstream, client):
        json_for_stream = await client.post(PATH, json=STREAM)
        stream_for_json = await client.post(PATH, json=WHOLE)
        assert json_for_stream.json()["choices"][0]["message"]["content"] == "a"
        assert text_in(stream_for_json) == "b"

    scene([say("a").whole(), say("b").streamed()], act)


def test_any_status_body_and_headers_can_be_sent():
    async def act(upstream, client):
        slow_down = await client.post(PATH, json=STREAM)
        assert slow_down.status_code == 429
        assert slow_down.headers["retry-after"] == "2"
        assert slow_down.json() == {"error": "busy"}
        odd = await client.post(PATH, json=STREAM)
        assert (odd.status_code, odd.text, odd.headers["content-type"]) == (529, "x", "text/plain")

    scene([json_reply({"error": "busy"}, 429, [("retry-after", "2")]), raw_reply(b"x", 529)], act)


@pytest.mark.parametrize("fault", [Close(), Reset()])
def test_a_connection_that_ends_without_an_answer_is_an_error_for_the_client(fault):
    with pytest.raises((httpx.RemoteProtocolError, httpx.ReadError)):
        post([no_answer(fault)])


@pytest.mark.parametrize("fault", [Close(), Reset()])
@pytest.mark.parametrize("reply", [say(TEXT).streamed(), say(TEXT).whole()])
@pytest.mark.parametrize("after", [1, 40])
def test_an_answer_can_break_off_after_any_byte(fault, reply, after):
    async def act(upstream, client):
        got = b""
        with pytest.raises((httpx.RemoteProtocolError, httpx.ReadError)):
            async with client.stream("POST", PATH, json=STREAM) as response:
                async for block in response.aiter_raw():
                    got += block
        await upstream.served()
        assert reply.steps[0].data.startswith(got)
        assert len(got) <= after

    scene([broken(reply, fault, after)], act)


def test_an_orderly_close_in_mid_stream_delivers_every_byte_before_it():
    async def act(upstream, client):
        return await raw_bytes(upstream)

    assert scene([broken(stream_of(b"abcdef"), Close(), 3)], act).endswith(b"\r\n\r\n3\r\nabc\r\n")


def test_a_reset_delivers_the_head_and_then_breaks():
    async def act(upstream, client):
        with pytest.raises(ConnectionResetError):
            await raw_bytes(upstream)

    scene([broken(stream_of(b"abcdef"), Reset(), 3)], act)


def test_an_answer_waits_at_its_gate():
    async def act(upstream, client):
        asking = asyncio.ensure_future(client.post(PATH, json=STREAM))
        await upstream.held("middle")
        assert not asking.done()
        upstream.release("middle")
        assert (await asking).content == b"ab"
        await upstream.served()

    scene([Reply((Send(b"a"), Hold("middle"), Send(b"b")))], act)


def test_a_released_gate_stays_open():
    async def act(upstream, client):
        upstream.release()
        return [(await client.post(PATH, json=STREAM)).content for _ in range(2)]

    assert scene([Reply((Hold(), Send(b"a")))] * 2, act) == [b"a", b"a"]


@pytest.mark.parametrize("reply", [no_answer(Hold("never")), Reply((Send(b"a"), Hold("never")))])
def test_it_notices_a_client_that_goes_away(reply):
    async def act(upstream, client):
        asking = asyncio.ensure_future(client.post(PATH, json=STREAM))
        await upstream.held("never")
        assert not upstream.exchanges[0].gone
        asking.cancel()
        await upstream.gone()
        assert not upstream.exchanges[0].served
        await asyncio.wait([asking])

    scene([reply], act)


def test_an_answer_sent_to_its_end_does_not_count_as_gone():
    async def act(upstream, client):
        await client.post(PATH, json=STREAM)
        await upstream.served()
        assert not upstream.exchanges[0].gone

    scene([say("a")], act)


def test_a_client_that_does_not_read_stops_the_sending_and_its_leaving_is_noticed():
    async def act(upstream, client):
        async with client.stream("POST", PATH, json=STREAM) as response:
            assert response.status_code == 200
            assert not upstream.exchanges[0].served
        await upstream.gone()

    scene([stream_of(b"x" * (32 * 1024 * 1024), block=1024 * 1024)], act)


def test_a_kept_connection_is_used_again():
    async def act(upstream, client):
        for _ in range(3):
            await client.post(PATH, json=STREAM)
        assert upstream.connections == 1

    scene([say("a")] * 3, act)


def test_a_request_body_in_chunks_is_read():
    async def act(upstream, client):
        async def body():
            yield b'{"a":'
            yield b"1}"

        await client.post(PATH, content=body())
        assert upstream.requests[0].headers["transfer-encoding"] == "chunked"
        assert upstream.bodies == [{"a": 1}]

    scene([say("a")], act)


def test_the_end_of_the_block_ends_open_answers():
    async def run():
        async with httpx.AsyncClient(trust_env=False, verify=False) as client:
            async with ScriptedUpstream([no_answer(Hold("never"))]) as upstream:
                asking = asyncio.ensure_future(client.post(upstream.base_url + PATH, json=STREAM))
                await upstream.held("never")
            await asyncio.wait([asking])
            assert isinstance(asking.exception(), httpx.HTTPError)

    asyncio.run(run())


def test_a_wait_in_vain_gives_up_and_says_for_what(monkeypatch):
    monkeypatch.setattr(scripted, "WAIT_LIMIT", 0.0)

    async def act(upstream, client):
        with pytest.raises(TimeoutError, match="request 1"):
            await upstream.arrived()

    scene([], act)


def test_the_official_client_reads_calls_reasoning_and_text():
    calls = (native_call("call_1", "weather", {"city": "北京"}), native_call("call_2", "time", {}))

    async def run():
        answer = Answer(
            (Choice("Let me see.", "hm", calls, "tool_calls"),),
            usage={"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
        )
        script = [answer, answer, json_reply({"error": {"message": "busy"}}, 429)]
        async with (
            ScriptedUpstream(script) as upstream,
            openai.AsyncOpenAI(base_url=upstream.base_url + "/v1", api_key="k", max_retries=0) as client,
        ):
            messages = [{"role": "user", "content": "hi"}]
            whole = await client.chat.completions.create(model="m", messages=messages)
            assert [call.function.name for call in whole.choices[0].message.tool_calls] == ["weather", "time"]
            assert whole.choices[0].finish_reason == "tool_calls"

            arguments, text = {0: "", 1: ""}, ""
            async for chunk in await client.chat.completions.create(model="m", messages=messages, stream=True):
                for choice in chunk.choices:
                    text += choice.delta.content or ""
                    for call in choice.delta.tool_calls or []:
                        arguments[call.index] += call.function.arguments or ""
            assert text == "Let me see."
            assert {index: json.loads(part) for index, part in arguments.items()} == {0: {"city": "北京"}, 1: {}}

            with pytest.raises(openai.RateLimitError):
                await client.chat.completions.create(model="m", messages=messages)
            assert upstream.requests[0].headers["authorization"] == "Bearer k"

    asyncio.run(run())
