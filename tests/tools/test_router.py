"""The router: names, order of checks, arguments, events (spec 4.4, 4.5; D4, D5, D22, D39, D68)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from app.extend import (
    CallContext,
    CallFinished,
    CallStarted,
    Door,
    ErrorKind,
    Event,
    Outcome,
    ToolCall,
    ToolCommand,
    ToolResult,
    ToolSpec,
)
from app.tools.guard import PasswordGuard
from app.tools.router import Router, prepare_arguments
from tests.fixed_tools import FixedTools

CONTEXT = CallContext("turn-1", Door.STREAM)


class Events:
    def __init__(self) -> None:
        self.seen: list[Event] = []

    def publish(self, event: Event) -> None:
        self.seen.append(event)

    @property
    def finished(self) -> CallFinished:
        (event,) = [event for event in self.seen if isinstance(event, CallFinished)]
        return event


class Source(FixedTools):
    """Tools that answer with what they were given."""

    def __init__(
        self,
        *specs: ToolSpec,
        work: Callable[..., Any] | None = None,
        unlisted: Mapping[str, ToolSpec] | None = None,
    ) -> None:
        super().__init__(*specs)
        self._work = work
        self._unlisted = unlisted or {}
        self.calls: list[ToolCall] = []

    def addressed(self, name: str) -> ToolSpec | None:
        return self._unlisted.get(name)

    async def call(
        self, spec: ToolSpec, call: ToolCall, context: CallContext, started: Callable[..., None]
    ) -> ToolResult:
        self.calls.append(call)
        if self._work is not None:
            result = await self._work(started)
            assert isinstance(result, ToolResult)
            return result
        started(pid=7)
        return ToolResult(structured={"origin": spec.origin, "command": call.command})


def tool(name: str, *commands: ToolCommand, origin: str = "local") -> ToolSpec:
    return ToolSpec(name, origin, name, commands)


def command(id: str, typed: bool = False, **properties: Any) -> ToolCommand:
    parameters = {"type": "object", "properties": properties} if properties else None
    return ToolCommand(id, id, "d", parameters=parameters, typed=typed)


def ask(router: Router, name: str, **arguments: str) -> ToolResult:
    return asyncio.run(router.call(ToolCall("c1", name, arguments, texts=arguments), CONTEXT))


def test_a_call_is_published_with_its_beginning_and_end() -> None:
    events = Events()
    result = ask(Router([Source(tool("A"))], [], events), "A")
    assert result.structured == {"origin": "local", "command": None}
    started, finished = events.seen
    assert started == CallStarted("turn-1", "c1", "A", Door.STREAM, "local", False, 7)
    assert isinstance(finished, CallFinished)
    assert (finished.outcome, finished.result, finished.spec) == (Outcome.SUCCESS, result, tool("A"))
    assert finished.waited >= 0 <= finished.ran


def test_a_beginning_that_nobody_hears_is_not_told_and_the_end_says_that_the_work_began() -> None:
    events = Events()
    router = Router([Source(tool("A"))], [], events, started_wanted=lambda: False)
    assert ask(router, "A").ok
    assert [type(event) for event in events.seen] == [CallFinished]
    assert events.finished.begun


def test_a_source_that_begins_twice_began_once() -> None:
    async def twice(started: Callable[..., None]) -> ToolResult:
        started(pid=1)
        started(pid=2)
        return ToolResult(structured=1)

    events = Events()
    ask(Router([Source(tool("A"), work=twice)], [], events), "A")
    assert [event.pid for event in events.seen if isinstance(event, CallStarted)] == [1]


def test_an_unknown_tool_is_a_result_that_names_it_and_never_started() -> None:
    events = Events()
    result = ask(Router([Source(tool("A"))], [], events), "B")
    assert result.error_kind is ErrorKind.UNKNOWN_TOOL
    assert '"B"' in result.message
    assert [type(event) for event in events.seen] == [CallFinished]
    assert (events.finished.spec, events.finished.outcome, events.finished.ran) == (None, Outcome.ERROR, 0.0)


@pytest.mark.parametrize("name", ["A", "Unknown"])
def test_the_password_is_asked_for_before_it_is_told_whether_a_tool_exists(name: str) -> None:
    source = Source(tool("A"))
    events = Events()
    result = ask(Router([source], [PasswordGuard(lambda: "123456")], events), name)
    assert result.error_kind is ErrorKind.REFUSED
    assert source.calls == []
    assert events.finished.outcome is Outcome.ERROR


def test_guards_are_asked_in_order_and_the_first_refusal_counts() -> None:
    asked: list[str] = []

    class Says:
        def __init__(self, name: str, refuses: bool) -> None:
            self.name, self.refuses = name, refuses

        async def check(self, spec: ToolSpec | None, call: ToolCall, context: CallContext) -> ToolResult | None:
            asked.append(self.name)
            return ToolResult(error_kind=ErrorKind.REFUSED, message=self.name) if self.refuses else None

    guards = [Says("first", False), Says("second", True), Says("third", True)]
    assert ask(Router([Source(tool("A"))], guards, Events()), "A").message == "second"
    assert asked == ["first", "second"]


def test_a_guard_that_fails_refuses() -> None:
    class Broken:
        async def check(self, spec: ToolSpec | None, call: ToolCall, context: CallContext) -> ToolResult | None:
            raise ZeroDivisionError("no list of codes")

    source = Source(tool("A"))
    result = ask(Router([source], [Broken()], Events()), "A")
    assert result.error_kind is ErrorKind.EXECUTION
    assert source.calls == []


def test_a_source_that_raises_becomes_an_error_result() -> None:
    async def work(started: Callable[..., None]) -> ToolResult:
        started()
        raise ZeroDivisionError("by nought")

    events = Events()
    result = ask(Router([Source(tool("A"), work=work)], [], events), "A")
    assert (result.error_kind, result.message) == (ErrorKind.EXECUTION, "ZeroDivisionError: by nought")
    assert events.finished.outcome is Outcome.ERROR


def test_a_cancelled_call_is_published_as_cancelled_and_the_caller_is_told() -> None:
    events = Events()
    begun = asyncio.Event()

    async def work(started: Callable[..., None]) -> ToolResult:
        started()
        begun.set()
        await asyncio.Event().wait()
        raise AssertionError

    async def main() -> None:
        router = Router([Source(tool("A"), work=work)], [], events)
        task = asyncio.create_task(router.call(ToolCall("c1", "A", {}), CONTEXT))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert (events.finished.outcome, events.finished.result.error_kind) == (Outcome.CANCELLED, ErrorKind.CANCELLED)


def test_a_call_that_the_server_ended_counts_as_cancelled_too() -> None:
    async def work(started: Callable[..., None]) -> ToolResult:
        return ToolResult(error_kind=ErrorKind.CANCELLED, message="stopping")

    events = Events()
    ask(Router([Source(tool("A"), work=work)], [], events), "A")
    assert events.finished.outcome is Outcome.CANCELLED


@pytest.mark.parametrize(
    ("name", "origin", "wanted"),
    [
        ("A", "local", None),
        ("A.run", "local", "run"),
        ("A.walk", None, None),
        ("B", "far", None),
        ("Wan2.1Video", "local", None),
        ("Wan2.1Video.make", "local", "make"),
        ("A.literal", "local", "literal"),
        ("A.", None, None),
        (".A", None, None),
        (".", None, None),
        ("", None, None),
        ("a", None, None),
        ("A.run.run", None, None),
    ],
)
def test_names_with_and_without_dots(name: str, origin: str | None, wanted: str | None) -> None:
    local = Source(tool("A", command("run"), command("literal")), tool("Wan2.1Video", command("make")))
    far = Source(tool("A", origin="far"), tool("B", origin="far"), tool("A.literal", origin="far"))
    result = ask(Router([local, far], [], Events()), name)
    if origin is None:
        assert result.error_kind is ErrorKind.UNKNOWN_TOOL
    else:
        assert result.structured == {"origin": origin, "command": wanted}


def test_a_name_that_nobody_lists_is_asked_for_and_its_call_and_events_keep_it_as_written() -> None:
    far = Source(tool("Echo", origin="far"), unlisted={"attic#Echo": tool("Echo", origin="attic")})
    local = Source(tool("Echo"), unlisted={"Echo": tool("Echo", origin="shadow")})
    events = Events()
    router = Router([local, far], [], events)
    assert ask(router, "attic#Echo").structured == {"origin": "attic", "command": None}
    assert [call.tool for call in far.calls] == ["attic#Echo"]
    started, finished = events.seen
    assert isinstance(started, CallStarted)
    assert (started.tool, started.origin) == ("attic#Echo", "attic")
    assert isinstance(finished, CallFinished)
    assert (finished.call.tool, finished.spec) == ("attic#Echo", tool("Echo", origin="attic"))
    assert ask(router, "Echo").structured == {"origin": "local", "command": None}
    assert ask(router, "cellar#Echo").error_kind is ErrorKind.UNKNOWN_TOOL


def test_a_command_may_be_named_behind_an_address_too() -> None:
    far = Source(unlisted={"attic#Echo": tool("Echo", command("run"), origin="attic")})
    router = Router([far], [], Events())
    assert ask(router, "attic#Echo.run").structured == {"origin": "attic", "command": "run"}
    assert [call.tool for call in far.calls] == ["attic#Echo.run"]
    for name in ("attic#Echo.walk", "cellar#Echo.run", "attic#Echo.", ".run"):
        assert ask(router, name).error_kind is ErrorKind.UNKNOWN_TOOL


def test_of_equal_names_the_first_source_wins_and_keeps_its_order() -> None:
    router = Router(
        [Source(tool("B"), tool("A")), Source(tool("C", origin="far"), tool("A", origin="far"))], [], Events()
    )
    assert [(spec.name, spec.origin) for spec in router.specs().values()] == [
        ("B", "local"),
        ("A", "local"),
        ("C", "far"),
    ]


class Noting:
    """A guard that lets everything pass and remembers what it was shown."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str | None, str | None]] = []

    async def check(self, spec: ToolSpec | None, call: ToolCall, context: CallContext) -> ToolResult | None:
        self.seen.append((call.tool, spec and spec.name, call.command))
        return None


NOVEL = tool("Novel", ToolCommand("Read", "read", "d", tool_name="novel_read"), command("Write"))


@pytest.mark.parametrize(
    ("name", "wanted"),
    [("novel_read", "read"), ("Novel.Read", "Read"), ("Novel.read", "read"), ("Novel", None), ("Nobody", None)],
)
def test_guards_and_events_see_the_name_as_written_the_tool_and_its_command(name: str, wanted: str | None) -> None:
    events, guard = Events(), Noting()
    ask(Router([Source(NOVEL)], [guard], events), name)
    whose = None if name == "Nobody" else "Novel"
    assert guard.seen == [(name, whose, wanted)]
    finished = events.finished
    assert (finished.call.tool, finished.call.command, finished.spec and finished.spec.name) == (name, wanted, whose)
    assert [event.tool for event in events.seen if isinstance(event, CallStarted)] == [name] * (whose is not None)


def test_a_callers_own_word_for_the_command_does_not_count() -> None:
    source = Source(NOVEL)
    call = ToolCall("c1", "Novel", {}, command="Write")
    asyncio.run(Router([source], [], Events()).call(call, CONTEXT))
    assert [call.command for call in source.calls] == [None]


@pytest.mark.parametrize(
    ("arguments", "refused"),
    [
        ({"command": "Write"}, True),
        ({"COMMAND": " Write "}, True),
        ({"command1": "Read", "command_2": "Write"}, True),
        ({"command1": "Read", "command2": "other"}, False),
        ({"command": "Read"}, False),
        ({"command": "novel_read"}, False),
        ({"command": "anything else"}, False),
        ({}, False),
    ],
)
def test_what_a_guard_allowed_by_name_cannot_become_another_command(arguments: dict[str, str], refused: bool) -> None:
    source, events = Source(NOVEL), Events()
    result = ask(Router([source], [], events), "novel_read", **arguments)
    assert (result.error_kind is ErrorKind.EXECUTION) is refused
    assert (source.calls == []) is refused
    assert ('"Write"' in result.message) is refused
    assert isinstance(events.finished, CallFinished)


@pytest.mark.parametrize(("name", "wanted"), [("Novel", "read"), ("novel_read", "read"), ("Novel.Read", "read")])
def test_a_program_is_told_the_word_it_knows_where_a_model_wrote_the_commands_own_name(name: str, wanted: str) -> None:
    source = Source(NOVEL)
    assert ask(Router([source], [], Events()), name, Command=" novel_read ", text="novel_read").ok
    assert source.calls[0].arguments == {"Command": wanted, "text": "novel_read"}
    assert source.calls[0].texts == source.calls[0].arguments


def test_an_argument_command_that_is_the_commands_own_stays_its_own() -> None:
    source = Source(tool("Shell", command("run", command={"type": "string"}), command("stop")))
    assert ask(Router([source], [], Events()), "Shell.run", command="stop").ok
    assert source.calls[0].arguments == {"command": "stop"}


def test_names_are_those_of_now_and_what_is_not_in_force_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    source = Source(tool("A"))
    far = Source(tool("novel_read", origin="far"))
    router = Router([source, far], [], Events())
    assert router.find("novel_read") is not None
    assert [listed.name for listed in router.listed()] == ["A", "novel_read"]
    source.specs = {"Novel": NOVEL}
    assert router.find("A") is None
    assert [listed.name for listed in router.listed()] == ["novel_read", "Novel.Write"]
    assert list(router.specs()) == ["Novel"]
    far.specs = {**far.specs, "B": tool("B", origin="far")}
    assert router.find("B") is not None
    assert caplog.messages == ["tool novel_read of far is not used: a command on this machine is that"]


TEXT = {"type": "string"}


@pytest.mark.parametrize(
    ("declared", "given", "expected"),
    [
        pytest.param(["imageSize"], {"image-size": "1"}, {"imageSize": "1"}, id="folded"),
        pytest.param(["imageSize"], {"IMAGE_SIZE": "1"}, {"imageSize": "1"}, id="case and underscore"),
        pytest.param(["image_size"], {"image-size": "1"}, {"image_size": "1"}, id="hyphen"),
        pytest.param(["imageSize"], {"imagesizes": "1"}, {"imagesizes": "1"}, id="no match stays as written"),
        pytest.param(["aB", "a_b"], {"AB": "1"}, {"AB": "1"}, id="two matches: as written"),
        pytest.param(["aB", "a_b"], {"aB": "1", "a_b": "2"}, {"aB": "1", "a_b": "2"}, id="exact beats folded"),
        pytest.param(
            ["x"], {"X": "1", "x": "2"}, {"X": "1", "x": "2"}, id="a folded key never overwrites an exact one"
        ),
        pytest.param(["x"], {"x": "2", "X": "1"}, {"x": "2", "X": "1"}, id="in any order"),
        pytest.param([], {"Image-Size": "1"}, {"Image-Size": "1"}, id="nothing declared, nothing renamed"),
        pytest.param(["text"], {"maid": "N", "Text": "t"}, {"maid": "N", "text": "t"}, id="maid stays"),
    ],
)
def test_names_of_arguments_are_folded_to_declared_ones(
    declared: list[str], given: dict[str, str], expected: dict[str, str]
) -> None:
    spec = tool("A", command("only", **dict.fromkeys(declared, TEXT)))
    prepared = prepare_arguments(spec, ToolCall("c", "A", given, texts=given))
    assert dict(prepared.arguments) == expected
    assert dict(prepared.texts) == expected


def test_of_several_commands_the_named_one_decides_and_without_one_all_together() -> None:
    spec = tool("A", command("make", imageSize=TEXT), command("cut", image_size=TEXT, depth=TEXT))

    def named(given: dict[str, str], by_name: str | None = None) -> dict[str, Any]:
        return dict(prepare_arguments(spec, ToolCall("c", "A", given, texts=given, command=by_name)).arguments)

    assert named({"command": "make", "IMAGESIZE": "1"}) == {"command": "make", "imageSize": "1"}
    assert named({"Command": " cut ", "IMAGESIZE": "1"}) == {"Command": " cut ", "image_size": "1"}
    assert named({"IMAGESIZE": "1"}, "cut") == {"image_size": "1"}
    assert named({"IMAGESIZE": "1", "DEPTH": "2"}) == {"IMAGESIZE": "1", "depth": "2"}
    assert named({"command": "unknown", "DEPTH": "2"}) == {"command": "unknown", "depth": "2"}


PARAMETERS = {
    "type": "object",
    "properties": {
        "n": {"type": "integer"},
        "f": {"type": "number"},
        "on": {"type": "boolean"},
        "list": {"type": "array"},
        "obj": {"type": "object"},
        "text": {"type": "string"},
        "ref": {"$ref": "#/$defs/Count"},
        "free": {},
    },
    "$defs": {"Count": {"type": "integer"}},
}


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("n", "7", 7),
        ("n", "seven", "seven"),
        ("f", "1.5", 1.5),
        ("f", "Infinity", "Infinity"),
        ("on", "True", True),
        ("on", "yes", "yes"),
        ("list", "[1]", [1]),
        ("list", "{}", "{}"),
        ("obj", '{"a":null}', {"a": None}),
        ("text", "7", "7"),
        ("ref", "7", 7),
        ("free", "7", "7"),
        ("extra", "7", "7"),
    ],
)
def test_typed_commands_get_values_and_untyped_ones_the_text(name: str, text: str, value: Any) -> None:
    for typed, expected in [(True, value), (False, text)]:
        spec = tool("A", ToolCommand("only", "only", "d", parameters=PARAMETERS, typed=typed))
        call = ToolCall("c", "A", {name: text}, texts={name: text})
        prepared = prepare_arguments(spec, call)
        assert prepared.arguments == {name: expected}
        assert prepared.texts == {name: text}


def test_values_that_did_not_come_as_text_are_not_converted() -> None:
    spec = tool("A", ToolCommand("only", "only", "d", parameters=PARAMETERS, typed=True))
    call = ToolCall("c", "A", {"n": "7", "list": [1]}, texts={})
    assert prepare_arguments(spec, call).arguments == {"n": "7", "list": [1]}


@pytest.mark.parametrize("parameters", [{}, {"properties": None}, {"properties": []}, {"properties": {"n": True}}])
def test_odd_schemas_do_no_harm(parameters: dict[str, Any]) -> None:
    spec = tool("A", ToolCommand("only", "only", "d", parameters=parameters, typed=True))
    prepared = prepare_arguments(spec, ToolCall("c", "A", {"n": "7"}, texts={"n": "7"}))
    assert prepared.arguments == {"n": "7"}


STRANGE = {
    "type": "object",
    "properties": {
        "__top": {"type": "integer"},
        "$filter": {"type": "string"},
        "a-b": {"type": "boolean"},
        "名称": {"type": "string"},
    },
}


def test_strange_names_reach_the_tool_as_they_are_declared() -> None:
    """P88: names with an underscore in front, a dollar or a hyphen clashed; they are sent under the very same name."""
    spec = tool("A", ToolCommand("only", "", "d", parameters=STRANGE, typed=True))
    for texts in (
        {"__top": "1", "filter": "x", "a-b": "true", "arg4": "n"},
        {"top": "1", "Filter": "x", "A_B": "true", "Arg_4": "n"},
        {"__top": "1", "$filter": "x", "ab": "true", "名称": "n"},
    ):
        prepared = prepare_arguments(spec, ToolCall("c", "A", texts, texts=texts))
        assert prepared.arguments == {"__top": 1, "$filter": "x", "a-b": True, "名称": "n"}


def test_what_a_model_leaves_empty_is_left_out_unless_it_is_required_or_a_text() -> None:
    """P86: unset fields are left out."""
    properties = {"n": {"type": "integer"}, "need": {"type": "integer"}, "text": {"type": "string"}, "free": {}}
    schema = {"properties": properties, "required": ["need"]}
    given = dict.fromkeys((*properties, "other"), "")
    for typed, expected in [(True, {"need": "", "text": "", "free": "", "other": ""}), (False, given)]:
        spec = tool("A", ToolCommand("only", "", "d", parameters=schema, typed=typed))
        assert prepare_arguments(spec, ToolCall("c", "A", given, texts=given)).arguments == expected


def test_null_for_what_was_left_open_is_left_out_whatever_door_it_came_by() -> None:
    """P86: unset fields are left out, not sent as null."""
    schema = {"properties": {"n": {"type": "integer"}, "need": {"type": "integer"}, "free": {}}, "required": ["need"]}
    given = {"n": None, "need": None, "free": None}
    for typed, expected in [(True, {"need": None, "free": None}), (False, given)]:
        spec = tool("A", ToolCommand("only", "", "d", parameters=schema, typed=typed))
        assert prepare_arguments(spec, ToolCall("c", "A", given)).arguments == expected


def test_arguments_that_only_a_part_of_the_schema_declares_are_converted_too() -> None:
    schema = {"$ref": "#/$defs/Args", "$defs": {"Args": {"properties": {"max_rows": {"type": "integer"}}}}}
    spec = tool("A", ToolCommand("only", "", "d", parameters=schema, typed=True))
    texts = {"MaxRows": "7"}
    assert prepare_arguments(spec, ToolCall("c", "A", texts, texts=texts)).arguments == {"max_rows": 7}
