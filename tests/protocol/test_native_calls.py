"""Function calls of the chat API, put together from pieces of every shape (P21), ours told from the client's (D3)."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.protocol import native_calls
from app.protocol.native_calls import NativeCall, NativeCallsError, NativeCallSorter, object_of

OURS = ("Echo", "Echo__Loud", "SciCalculator", "aa", "a")
THEIRS = ("weather", "Echo__Louder", "Sci")


def whole(id: str, name: str, arguments: str = "{}") -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def piece(index: int | None, id: str | None = None, name: str | None = None, arguments: str | None = None) -> Any:
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    fields = {"index": index, "id": id, "function": function or None}
    return {key: value for key, value in fields.items() if value is not None}


def sorted_calls(*pieces: Any, sorter: NativeCallSorter | None = None) -> tuple[list[tuple[str, str, str]], list[Any]]:
    """Calls of ours, and what passes to the client, after all pieces have come one by one."""
    sorter = sorter or NativeCallSorter(OURS, THEIRS)
    passed: list[Any] = []
    for one in pieces:
        passed += sorter.take(0, [one])
    passed += sorter.finish().get(0, [])
    return [(call.id, call.name, call.arguments) for call in sorter.take_ready()], passed


def put_together(pieces: Sequence[Any]) -> list[tuple[str, str, str]]:
    """Calls as a client puts them together: by index alone, names and arguments added up."""
    calls: dict[int, list[str]] = {}
    for one in pieces:
        call = calls.setdefault(one["index"], ["", "", ""])
        function = one.get("function") or {}
        for place, text in enumerate((one.get("id"), function.get("name"), function.get("arguments"))):
            call[place] += text or ""
    assert sorted(calls) == list(range(len(calls)))
    return [(id, name, arguments) for _, (id, name, arguments) in sorted(calls.items())]


NAMES = st.sampled_from([*OURS, *THEIRS, "unknown", "Ech"])
ARGUMENTS = st.dictionaries(st.text(max_size=3), st.text(max_size=5) | st.integers() | st.none(), max_size=3).map(
    json.dumps
)


@st.composite
def streams(draw: st.DrawFn) -> tuple[list[tuple[str, str, str]], list[Any]]:
    """Calls, and the pieces of a stream that says them: cut anywhere, of several calls in turn if it comes so."""
    calls = [
        (f"call_{number}", draw(NAMES), draw(ARGUMENTS))
        for number in range(draw(st.integers(min_value=0, max_value=5)))
    ]
    queues: list[list[Any]] = []
    for number, (id, name, arguments) in enumerate(calls):
        # Providers write the name at once; one in pieces is cut where no other known name ends.
        queue = [piece(number, id, name, "")]
        if name == "SciCalculator" and draw(st.booleans()):
            queue = [piece(number, id, "SciCal"), piece(number, None, "culator")]
        at = 0
        while at < len(arguments):
            size = draw(st.integers(min_value=1, max_value=6))
            queue.append(piece(number, None, None, arguments[at : at + size]))
            at += size
        queues.append(queue)
    pieces: list[Any] = []
    in_turn = draw(st.booleans())
    while any(queues):
        waiting = [queue for queue in queues if queue]
        pieces.append((draw(st.sampled_from(waiting)) if in_turn else waiting[0]).pop(0))
    return calls, pieces


@settings(max_examples=50)
@given(streams(), st.lists(st.integers(min_value=1, max_value=4), min_size=1, max_size=4))
def test_however_a_stream_is_cut_ours_are_the_same_calls_and_the_client_gets_its_own_from_0(
    stream: tuple[list[tuple[str, str, str]], list[Any]], sizes: list[int]
) -> None:
    calls, pieces = stream
    sorter = NativeCallSorter(OURS, THEIRS)
    passed: list[Any] = []
    found: list[NativeCall] = []
    at = turn = 0
    while at < len(pieces):
        size = sizes[turn % len(sizes)]
        passed += sorter.take(0, pieces[at : at + size])
        found += sorter.take_ready()
        at, turn = at + size, turn + 1
    passed += sorter.finish().get(0, [])
    found += sorter.take_ready()
    ours = [call for call in calls if call[1] in OURS]
    theirs = [call for call in calls if call[1] not in OURS]
    assert sorted((call.id, call.name, call.arguments) for call in found) == sorted(ours)
    assert sorted(put_together(passed)) == sorted(theirs)
    assert (sorter.kept[0], sorter.passed[0]) == (len(ours), len(theirs))


def test_where_nothing_is_ours_the_very_pieces_pass_at_once() -> None:
    sorter = NativeCallSorter(("Echo",), ("weather",))
    pieces = [piece(0, "a", "weather", ""), piece(0, None, None, '{"x":1}'), piece(1, "b", "news", "{}")]
    for one in pieces:
        (passed,) = sorter.take(0, [one])
        assert passed is one
    assert sorter.finish() == {}
    assert sorter.take_ready() == []


@pytest.mark.parametrize(
    ("pieces", "calls"),
    [
        # the index is missing: an id begins a call, what has none belongs to the last one
        (
            [piece(None, "a", "Echo", '{"x"'), piece(None, None, None, ":1}"), piece(None, "b", "aa", "{}")],
            [("a", "Echo", '{"x":1}'), ("b", "aa", "{}")],
        ),
        # index and id are missing: each piece is a whole call
        ([piece(None, None, "Echo", '{"x":1}'), piece(None, None, "Echo", '{"x":2}')], ["{x}1", "{x}2"]),
        # all calls are number 0
        (
            [piece(0, "a", "Echo", '{"x":1}'), piece(0, "b", "Echo", '{"x":2}')],
            [("a", "Echo", '{"x":1}'), ("b", "Echo", '{"x":2}')],
        ),
        # P21: id and name in every piece
        (
            [
                piece(0, "a", "Echo", ""),
                piece(0, "a", "Echo", '{"x":'),
                piece(0, "a", "Echo", "1}"),
                piece(0, "a", "Echo"),
            ],
            [("a", "Echo", '{"x":1}')],
        ),
        # another id in every piece, the name in the first
        ([piece(0, "a", "Echo", '{"x":'), piece(0, "b", "", "1}"), piece(0, "c")], [("a", "Echo", '{"x":1}')]),
        # the name so far in every piece
        (
            [
                piece(0, "a", "Sci"),
                piece(0, None, "SciCalc"),
                piece(0, None, "SciCalculator"),
                piece(0, None, None, "{}"),
            ],
            [("a", "SciCalculator", "{}")],
        ),
        # a name that another one begins with is certain with the arguments, or at the end
        ([piece(0, "a", "Echo"), piece(0, None, "__Loud"), piece(0, None, None, "{}")], [("a", "Echo__Loud", "{}")]),
        ([piece(0, "a", "Echo"), piece(1, "b", "Echo__Loud")], [("a", "Echo", ""), ("b", "Echo__Loud", "")]),
        # the id comes late, or not at all
        ([piece(0, None, "Echo", "{"), piece(0, "late", None, "}")], [("late", "Echo", "{}")]),
        ([piece(0, None, "Echo", "{}")], [("", "Echo", "{}")]),
        # equal ids under two numbers are two calls
        ([piece(0, "a", "Echo", "{}"), piece(1, "a", "aa", "{}")], [("a", "Echo", "{}"), ("a", "aa", "{}")]),
        # arguments as an object
        (
            [{"index": 0, "id": "a", "function": {"name": "Echo", "arguments": {"x": "你"}}}],
            [("a", "Echo", '{"x":"你"}')],
        ),
        # numbers that are none
        ([{"index": True, "id": "a", "function": {"name": "Echo", "arguments": "{}"}}], [("a", "Echo", "{}")]),
        # letters of a name one by one
        ([piece(0, "a", "a"), piece(0, None, "a"), piece(0, None, None, "{}")], [("a", "aa", "{}")]),
    ],
)
def test_calls_of_ours_are_found_in_every_shape_that_providers_write(pieces: list[Any], calls: list[Any]) -> None:
    calls = [("", "Echo", f'{{"x":{call[-1]}}}') if isinstance(call, str) else call for call in calls]
    found, passed = sorted_calls(*pieces)
    assert found == calls
    assert passed == []


def test_a_call_is_complete_when_the_next_begins_or_the_reply_ends() -> None:  # D24
    sorter = NativeCallSorter(OURS)
    sorter.take(0, [piece(0, "a", "aa", '{"x":1}')])
    assert not sorter.ready
    sorter.take(0, [piece(1, "b", "SciCalculator", "{")])
    assert [call.id for call in sorter.take_ready()] == ["a"]
    sorter.take(0, [piece(1, None, None, "}")])
    assert not sorter.ready
    sorter.finish()
    assert [call.id for call in sorter.take_ready()] == ["b"]


def test_calls_whose_pieces_take_turns_are_not_taken_for_complete() -> None:
    sorter = NativeCallSorter(OURS)
    sorter.take(0, [piece(0, "a", "aa", '{"x":'), piece(1, "b", "aa", '{"y":'), piece(0, None, None, "1}")])
    assert not sorter.ready
    sorter.take(0, [piece(1, None, None, "2}")])
    sorter.finish()
    assert [(call.id, call.arguments) for call in sorter.take_ready()] == [("a", '{"x":1}'), ("b", '{"y":2}')]


def test_a_call_that_is_complete_only_at_the_end_keeps_its_place() -> None:
    sorter = NativeCallSorter(OURS)
    sorter.take(0, [piece(0, "a", "aa", "{"), piece(1, "w", "weather"), piece(2, "b", "aa", "{}"), piece(3, "c", "aa")])
    sorter.finish()
    assert [(call.id, call.place) for call in sorter.take_ready()] == [("b", 2), ("a", 0), ("c", 3)]


def test_the_clients_calls_are_counted_from_0_in_both_orders() -> None:  # D33
    mine, yours = piece(0, "a", "aa", "{}"), piece(1, "b", "weather", "{}")
    found, passed = sorted_calls(mine, yours)
    assert (found, put_together(passed)) == ([("a", "aa", "{}")], [("b", "weather", "{}")])
    first, second = piece(0, "b", "weather", "{}"), piece(1, "a", "aa", "{}")
    found, passed = sorted_calls(first, second)
    assert found == [("a", "aa", "{}")]
    assert passed[0] is first


@pytest.mark.parametrize(
    "odd",
    [
        None,
        "text",
        7,
        {},
        {"index": 0},
        {"function": None},
        {"function": []},
        {"id": 7, "function": {"name": 7, "arguments": 7}},
        {"index": -1, "function": {"name": "news"}},
        {"index": 0, "id": "c", "type": "custom", "custom": {"name": "Echo", "input": "x"}},
    ],
)
def test_what_is_no_function_call_is_the_clients(odd: Any) -> None:
    found, passed = sorted_calls(odd)
    assert found == []
    assert len(passed) == 1
    if not isinstance(odd, dict) or odd.get("index", 0) == 0:
        assert passed[0] is odd
    assert NativeCallSorter(OURS).take_whole(0, [odd]) == [odd]


def test_custom_tools_of_the_client_are_not_held_back() -> None:
    first = {"index": 0, "id": "c", "type": "custom", "custom": {"name": "Echo", "input": ""}}
    assert NativeCallSorter(OURS).take(0, [first]) == [first]


def test_whole_messages_keep_the_clients_calls_as_they_came_and_the_providers_own_fields() -> None:
    sorter = NativeCallSorter(OURS, THEIRS)
    signed = {**whole("a", "Echo"), "extra_content": {"google": {"thought_signature": "s"}}}
    theirs = [whole("b", "weather"), {**whole("c", "unknown"), "index": 9}]
    passed = sorter.take_whole(0, [signed, *theirs])
    assert [one is other for one, other in zip(passed, theirs, strict=True)] == [True, True]
    (call,) = sorter.take_ready()
    assert call == NativeCall("a", "Echo", "{}", 0, {"extra_content": {"google": {"thought_signature": "s"}}})


def test_other_choices_lose_our_calls_and_none_of_them_is_told() -> None:  # D32
    sorter = NativeCallSorter(OURS, THEIRS)
    assert sorter.take(1, [piece(0, "a", "aa", "{}"), piece(1, "b", "weather", "{}")])[0]["index"] == 0
    assert sorter.take_whole(2, [whole("c", "Echo")]) == []
    assert sorter.finish() == {}
    assert not sorter.ready
    assert (sorter.kept[1], sorter.passed[1], sorter.kept[2]) == (1, 1, 1)


def test_a_name_of_the_client_is_never_ours() -> None:
    assert sorted_calls(piece(0, "a", "Echo", "{}"), sorter=NativeCallSorter(["Echo"], ["Echo"]))[0] == []


@pytest.mark.parametrize("text", ["", "  ", "{}", '{"x": 1}', '"{\\"x\\": 1}"', ' {"x":1}\n'])
def test_arguments_are_an_object_or_nothing(text: str) -> None:
    assert object_of(text) in ({}, {"x": 1})


@pytest.mark.parametrize("text", ["{", "[1]", "1", "null", '"x"', '{"x":NaN}', "{} {}", "[" * 100_000, '{"x":' * 9000])
def test_other_arguments_are_a_fault_and_never_more(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        object_of(text)


def flood_of_calls(sorter: NativeCallSorter) -> None:
    for number in range(native_calls.MAX_CALLS + 1):
        sorter.take(0, [piece(number, f"c{number}", "news", "{}")])


def flood_of_arguments(sorter: NativeCallSorter) -> None:
    while True:
        sorter.take(0, [piece(0, "a", "Echo", "x" * 4096)])


def flood_of_nothing(sorter: NativeCallSorter) -> None:
    while True:
        sorter.take(0, [{"index": 0}])


def flood_of_ids(sorter: NativeCallSorter) -> None:
    for number in range(native_calls.MAX_CALLS):
        sorter.take(0, [piece(number, f"{number}" + "i" * 4096, "news", "{}")])


def flood_of_further_fields(sorter: NativeCallSorter) -> None:
    """They are kept, since providers want theirs back."""
    for number in range(native_calls.MAX_CALLS):
        sorter.take(0, [{**piece(0, "a", "Echo", ""), f"field-{number}": {"x": "y" * 4096}}])


def deep_further_field(sorter: NativeCallSorter) -> None:
    deep: Any = []
    for _ in range(5000):
        deep = [deep]
    sorter.take(0, [{**piece(0, "a", "Echo", ""), "field": deep}])


FLOODS = [
    flood_of_calls,
    flood_of_arguments,
    flood_of_nothing,
    flood_of_ids,
    flood_of_further_fields,
    deep_further_field,
]


@pytest.mark.parametrize("flood", FLOODS)
def test_a_reply_without_end_is_broken_off(
    flood: Callable[[NativeCallSorter], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native_calls, "MAX_PIECES_CHARS", 1_000_000)
    with pytest.raises(NativeCallsError):
        flood(NativeCallSorter(OURS, THEIRS))


def test_hostile_pieces_take_linear_time() -> None:
    sorter = NativeCallSorter(OURS)
    sorter.take(0, [piece(0, "a", "Echo", '{"x":"' + "y" * 1_000_000)])
    for number in range(20_000):  # each looks like the end of an object, and like the beginning of another call
        sorter.take(0, [piece(0, f"id{number}", "Echo", "}")])
    sorter.finish()
    assert [call.id for call in sorter.take_ready()] == ["a"]
