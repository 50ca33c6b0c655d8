"""What MCP servers ask while their tools run, over the SDK's client and server in both eras (MCP-30, 52, 57, 62)."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from app.errors import VcpError
from app.extend import (
    AnswerAction,
    CallContext,
    Door,
    ErrorKind,
    Json,
    PersonAnswer,
    PersonQuestion,
    Question,
    ToolCall,
)
from app.mcp.client import questions
from app.mcp.client.questions import Questions
from app.mcp.client.sampling import Sampling
from tests.mcp.client.bench import bench
from tests.mcp.client.web import Peer, text
from tests.waiting import until

FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
WORDS = {"messages": [{"role": "user", "content": {"type": "text", "text": "say"}}], "maxTokens": 5}


@dataclass
class Entry:
    """An entry of the file of servers."""

    name: str = "files"
    sampling: bool = False
    sampling_model: str = ""
    roots: tuple[str, ...] = ()


@dataclass
class Person:
    """Whoever is asked by the server itself."""

    answer: PersonAnswer = field(default_factory=lambda: PersonAnswer(AnswerAction.DECLINE))
    asked: list[PersonQuestion] = field(default_factory=list)
    until: asyncio.Event | None = None

    async def ask(self, question: PersonQuestion, seconds: float) -> PersonAnswer:
        self.asked.append(question)
        if self.until is not None:
            await self.until.wait()
        return self.answer


@dataclass
class Asker:
    """A client that called: what it can, what it says, what it was asked."""

    answers: Mapping[Question, Any] = field(default_factory=dict)
    asked: list[tuple[Question, Any]] = field(default_factory=list)

    def can(self, question: Question, params: Mapping[str, Json]) -> bool:
        return question in self.answers

    async def ask(self, question: Question, params: Mapping[str, Json]) -> Mapping[str, Json]:
        self.asked.append((question, params))
        answer = self.answers[question]
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[no-any-return]

    def log(self, level: str, data: Json, logger: str = "") -> None: ...


class Our:
    """Our side: the person, the model, and the questions of one connection."""

    def __init__(self, home: Path, entry: Entry, seconds: float = 5.0) -> None:
        self.person = Person()
        self.model_asked: list[tuple[Any, int]] = []

        async def complete(body: dict[str, Json], depth: int) -> Json:
            self.model_asked.append((body, depth))
            return {"model": "ours", "choices": [{"message": {"content": "our word"}, "finish_reason": "stop"}]}

        self.questions = Questions(
            entry,
            home=home,
            people=lambda: self.person,
            sampling=Sampling(
                complete,
                model=lambda: "default-model",
                max_tokens=lambda: 100,
                per_minute=lambda: 100,
                max_depth=lambda: 5,
                clock=lambda: 0.0,
            ),
            seconds=lambda: seconds,
        )

    @asynccontextmanager
    async def connected(self, server: Server[Any], mode: str) -> AsyncIterator[Client]:
        asked = self.questions
        async with Client(
            server,
            mode=mode,
            sampling_callback=asked.sampling_callback,
            sampling_capabilities=asked.sampling_capabilities,
            elicitation_callback=asked.elicitation_callback,
            list_roots_callback=asked.list_roots_callback,
            read_timeout_seconds=20,
        ) as client:
            yield client

    async def call(self, client: Client, tool: str = "ask", caller: Asker | None = None) -> str:
        context = CallContext("turn", Door.MCP, depth=1, caller=caller)
        with self.questions.during(ToolCall("c", f"files.{tool}", {}), context):
            result = await client.call_tool(tool, {})
        (item,) = result.content
        assert isinstance(item, types.TextContent)
        return item.text


def legacy(request: Any, kind: type[Any]) -> Server[Any]:
    """A server that asks by a request of its own."""

    async def call(context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        try:
            answer = await context.session.send_request(request(), kind)
            text = answer.model_dump_json(by_alias=True, exclude_none=True, exclude={"result_type"})
        except MCPError as error:
            text = f"error {error.error.code}: {error.error.message}"
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)])

    return Server("asking", on_call_tool=call, on_list_tools=_tools)


def modern(request: Any, rounds: int = 1) -> Server[Any]:
    """A server that answers ``input_required`` and gets the answer with the repeated call."""
    asked = 0

    async def call(context: Any, params: types.CallToolRequestParams) -> Any:
        nonlocal asked
        if params.input_responses is None or asked < rounds:
            asked += 1
            return types.InputRequiredResult(input_requests={"q": request()}, request_state=f"state {asked}")
        assert params.request_state == f"state {rounds}"
        text = params.input_responses["q"].model_dump_json(by_alias=True, exclude_none=True, exclude={"result_type"})
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)])

    return Server("asking", on_call_tool=call, on_list_tools=_tools)


async def _tools(context: Any, params: Any) -> types.ListToolsResult:
    return types.ListToolsResult(tools=[types.Tool(name="ask", input_schema={"type": "object"})])


def elicit() -> types.ElicitRequest:
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message="Who?", requested_schema=FORM))


def visit(url: str = "https://bank.example/x") -> types.ElicitRequest:
    return types.ElicitRequest(params=types.ElicitRequestURLParams(message="Go", url=url, elicitation_id="e"))


def sample(**more: Any) -> types.CreateMessageRequest:
    return types.CreateMessageRequest(params=types.CreateMessageRequestParams.model_validate({**WORDS, **more}))


def roots() -> types.ListRootsRequest:
    return types.ListRootsRequest()


KINDS: Mapping[Any, type[Any]] = {
    elicit: types.ElicitResult,
    visit: types.ElicitResult,
    sample: types.CreateMessageResult,
    roots: types.ListRootsResult,
}


def answered(our: Our, request: Callable[[], Any], mode: str, caller: Asker | None = None, rounds: int = 1) -> str:
    server = legacy(request, KINDS.get(request, types.ElicitResult)) if mode == "legacy" else modern(request, rounds)

    async def main() -> str:
        async with our.connected(server, mode) as client:
            try:
                return await our.call(client, caller=caller)
            except MCPError as error:
                return f"error {error.error.code}: {error.error.message}"

    return asyncio.run(main())


ERAS = pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])


@ERAS
def test_a_form_is_answered_by_a_person(tmp_path: Path, mode: str) -> None:
    """D75, MCP-57: the same handler serves both eras."""
    our = Our(tmp_path, Entry())
    our.person.answer = PersonAnswer(AnswerAction.ACCEPT, {"name": "Ann"})
    assert answered(our, elicit, mode) == '{"action":"accept","content":{"name":"Ann"}}'
    (question,) = our.person.asked
    assert (question.asker, question.message, question.schema) == ("files", "Who?", FORM)
    assert (question.tool, question.context.turn_id) == ("files.ask", "turn")


@ERAS
def test_a_person_who_declines_is_told_to_the_server_and_no_model_is_asked(tmp_path: Path, mode: str) -> None:
    """D75: never by a model, sampling or not."""
    our = Our(tmp_path, Entry(sampling=True))
    assert answered(our, elicit, mode) == '{"action":"decline"}'
    assert not our.model_asked


@ERAS
@pytest.mark.parametrize(
    ("request_", "question", "answer", "text"),
    [
        (elicit, Question.ELICIT, {"action": "cancel"}, '{"action":"cancel"}'),
        (visit, Question.ELICIT, {"action": "accept"}, '{"action":"accept"}'),
        (
            sample,
            Question.SAMPLE,
            {"role": "assistant", "content": {"type": "text", "text": "theirs"}, "model": "x", "stopReason": "endTurn"},
            '{"role":"assistant","content":{"type":"text","text":"theirs"},"model":"x","stopReason":"endTurn"}',
        ),
        (
            roots,
            Question.ROOTS,
            {"roots": [{"uri": "file:///theirs", "name": "t"}]},
            '{"roots":[{"uri":"file:///theirs","name":"t"}]}',
        ),
    ],
)
def test_the_calling_client_is_asked_first(
    tmp_path: Path, mode: str, request_: Any, question: Question, answer: Any, text: str
) -> None:
    """MCP-62: questions go to the client behind the call, when it can."""
    our = Our(tmp_path, Entry(sampling=True, roots=("client",)))
    caller = Asker({question: answer})
    assert answered(our, request_, mode, caller) == text
    assert not our.person.asked and not our.model_asked
    ((asked, params),) = caller.asked
    assert asked is question
    assert "_meta" not in params


@ERAS
def test_where_the_calling_client_gives_no_answer_we_do(tmp_path: Path, mode: str) -> None:
    our = Our(tmp_path, Entry(sampling=True))
    caller = Asker({Question.SAMPLE: VcpError("gone"), Question.ELICIT: VcpError("gone")})
    assert '"our word"' in answered(our, sample, mode, caller)
    our.person.answer = PersonAnswer(AnswerAction.ACCEPT, {"name": "Ann"})
    assert '"Ann"' in answered(our, elicit, mode, caller)


@ERAS
def test_an_answer_of_a_client_without_the_right_shape_is_an_error(tmp_path: Path, mode: str) -> None:
    our = Our(tmp_path, Entry(sampling=True))
    caller = Asker({Question.ELICIT: {"action": "perhaps"}})
    assert answered(our, elicit, mode, caller).startswith("error -32603")


@ERAS
def test_with_consent_our_model_answers(tmp_path: Path, mode: str) -> None:
    """D75, MCP-52."""
    our = Our(tmp_path, Entry(sampling=True, sampling_model="for-files"))
    text = answered(our, sample, mode)
    assert '"text":"our word"' in text and '"model":"ours"' in text
    ((body, depth),) = our.model_asked
    assert (body["model"], depth) == ("for-files", 2)


def test_sampling_with_tools_has_the_other_shape(tmp_path: Path) -> None:
    our = Our(tmp_path, Entry(sampling=True))
    tool = {"name": "t", "inputSchema": {"type": "object"}}

    async def main() -> str:
        server = legacy(lambda: sample(tools=[tool]), types.CreateMessageResultWithTools)
        async with our.connected(server, "legacy") as client:
            return await our.call(client)

    assert '"content":[{"type":"text","text":"our word"}]' in asyncio.run(main())
    assert our.model_asked[0][0]["tools"][0]["function"]["name"] == "t"


def test_without_consent_sampling_is_not_declared_and_refused(tmp_path: Path) -> None:
    """D75: default off. MCP-62 as the SDK says it: -32600 for what was not declared."""
    our = Our(tmp_path, Entry())
    capabilities: list[Any] = []

    async def call(context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        capabilities.append(context.session.client_params.capabilities)
        return types.CallToolResult(content=[types.TextContent(type="text", text="done")])

    async def main() -> None:
        async with our.connected(Server("s", on_call_tool=call, on_list_tools=_tools), "legacy") as client:
            await our.call(client)

    asyncio.run(main())
    (declared,) = capabilities
    assert declared.sampling is None and declared.roots is None
    assert declared.elicitation is not None and declared.elicitation.url is not None
    assert answered(our, sample, "legacy").startswith("error -32600")
    assert not our.model_asked


def test_a_refusal_of_the_model_side_is_an_error_and_its_reason_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    our = Our(tmp_path, Entry(sampling=True))
    text = answered(our, lambda: sample(systemPrompt="x" * 2_000_000), "legacy")
    assert text.startswith("error -32600") and "too large" in text
    assert "sampling of MCP server files is refused" in caplog.text


@pytest.mark.parametrize("url", ["http://bank.example/", "https://bank.example@evil.example/", "javascript:x"])
@ERAS
def test_a_page_that_could_deceive_is_shown_to_nobody(tmp_path: Path, mode: str, url: str) -> None:
    our = Our(tmp_path, Entry())
    caller = Asker({Question.ELICIT: {"action": "accept"}})
    assert answered(our, lambda: visit(url), mode, caller) == '{"action":"decline"}'
    assert not caller.asked and not our.person.asked


def test_a_form_that_is_none_is_refused(tmp_path: Path) -> None:
    nested = {"type": "object", "properties": {"x": {"type": "object"}}}

    def request() -> types.ElicitRequest:
        return types.ElicitRequest(params=types.ElicitRequestFormParams(message="m", requested_schema=nested))

    our = Our(tmp_path, Entry())
    text = answered(our, request, "legacy")
    assert text.startswith("error -32602") and not our.person.asked


@ERAS
def test_folders_of_the_entry_are_told_relative_ones_to_the_home(tmp_path: Path, mode: str) -> None:
    our = Our(tmp_path, Entry(roots=("data dir", "/srv/books", "client")))
    text = answered(our, roots, mode)
    assert text == (
        f'{{"roots":[{{"uri":"file://{tmp_path}/data%20dir","name":"data dir"}},'
        '{"uri":"file:///srv/books","name":"books"}]}'
    )


class Rounds(Peer):
    """Wants to know the folders so many times before it gives a result, each time under a state of its own."""

    def __init__(self, rounds: int) -> None:
        super().__init__("ask")
        self.rounds = rounds
        self.states: list[str | None] = []

    async def _call(self, context: Any, params: types.CallToolRequestParams) -> Any:
        self.states.append(params.request_state)
        if len(self.states) <= self.rounds:
            return types.InputRequiredResult(input_requests={"q": roots()}, request_state=f"state {len(self.states)}")
        assert params.input_responses is not None
        return text(params.input_responses["q"].model_dump_json(by_alias=True, exclude_none=True))


@pytest.mark.parametrize("rounds", [1, 10, 11])
def test_questions_of_the_newest_revision_end_after_ten_rounds(tmp_path: Path, rounds: int) -> None:
    """MCP-57: through our own connection, which repeats the call with the answers and the very state that came."""
    our = Our(tmp_path, Entry(roots=("books",)))

    async def main() -> None:
        peer = Rounds(rounds)
        async with (
            peer.http() as url,
            bench(tmp_path, {"web": {"url": url, "roots": ["books"]}}, questions=lambda entry: our.questions) as b,
        ):
            result = await b.call("web.ask")
            if rounds <= 10:
                assert f"file://{tmp_path}/books" in str(result.structured)
            else:
                assert result.error_kind is ErrorKind.EXECUTION and "10 rounds" in result.message
            assert peer.states == [None, *(f"state {number}" for number in range(1, min(rounds, 10) + 1))]

    asyncio.run(main())


def test_a_question_belongs_to_its_call_or_to_nobody(tmp_path: Path) -> None:
    """MCP-62: over streams without an order nobody can tell whose question it is, so it goes to no client at all."""
    our = Our(tmp_path, Entry())
    our.person.answer = PersonAnswer(AnswerAction.ACCEPT, {"name": "Ann"})
    go, waiting = asyncio.Event(), asyncio.Event()

    async def call(context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        if params.name == "wait":
            waiting.set()
            await go.wait()
            return types.CallToolResult(content=[types.TextContent(type="text", text="waited")])
        # As over a pipe, which hands no context on; streams in memory do.
        asking = context.session.send_request(elicit(), types.ElicitResult)
        answer = await asyncio.create_task(asking, context=contextvars.Context())
        return types.CallToolResult(content=[types.TextContent(type="text", text=str(answer.content))])

    async def main() -> None:
        one, two = Asker({Question.ELICIT: {"action": "cancel"}}), Asker({Question.ELICIT: {"action": "cancel"}})
        async with our.connected(Server("s", on_call_tool=call, on_list_tools=_tools), "legacy") as client:
            other = asyncio.create_task(our.call(client, "wait", one))
            await waiting.wait()
            assert await our.call(client, "ask", two) == "{'name': 'Ann'}"
            go.set()
            assert await other == "waited"
        assert not one.asked and not two.asked
        (question,) = our.person.asked
        assert question.context.caller is None and question.tool == ""

    asyncio.run(main())


@pytest.mark.parametrize("limit", ["MAX_QUESTIONS_OF_A_CALL", "MAX_QUESTIONS_A_MINUTE"])
def test_a_server_cannot_wear_people_out_or_win_time_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, limit: str
) -> None:
    monkeypatch.setattr(questions, limit, 3)
    our = Our(tmp_path, Entry(sampling=True, roots=("notes",)))
    our.person.answer = PersonAnswer(AnswerAction.ACCEPT, {"name": "Ann"})

    async def call(context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        answers = [(await context.session.send_request(elicit(), types.ElicitResult)).action for _ in range(5)]
        for request, kind in ((sample(), types.CreateMessageResult), (roots(), types.ListRootsResult)):
            with pytest.raises(MCPError, match="Too many questions"):
                await context.session.send_request(request, kind)
        return types.CallToolResult(content=[types.TextContent(type="text", text=" ".join(answers))])

    async def main() -> str:
        async with our.connected(Server("s", on_call_tool=call, on_list_tools=_tools), "legacy") as client:
            return await our.call(client)

    assert asyncio.run(main()) == "accept accept accept decline decline"
    assert len(our.person.asked) == 3 and not our.model_asked
    assert "asks too much" in caplog.text


def test_while_a_person_is_asked_the_time_of_the_call_stands_still(tmp_path: Path) -> None:
    """D74, MCP-53: whoever counts the time of a call sees that a question is open."""
    our = Our(tmp_path, Entry())
    our.person.answer = PersonAnswer(AnswerAction.ACCEPT, {"name": "Ann"})
    our.person.until = asyncio.Event()

    async def main() -> None:
        async with our.connected(legacy(elicit, types.ElicitResult), "legacy") as client:
            with our.questions.during(ToolCall("c", "files.ask", {}), CallContext("t", Door.MCP)) as running:
                call = asyncio.create_task(client.call_tool("ask", {}))
                await until(lambda: our.person.asked)
                assert running.open == 1
                assert our.person.until is not None
                our.person.until.set()
                await call
                assert running.open == 0 and running.answered > 0

    asyncio.run(main())


def test_nothing_of_a_question_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="app")
    our = Our(tmp_path, Entry(sampling=True))
    answered(our, sample, "legacy")
    answered(our, elicit, "legacy", Asker({Question.ELICIT: VcpError("gone")}))
    assert "say" not in caplog.text and "Who?" not in caplog.text
