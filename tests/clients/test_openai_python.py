"""The official Python client against a real server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from openai import AsyncOpenAI, OpenAI
from openai.types.chat import ChatCompletionChunk, ChatCompletionUserMessageParam

from app.demo.script import Close, EventStyle, Scripted, broken, json_reply, raw_reply, say
from app.demo.scripted import ScriptedUpstream
from tests.program import Program, started
from tests.server import HEADERS, run, running

BASES = ("{address}/v1", "{address}/v1/", "{address}", "{address}/", "{address}/v1/v1")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """A first start with the demo model."""
    with started("serve", "--port", "0", cwd=tmp_path_factory.mktemp("home")) as program:
        yield program


@pytest.fixture(scope="module")
def client(server: Program) -> Iterator[OpenAI]:
    with httpx.Client(trust_env=False) as http:
        yield OpenAI(base_url=server.base_url, api_key=server.key, max_retries=0, http_client=http)


def asynchronous(base_url: str, key: str, http: httpx.AsyncClient) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=base_url, api_key=key, max_retries=0, http_client=http)


def asking(text: str) -> list[ChatCompletionUserMessageParam]:
    return [{"role": "user", "content": text}]


def text_of(chunks: list[ChatCompletionChunk]) -> str:
    return "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)


def after_the_call(text: str) -> str:
    """What the model said once it had the result."""
    call, end, rest = text.rpartition("<<<[END_TOOL_REQUEST]>>>")
    assert "SciCalculator" in call
    assert end
    return rest


def test_an_answer_in_one_piece_holds_the_call_and_the_words_after_it(client: OpenAI) -> None:
    answer = client.chat.completions.create(model="vcp-demo", messages=asking("What is 12*7?"))
    (choice,) = answer.choices
    assert "84" in after_the_call(choice.message.content or "")
    assert (choice.finish_reason, choice.message.role, answer.object) == ("stop", "assistant", "chat.completion")


def test_a_stream_is_one_answer_with_one_end(client: OpenAI) -> None:
    chunks = list(client.chat.completions.create(model="vcp-demo", messages=asking("What is 12*7?"), stream=True))
    assert "84" in after_the_call(text_of(chunks))
    choices = [choice for chunk in chunks for choice in chunk.choices]
    assert [choice.delta.role for choice in choices if choice.delta.role] == ["assistant"]
    assert [choice.finish_reason for choice in choices if choice.finish_reason] == ["stop"]
    assert choices[-1].finish_reason == "stop"


def test_the_usage_of_a_stream_comes_once_and_counts_all_rounds(client: OpenAI) -> None:
    options: Any = {"include_usage": True}
    stream = client.chat.completions.create(
        model="vcp-demo", messages=asking("What is 12*7?"), stream=True, stream_options=options
    )
    (usage,) = [chunk.usage for chunk in stream if chunk.usage]
    whole = client.chat.completions.create(model="vcp-demo", messages=asking("What is 12*7?")).usage
    assert whole is not None
    assert usage.total_tokens == whole.total_tokens == usage.prompt_tokens + usage.completion_tokens


def test_the_stream_helper_of_the_client_puts_the_same_answer_together(client: OpenAI) -> None:
    with client.chat.completions.stream(model="vcp-demo", messages=asking("What is 12*7?")) as stream:
        final = stream.get_final_completion()
    whole = client.chat.completions.create(model="vcp-demo", messages=asking("What is 12*7?"))
    assert final.choices[0].message.content == whole.choices[0].message.content


def test_twenty_at_once_get_their_own_answers(server: Program) -> None:
    async def test() -> None:
        async with httpx.AsyncClient(trust_env=False, limits=httpx.Limits(max_connections=20)) as http:
            api = asynchronous(server.base_url, server.key, http)

            async def ask(number: int) -> tuple[int, str]:
                messages = asking(f"What is {number}*1001?")
                if number % 2:
                    answer = await api.chat.completions.create(model="vcp-demo", messages=messages)
                    return number, answer.choices[0].message.content or ""
                stream = await api.chat.completions.create(model="vcp-demo", messages=messages, stream=True)
                return number, text_of([chunk async for chunk in stream])

            answers = await asyncio.gather(*(ask(number) for number in range(101, 121)))
        for number, text in answers:
            assert str(number * 1001) in after_the_call(text)
            others = {str(other * 1001) for other, _ in answers if other != number}
            assert not [other for other in others if other in text]

    run(test())


@pytest.mark.parametrize("field", ["requestId", "messageId"])
def test_an_interrupt_ends_the_stream_in_good_order(server: Program, field: str) -> None:
    async def test() -> None:
        async with httpx.AsyncClient(trust_env=False) as http:
            api = asynchronous(server.base_url, server.key, http)
            stream = await api.chat.completions.create(
                model="vcp-demo", messages=asking("slow"), stream=True, extra_body={field: f"by-{field}"}
            )
            chunks = [await anext(stream)]
            told = await api.post("/interrupt", body={field: f"by-{field}"}, cast_to=httpx.Response)
            assert told.json()["status"] == "success"
            chunks += [chunk async for chunk in stream]
            assert [choice.finish_reason for choice in chunks[-1].choices] == ["stop"]
            with pytest.raises(openai.NotFoundError):
                await api.post("/interrupt", body={field: f"by-{field}"}, cast_to=httpx.Response)

    run(test())


def test_leaving_a_stream_early_leaves_a_server_that_goes_on(client: OpenAI) -> None:
    with client.chat.completions.create(model="vcp-demo", messages=asking("slow"), stream=True) as stream:
        next(iter(stream))
    assert client.chat.completions.create(model="vcp-demo", messages=asking("hello")).choices


def test_the_models_are_listed(client: OpenAI) -> None:
    assert "vcp-demo" in [model.id for model in client.models.list()]


@pytest.mark.parametrize("base", BASES)
def test_a_base_url_may_be_written_in_many_ways(server: Program, base: str) -> None:
    address = server.base_url.removesuffix("/v1")
    with httpx.Client(trust_env=False) as http:
        api = OpenAI(base_url=base.format(address=address), api_key=server.key, max_retries=0, http_client=http)
        assert api.models.list().data
        assert api.chat.completions.create(model="vcp-demo", messages=asking("hello")).choices[0].message.content


@pytest.mark.parametrize("key", ["wrong", "undefined"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_wrong_key_is_an_authentication_error(client: OpenAI, key: str, stream: bool) -> None:
    with pytest.raises(openai.AuthenticationError, match="Unauthorized") as caught:
        client.with_options(api_key=key).chat.completions.create(
            model="vcp-demo", messages=asking("hello"), stream=stream
        )
    assert caught.value.code == "invalid_api_key"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("messages", ["hello", [], ["hello"], None])
def test_bad_messages_are_a_bad_request_that_names_them(client: OpenAI, messages: Any, stream: bool) -> None:
    with pytest.raises(openai.BadRequestError, match="messages") as caught:
        client.chat.completions.create(model="vcp-demo", messages=messages, stream=stream)
    assert caught.value.type == "invalid_request_error"


def test_what_is_not_offered_yet_is_not_found(client: OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="404"):
        client.files.list()


def test_texts_become_vectors(client: OpenAI) -> None:
    texts = ["hello", "你好"]
    plain = client.embeddings.create(model="vcp-demo-embedding", input=texts, encoding_format="float")
    packed = client.embeddings.create(model="vcp-demo-embedding", input=texts)
    assert [item.index for item in plain.data] == [0, 1]
    for one, other in zip(plain.data, packed.data, strict=True):
        assert one.embedding == pytest.approx(other.embedding, abs=1e-6)


def test_pictures_speech_recordings_and_moderation_pass_through(tmp_path: Path) -> None:
    async def test() -> None:
        script: list[Scripted] = [
            json_reply({"created": 1, "data": [{"b64_json": "QUJD"}]}),
            raw_reply(b"ID3" + bytes(range(256)) * 1000, 200, "audio/mpeg"),
            json_reply({"text": "你好"}),
            json_reply({"id": "m", "model": "m", "results": []}),
            json_reply({"id": "org/model", "object": "model", "created": 1, "owned_by": "org"}),
        ]
        async with (
            ScriptedUpstream(script) as upstream,
            running(tmp_path, upstream.base_url) as server,
            httpx.AsyncClient(trust_env=False, event_hooks={"request": [with_key]}) as http,
        ):
            api = asynchronous(f"{server.url}/v1", "ascii", http)
            images = await api.images.generate(model="draw", prompt="a cat")
            assert images.data is not None and images.data[0].b64_json == "QUJD"
            async with api.audio.speech.with_streaming_response.create(model="say", voice="alloy", input="x") as speech:
                assert len(await speech.read()) == 3 + 256_000
            recording = ("a.wav", b"RIFF" + b"x" * 1_000_000)
            assert (await api.audio.transcriptions.create(model="hear", file=recording)).text == "你好"
            assert (await api.moderations.create(input="x")).results == []
            assert (await api.models.retrieve("org/model")).id == "org/model"
            picture, speech_request, upload, _, model = upstream.requests
            assert picture.json["prompt"] == "a cat"
            assert speech_request.path == "/v1/audio/speech"
            assert upload.headers["content-type"].startswith("multipart/form-data; boundary=")
            assert recording[1] in upload.body and b"hear" in upload.body
            assert model.path == "/v1/models/org/model"

    run(test())


# ---------------------------------------------------------------- What the client sees of upstream errors

LIMITED = json_reply(
    {"error": {"message": "slow down", "type": "rate_limit", "code": "rl"}}, 429, [("retry-after", "99")]
)
REFUSED = json_reply({"error": {"message": "no such model", "type": "invalid_request_error", "code": "model"}}, 404)
DOWN = json_reply({"error": {"message": "out of order"}}, 500)


async def with_key(request: httpx.Request) -> None:
    """The client itself takes keys in ASCII only."""
    others = [pair for pair in request.headers.raw if pair[0].lower() != b"authorization"]
    request.headers = httpx.Headers([*others, *HEADERS.items()])


def meets(home: Path, script: list[Scripted], settings: list[str], **body: Any) -> Any:
    """The answer of a server with these settings before this upstream, or the exception that the client raises."""
    met: list[Any] = []

    async def test() -> None:
        async with (
            ScriptedUpstream(script) as upstream,
            running(home, upstream.base_url, config=["ApiRetries=1", *settings]) as server,
            httpx.AsyncClient(trust_env=False, event_hooks={"request": [with_key]}) as http,
        ):
            api = asynchronous(f"{server.url}/v1", "ascii", http)
            try:
                answer = await api.chat.completions.create(model="m", messages=asking("hello"), **body)
                met.append([chunk async for chunk in answer] if body.get("stream") else answer)
            except openai.OpenAIError as error:
                met.append(error)

    run(test())
    return met[0]


@pytest.mark.parametrize(
    ("reply", "kind", "said"),
    [
        (LIMITED, openai.RateLimitError, "slow down"),
        (REFUSED, openai.NotFoundError, "no such model"),
        (DOWN, openai.InternalServerError, "out of order"),
    ],
    ids=["429", "404", "500"],
)
@pytest.mark.parametrize("body", [{}, {"stream": True}], ids=["whole", "stream"])
def test_an_error_of_the_upstream_is_that_error_of_the_client(
    tmp_path: Path, reply: Any, kind: type[openai.APIStatusError], said: str, body: dict[str, Any]
) -> None:
    error = meets(tmp_path, [reply], ["UpstreamErrorsAsStatus=true"], **body)
    assert type(error) is kind
    assert said in str(error)


@pytest.mark.parametrize("reply", [LIMITED, REFUSED, DOWN], ids=["429", "404", "500"])
def test_by_default_a_stream_tells_an_error_of_the_upstream_as_readable_text(tmp_path: Path, reply: Any) -> None:
    chunks = meets(tmp_path, [reply], [], stream=True)
    said = text_of(chunks)
    assert str(reply.status) in said
    assert [choice.finish_reason for choice in chunks[-1].choices] == ["stop"]


@pytest.mark.parametrize("settings", [[], ["UpstreamErrorsAsStatus=true"]], ids=["readable", "status"])
def test_a_stream_that_breaks_off_keeps_what_was_said_and_has_an_end(tmp_path: Path, settings: list[str]) -> None:
    half = say("half an answer", finish=None, style=EventStyle(done=False)).streamed()
    chunks = meets(tmp_path, [broken(half, Close())], settings, stream=True)
    assert text_of(chunks).startswith("half an answer")
    assert chunks[-1].choices[0].finish_reason
