"""The demo upstream on a real server, with httpx and the official client."""

import asyncio
import json
import math
from datetime import timedelta, timezone

import httpx
import openai
import pytest

from app.demo.blocks import TOOL_END, TOOL_START
from app.demo.completion import PIECE_SIZES
from app.demo.upstream import MODEL_IDS, create_demo
from app.web.server import serve

NOW = 1_767_600_000.5  # 2026-01-05 08:00 UTC


def demo(**options):
    return create_demo(**{"delay": 0, "slow_delay": 0, "slow_lines": 5, "clock": lambda: NOW, **options})


def chat(text, **fields):
    return {"model": "any-model", "messages": [{"role": "user", "content": text}], **fields}


def ask(method, path, *, app=None, **request):
    async def run():
        async with serve(app or demo()) as base, httpx.AsyncClient(trust_env=False, verify=False) as client:
            return await client.request(method, base + path, **request)

    return asyncio.run(run())


def events(response):
    assert response.headers["content-type"].startswith("text/event-stream")
    lines = response.text.split("\n\n")
    assert lines[-1] == ""
    assert all(line.startswith("data: ") for line in lines[:-1])
    return [line.removeprefix("data: ") for line in lines[:-1]]


def chunks(response):
    data = events(response)
    assert data[-1] == "[DONE]"
    assert data.count("[DONE]") == 1
    return [json.loads(item) for item in data[:-1]]


def contents(response):
    return [
        c["choices"][0]["delta"]["content"]
        for c in chunks(response)
        if c["choices"] and c["choices"][0]["delta"].get("content")
    ]


def test_a_whole_completion_has_every_field_of_the_api():
    response = ask("POST", "/v1/chat/completions", json=chat("hello"))
    assert response.status_code == 200
    body = response.json()
    assert body["object"] == "chat.completion"
    assert body["model"] == "any-model"
    assert body["created"] == 1_767_600_000
    assert body["choices"][0]["message"]["role"] == "assistant"
    assert body["choices"][0]["finish_reason"] == "stop"
    assert body["usage"]["total_tokens"] == body["usage"]["prompt_tokens"] + body["usage"]["completion_tokens"] > 0


def test_a_stream_begins_with_the_role_and_ends_with_one_finish_and_done():
    got = chunks(ask("POST", "/v1/chat/completions", json=chat("hello", stream=True)))
    assert got[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert [c["choices"][0]["finish_reason"] for c in got] == [None] * (len(got) - 1) + ["stop"]
    assert got[-1]["choices"][0]["delta"] == {}
    assert {c["object"] for c in got} == {"chat.completion.chunk"}
    assert len({c["id"] for c in got}) == 1
    assert all("usage" not in c for c in got)


def test_usage_comes_in_a_last_chunk_only_when_it_is_asked_for():
    body = chat("hello", stream=True, stream_options={"include_usage": True})
    got = chunks(ask("POST", "/v1/chat/completions", json=body))
    assert got[-1]["choices"] == []
    assert got[-1]["usage"]["completion_tokens"] > 0
    assert all(c["usage"] is None for c in got[:-1])


@pytest.mark.parametrize("text", ["what is 12*7 and 3+4", "算一下 12*7 和 3+4"])
def test_streamed_markers_tear_and_the_text_is_the_same_as_when_sent_whole(text):
    streamed = contents(ask("POST", "/v1/chat/completions", json=chat(text, stream=True)))
    whole = ask("POST", "/v1/chat/completions", json=chat(text)).json()["choices"][0]["message"]["content"]
    assert "".join(streamed) == whole
    assert TOOL_START in whole
    assert max(map(len, streamed)) == max(PIECE_SIZES)
    for marker in (TOOL_START, TOOL_END):
        assert not any(marker in piece for piece in streamed)
    borders = {sum(map(len, streamed[:n])) for n in range(len(streamed))}
    for marker in ("「始」", "「末」"):
        places = [at for at in range(len(whole)) if whole.startswith(marker, at)]
        assert any({at + 1, at + 2} & borders for at in places)


def test_the_same_body_gets_the_same_bytes():
    body = json.dumps(chat("12*7", stream=True))
    first, second = (ask("POST", "/v1/chat/completions", content=body) for _ in range(2))
    assert first.content == second.content


def test_different_bodies_get_different_ids_and_tears():
    bodies = [json.dumps(chat("12*7", stream=True, seed=seed)) for seed in range(8)]
    answers = [ask("POST", "/v1/chat/completions", content=body) for body in bodies]
    assert len({chunks(answer)[0]["id"] for answer in answers}) == 8
    assert len({tuple(contents(answer)) for answer in answers}) > 1
    assert len({"".join(contents(answer)) for answer in answers}) == 1


def test_diary_entries_are_dated_in_the_given_zone():
    east = demo(zone=timezone(timedelta(hours=20)))
    for app, date in ((demo(), "2026-01-05"), (east, "2026-01-06")):
        response = ask("POST", "/v1/chat/completions", json=chat("remember tea"), app=app)
        assert f"dateString:「始」{date}「末」" in response.json()["choices"][0]["message"]["content"]


def test_several_choices_each_have_one_role_and_one_finish():
    got = chunks(ask("POST", "/v1/chat/completions", json=chat("hello", stream=True, n=2)))
    for index in (0, 1):
        own = [c["choices"][0] for c in got if c["choices"][0]["index"] == index]
        assert own[0]["delta"]["role"] == "assistant"
        assert [c["finish_reason"] for c in own if c["finish_reason"]] == ["stop"]
    assert len(ask("POST", "/v1/chat/completions", json=chat("hello", n=2)).json()["choices"]) == 2


@pytest.mark.parametrize("field", ["max_tokens", "max_completion_tokens"])
@pytest.mark.parametrize("text", ["hello", "你好"])
def test_a_token_limit_cuts_the_answer_with_length(field, text):
    choice = ask("POST", "/v1/chat/completions", json=chat(text, **{field: 3})).json()["choices"][0]
    assert choice["finish_reason"] == "length"
    assert 0 < len(choice["message"]["content"].encode()) <= 12
    got = chunks(ask("POST", "/v1/chat/completions", json=chat(text, stream=True, **{field: 3})))
    assert got[-1]["choices"][0]["finish_reason"] == "length"


def test_a_stop_word_ends_the_answer_before_it():
    choice = ask("POST", "/v1/chat/completions", json=chat("12*7", stop=[TOOL_END])).json()["choices"][0]
    assert choice["finish_reason"] == "stop"
    assert choice["message"]["content"].endswith("「末」\n")


def test_a_slow_answer_has_one_piece_per_line_and_every_wait_goes_through_the_pace():
    waits = []

    async def pace(seconds):
        waits.append(seconds)

    app = demo(delay=0.01, slow_delay=0.1, slow_lines=300, pace=pace)
    got = contents(ask("POST", "/v1/chat/completions", json=chat("slow", stream=True), app=app))
    assert waits.count(0.1) == 300
    assert waits.count(0.01) == len(got) - 300
    assert got[-1].endswith("300 of 300.")


def test_an_answer_that_is_not_streamed_waits_only_when_it_is_slow():
    waits = []

    async def pace(seconds):
        waits.append(seconds)

    app = demo(delay=0.01, slow_delay=0.1, pace=pace)
    ask("POST", "/v1/chat/completions", json=chat("hello"), app=app)
    assert set(waits) == {0}
    ask("POST", "/v1/chat/completions", json=chat("slow"), app=app)
    assert set(waits) == {0, 0.1}


@pytest.mark.parametrize("stream", [True, False])
def test_the_answer_stops_when_the_client_goes_away(stream):
    async def run():
        waiting, stopped = asyncio.Event(), asyncio.Event()

        async def pace(seconds):
            if not seconds:
                return
            waiting.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                stopped.set()
                raise

        async with (
            serve(demo(slow_delay=1, pace=pace)) as base,
            httpx.AsyncClient(trust_env=False, verify=False) as client,
        ):
            asking = asyncio.ensure_future(client.post(base + "/v1/chat/completions", json=chat("slow", stream=stream)))
            await waiting.wait()
            asking.cancel()
            async with asyncio.timeout(10):
                await stopped.wait()
            await asyncio.wait([asking])

    asyncio.run(run())


def test_a_stream_is_sent_piece_by_piece_not_all_at_the_end():
    async def run():
        go = asyncio.Event()

        async def pace(seconds):
            if seconds:
                await go.wait()

        async with (
            serve(demo(slow_delay=1, pace=pace)) as base,
            httpx.AsyncClient(trust_env=False, verify=False) as client,
        ):
            request = client.stream("POST", base + "/v1/chat/completions", json=chat("slow", stream=True))
            async with asyncio.timeout(10), request as response:
                text = ""
                async for piece in response.aiter_text():
                    text += piece
                    go.set()  # the server waits for this before its first slow line
                assert text.endswith("data: [DONE]\n\n")

    asyncio.run(run())


@pytest.mark.parametrize(
    ("body", "word"),
    [
        (b"{oops", "JSON"),
        (b"", "JSON"),
        (b"[]", "object"),
        (b'"\xff"', "JSON"),
        (b'{"model":"m"}', "messages"),
        (b'{"model":"m","messages":[]}', "messages"),
        (b'{"model":"m","messages":"hi"}', "messages"),
        (b'{"model":"m","messages":["hi"]}', "messages[0]"),
        (b'{"model":"m","messages":[{"content":"hi"}]}', "role"),
        (b'{"model":"m","messages":[{"role":"king","content":"hi"}]}', "role"),
        (b'{"model":"m","messages":[{"role":"user"}]}', "content"),
        (b'{"model":"m","messages":[{"role":"user","content":7}]}', "content"),
        (b'{"model":"m","messages":[{"role":"user","content":["hi"]}]}', "content[0]"),
        (b'{"model":"m","messages":[{"role":"user","content":[{"type":"text"}]}]}', "text"),
        (b'{"messages":[{"role":"user","content":"hi"}]}', "model"),
        (b'{"model":"m","n":0,"messages":[{"role":"user","content":"hi"}]}', "'n'"),
        (b'{"model":"m","n":true,"messages":[{"role":"user","content":"hi"}]}', "'n'"),
        (b'{"model":"m","max_tokens":"9","messages":[{"role":"user","content":"hi"}]}', "max_tokens"),
        (b'{"model":"m","stop":[1],"messages":[{"role":"user","content":"hi"}]}', "stop"),
        (b'{"model":"m","stream_options":[],"messages":[{"role":"user","content":"hi"}]}', "stream_options"),
    ],
)
def test_a_bad_chat_body_gets_an_error_object_that_names_the_fault(body, word):
    response = ask("POST", "/v1/chat/completions", content=body)
    assert response.status_code == 400
    error = response.json()["error"]
    assert word in error["message"]
    assert error["type"] == "invalid_request_error"
    assert set(error) == {"message", "type", "param", "code"}


def test_a_stream_flag_that_is_not_true_asks_for_a_whole_answer():
    response = ask("POST", "/v1/chat/completions", json=chat("hello", stream="true"))
    assert response.json()["object"] == "chat.completion"


def test_unknown_fields_and_assistant_messages_without_content_are_accepted():
    messages = [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": None},
        {"role": "user", "content": "12*7"},
    ]
    response = ask(
        "POST", "/v1/chat/completions", json={"model": "m", "messages": messages, "foo": 1, "messageId": "x"}
    )
    assert TOOL_START in response.json()["choices"][0]["message"]["content"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 404),
        ("POST", "/v1/v1/chat/completions", 404),
        ("GET", "/v1/chat/completions", 405),
        ("POST", "/v1/models", 405),
    ],
)
def test_unknown_addresses_and_methods_get_an_error_object(method, path, status):
    response = ask(method, path)
    assert response.status_code == status
    assert path in response.json()["error"]["message"]


def test_a_body_over_the_limit_is_refused(monkeypatch):
    monkeypatch.setattr("app.demo.upstream.MAX_BODY_BYTES", 100)
    response = ask("POST", "/v1/chat/completions", json=chat("x" * 100))
    assert response.status_code == 413
    assert "100 bytes" in response.json()["error"]["message"]


def test_embeddings_are_normalised_and_deterministic_and_alike_for_like_texts():
    body = {"model": "m", "input": ["the cat sat on the mat", "the cat sat on a mat", "量子力学的测量问题"]}
    first, second = (ask("POST", "/v1/embeddings", json=body).json() for _ in range(2))
    assert first == second
    assert [item["index"] for item in first["data"]] == [0, 1, 2]
    a, b, c = (item["embedding"] for item in first["data"])
    assert len(a) == 256
    assert all(math.isclose(sum(x * x for x in v), 1.0, rel_tol=1e-9) for v in (a, b, c))
    assert sum(x * y for x, y in zip(a, b, strict=True)) > sum(x * y for x, y in zip(a, c, strict=True)) + 0.3


@pytest.mark.parametrize("given", ["a", ["a", "b"], [1, 2, 3], [[1, 2], [3]]])
def test_embeddings_take_texts_and_token_lists(given):
    response = ask("POST", "/v1/embeddings", json={"model": "m", "input": given})
    assert response.status_code == 200


@pytest.mark.parametrize("dimensions", [1, 8, 1024])
def test_the_wanted_number_of_dimensions_is_given(dimensions):
    body = {"model": "m", "input": "text", "dimensions": dimensions}
    vector = ask("POST", "/v1/embeddings", json=body).json()["data"][0]["embedding"]
    assert len(vector) == dimensions
    assert math.isclose(sum(x * x for x in vector), 1.0, rel_tol=1e-9)


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({}, "input"),
        ({"input": []}, "input"),
        ({"input": ""}, "input[0]"),
        ({"input": ["a", 1.5]}, "input[1]"),
        ({"input": ["a"] * 2049}, "2048"),
        ({"input": "a" * 32_769}, "input[0]"),
        ({"input": "a", "dimensions": 0}, "dimensions"),
        ({"input": "a", "encoding_format": "hex"}, "encoding_format"),
    ],
)
def test_a_bad_embedding_body_gets_an_error_object(fields, word):
    response = ask("POST", "/v1/embeddings", json={"model": "m", **fields})
    assert response.status_code == 400
    assert word in response.json()["error"]["message"]


def test_rerank_sorts_by_what_query_and_document_share():
    documents = ["nothing of the kind", {"text": "我喜欢喝茶"}, "tea in the morning"]
    body = {"model": "m", "query": "喜欢喝茶", "documents": documents, "top_n": 2, "return_documents": True}
    results = ask("POST", "/v1/rerank", json=body).json()["results"]
    assert results[0] == {"index": 1, "relevance_score": 1.0, "document": {"text": "我喜欢喝茶"}}
    assert [result["index"] for result in results] == [1, 0]


def test_rerank_gives_all_documents_when_no_number_is_named():
    results = ask("POST", "/v1/rerank", json={"model": "m", "query": "a", "documents": ["b", "a"]}).json()["results"]
    assert [result["index"] for result in results] == [1, 0]
    assert all(set(result) == {"index", "relevance_score"} for result in results)


@pytest.mark.parametrize(
    "fields", [{"query": ""}, {"documents": []}, {"documents": [1]}, {"documents": [{}]}, {"top_n": 0}]
)
def test_a_bad_rerank_body_gets_an_error_object(fields):
    body = {"model": "m", "query": "a", "documents": ["b"], **fields}
    response = ask("POST", "/v1/rerank", json=body)
    assert response.status_code == 400
    assert next(iter(fields)) in response.json()["error"]["message"]


def test_the_official_client_works_with_everything():
    async def run():
        async with (
            serve(demo()) as base,
            openai.AsyncOpenAI(base_url=base + "/v1", api_key="any", max_retries=0) as client,
        ):
            assert {model.id async for model in client.models.list()} == set(MODEL_IDS)

            assert (await client.models.retrieve(MODEL_IDS[0])).id == MODEL_IDS[0]
            with pytest.raises(openai.NotFoundError, match="no model"):
                await client.models.retrieve("other")

            messages = [{"role": "user", "content": "what is 12*7"}]
            whole = await client.chat.completions.create(model="m", messages=messages)
            text = whole.choices[0].message.content
            assert TOOL_START in text

            stream = await client.chat.completions.create(
                model="m", messages=messages, stream=True, stream_options={"include_usage": True}
            )
            pieces, usage = [], None
            async for chunk in stream:
                usage = chunk.usage or usage
                pieces += [choice.delta.content or "" for choice in chunk.choices]
            assert "".join(pieces) == text
            assert usage.completion_tokens == whole.usage.completion_tokens

            # The client asks for base64 by itself and unpacks it.
            packed = await client.embeddings.create(model="m", input=["a cat", "猫"], dimensions=16)
            plain = await client.embeddings.create(
                model="m", input=["a cat", "猫"], dimensions=16, encoding_format="float"
            )
            for one, other in zip(packed.data, plain.data, strict=True):
                assert len(one.embedding) == 16
                assert all(
                    math.isclose(x, y, abs_tol=1e-6) for x, y in zip(one.embedding, other.embedding, strict=True)
                )

            with pytest.raises(openai.BadRequestError, match="messages"):
                await client.chat.completions.create(model="m", messages=[])
            with pytest.raises(openai.NotFoundError):
                await client.files.list()

            answers = await asyncio.gather(
                *(
                    client.chat.completions.create(model="m", messages=[{"role": "user", "content": f"{n}+1"}])
                    for n in range(20)
                )
            )
            for n, answer in enumerate(answers):
                assert f"expression:「始」{n}+1「末」" in answer.choices[0].message.content

    asyncio.run(run())


def test_the_official_client_can_interrupt_a_slow_stream():
    async def run():
        stopped = asyncio.Event()
        lines = 0

        async def pace(seconds):
            nonlocal lines
            if seconds:
                lines += 1
                if lines > 2:
                    try:
                        await asyncio.Event().wait()
                    except asyncio.CancelledError:
                        stopped.set()
                        raise

        app = demo(slow_delay=1, slow_lines=300, pace=pace)
        async with serve(app) as base, openai.AsyncOpenAI(base_url=base + "/v1", api_key="any") as client:
            messages = [{"role": "user", "content": "slow"}]
            stream = await client.chat.completions.create(model="m", messages=messages, stream=True)
            async for chunk in stream:
                if "Line 2" in (chunk.choices[0].delta.content or ""):
                    break
            await stream.close()
            async with asyncio.timeout(10):
                await stopped.wait()

    asyncio.run(run())
