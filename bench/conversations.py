"""What the clients of the soak do: every kind of request, each with a judgement of its answer."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import aiohttp

ANSWER_SECONDS = 60.0
"""Longest wait for one answer."""

CHAT = "/v1/chat/completions"


class WrongAnswerError(Exception):
    """An answer was not what a client may rely on."""


@dataclass(frozen=True, slots=True)
class Client:
    """One client's way to the server."""

    session: aiohttp.ClientSession
    address: str
    key: str

    @property
    def headers(self) -> dict[str, str]:
        """Authorization of a request."""
        return {"Authorization": f"Bearer {self.key}"}

    def post(self, body: object, path: str = CHAT) -> Any:
        """A JSON request, to be used with ``async with``."""
        return self.session.post(self.address + path, json=body, headers=self.headers)


def asked(text: str, *, stream: bool, **fields: object) -> dict[str, object]:
    """A chat body."""
    return {"model": "demo", "stream": stream, "messages": [{"role": "user", "content": text}], **fields}


def text_of_stream(raw: bytes) -> str:
    """The text of a whole event stream; ``WrongAnswerError`` when a client could stumble over the stream."""
    events = [event for event in raw.split(b"\n\n") if event and not event.startswith(b":")]
    if not events or events[-1] != b"data: [DONE]" or events.count(b"data: [DONE]") != 1:
        raise WrongAnswerError(f"the stream does not end with one end mark: {raw[-200:]!r}")
    text, finishes, roles = "", 0, 0
    for event in events[:-1]:
        try:
            chunk = json.loads(event.removeprefix(b"data: "))
        except ValueError as error:
            raise WrongAnswerError(f"an event is not JSON: {event[:200]!r}") from error
        for choice in chunk["choices"]:
            text += choice["delta"].get("content") or ""
            finishes += choice["finish_reason"] is not None
            roles += "role" in choice["delta"]
    if finishes != 1 or roles != 1:
        raise WrongAnswerError(f"the stream has {finishes} finish reasons and {roles} roles")
    return text


def text_of_completion(answer: Any) -> str:
    """The text of a completion; ``WrongAnswerError`` when it is none."""
    try:
        choice = answer["choices"][0]
        text, finish = choice["message"]["content"], choice["finish_reason"]
    except (KeyError, IndexError, TypeError) as error:
        raise WrongAnswerError(f"not a completion: {str(answer)[:200]}") from error
    if not isinstance(text, str) or not isinstance(finish, str):
        raise WrongAnswerError(f"not a completion: {str(answer)[:200]}")
    return text


async def _says(client: Client, question: str, expected: str, *, stream: bool) -> None:
    async with client.post(asked(question, stream=stream)) as response:
        _expect(response.status == 200, f"status {response.status}")
        said = text_of_stream(await response.read()) if stream else text_of_completion(await response.json())
    _expect(expected in said, f"{expected!r} is not in {said[:300]!r}")


def _expect(right: bool, fault: str) -> None:
    if not right:
        raise WrongAnswerError(fault)


async def talk(client: Client, number: int) -> None:
    """A streamed answer without tools."""
    await _says(client, f"Hello for the {number}th time", "demo model", stream=True)


async def talk_plainly(client: Client, number: int) -> None:
    """A plain answer without tools."""
    await _says(client, f"Hello for the {number}th time", "demo model", stream=False)


async def calculate(client: Client, number: int) -> None:
    """A tool, streamed."""
    await _says(client, f"What is {number}*7?", str(number * 7), stream=True)


async def calculate_twice(client: Client, number: int) -> None:
    """Two tools at once, plain."""
    await _says(client, f"What is {number}+1? And what is {number}*3?", str(number * 3), stream=False)


async def call_what_is_missing(client: Client, number: int) -> None:
    """A tool that does not exist."""
    await _says(client, f"Please call a missing tool, {number}", "There is no tool", stream=True)


async def remember(client: Client, number: int) -> None:
    """A diary entry, written by a plugin."""
    await _says(client, f"Remember that note {number} is whole", "answered", stream=number % 2 == 0)


async def interrupt(client: Client, number: int) -> None:
    """A long answer, interrupted by its id."""
    name = f"soak-{number}"
    async with client.post(asked("slow, please", stream=True, requestId=name)) as response:
        _expect(response.status == 200, f"status {response.status}")
        begin = await response.content.readany()
        async with client.post({"requestId": name}, "/v1/interrupt") as answer:
            status = answer.status
        said = text_of_stream(begin + await response.read())
        _expect(status == 200, f"the interrupt got status {status}; the answer was {said[-300:]!r}")


async def hang_up(client: Client, number: int) -> None:
    """A client that goes away in the middle, of text or of a tool call."""
    question = "slow, please" if number % 2 else f"What is {number}*7?"
    async with client.post(asked(question, stream=True)) as response:
        _expect(response.status == 200, f"status {response.status}")
        await response.content.readany()
        response.close()


async def err(client: Client, number: int) -> None:
    """Requests that are refused, each with its status."""
    wrong_key = {"Authorization": "Bearer wrong"}
    for status, method, path, headers, data in (
        (400, "POST", CHAT, client.headers, b"{"),
        (400, "POST", CHAT, client.headers, b'{"messages":[]}'),
        (401, "POST", CHAT, wrong_key, b"{}"),
        (404, "GET", f"/v1/nothing-{number}", client.headers, None),
        (405, "GET", CHAT, client.headers, None),
        (404, "POST", "/v1/interrupt", client.headers, b'{"requestId":"nobody"}'),
    ):
        async with client.session.request(method, client.address + path, headers=headers, data=data) as response:
            _expect(response.status == status, f"{method} {path} got status {response.status}, not {status}")
            _expect("error" in await response.text(), f"{method} {path} got no error text")


Conversation = Callable[[Client, int], Awaitable[None]]

CONVERSATIONS: tuple[Conversation, ...] = (
    talk,
    calculate,
    talk_plainly,
    interrupt,
    calculate_twice,
    hang_up,
    call_what_is_missing,
    err,
    remember,
)
