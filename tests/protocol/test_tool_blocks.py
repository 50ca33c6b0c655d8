"""The vectors of spec 10.1 as corrected by D4, D21, D22 and D23, and the rules behind them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import BadRequestError
from app.protocol import markers
from app.protocol.arguments import fold
from app.protocol.blanks import trimmed
from app.protocol.tool_blocks import (
    SKIPPED_THINK,
    SKIPPED_UNCLOSED,
    ToolBlock,
    format_call,
    parse_block,
    parse_request,
    scan,
)
from app.protocol.tool_fields import KEY_CHARACTERS
from tests.tool_requests import NAME, PITFALLS, E, T


def calls(text: str) -> list[tuple[str, dict[str, str]]]:
    return [(block.tool, block.arguments) for block in scan(text) if not block.skipped_why]


def block(text: str) -> ToolBlock:
    [only] = scan(text)
    assert not only.skipped_why
    return only


@pytest.mark.parametrize(
    ("vector", "text", "expected"),
    [
        (
            "P1",
            f"{T} maid:「始」Nova「末」, tool_name:「始」SciCalculator「末」, expression:「始」1+1「末」 {E}",
            [("SciCalculator", {"maid": "Nova", "expression": "1+1"})],
        ),
        ("P2", f"{T} {NAME} x:「始」1「末」y:「始」2「末」 {E}", [("A", {"x": "1", "y": "2"})]),
        (
            "P3",
            f"{T} tool_name  :   「始」  A  「末」  ,  x :「始」\n multi\nline \n「末」 {E}",
            [("A", {"x": "multi\nline"})],
        ),
        ("P4", f"{T} tool_name：「始」A「末」 {E}", []),
        ("P5", f"{T} {NAME}，x:「始」1「末」 {E}", [("A", {"x": "1"})]),
        ("P6 by D21", f"{T} {NAME} image-size:「始」1「末」 {E}", [("A", {"image-size": "1"})]),
        ("P7", f"{T} {NAME} 参数:「始」1「末」,中key:「始」2「末」 {E}", [("A", {"key": "2"})]),
        ("P8 by D21", f"{T} TOOL_NAME:「始」A「末」 {E}", [("A", {})]),
        (
            "P9 by D21",
            f"{T} Tool_Name:「始」B「末」,{NAME},X:「始」1「末」,x:「始」2「末」 {E}",
            [("A", {"X": "1", "x": "2"})],
        ),
        ("P10", f"{T} {NAME} x:「始」1「末」 x:「始」2「末」 {E}", [("A", {"x": "2"})]),
        (
            "P11",
            f"{T} {NAME},x:「始」a「始」b「末」c「末」,y:「始」2「末」 {E}",
            [("A", {"x": "a「始」b", "y": "2"})],
        ),
        ("P12", f"{T} {NAME},x:「始」abc {E}", [("A", {})]),
        ("P13", f"{T} {NAME},x:「始」abc,\ny:「始」2「末」 {E}", [("A", {"x": "abc,\ny:「始」2"})]),
        ("P14", f"{T} x:「始」1「末」 {E}", []),
        ("P15", f"{T} {NAME} x:「始」1「末」", []),
        ("P16", f"{T} junk {T} {NAME} {E}", [("A", {})]),
        ("P17", f"{T} {NAME} x:「始」see {E} here「末」,y:「始」2「末」 {E}", [("A", {})]),
        (
            "P18",
            f"a {T}{NAME}{E} between {T}tool_name:「始」B「末」{E} after",
            [("A", {}), ("B", {})],
        ),
        ("P19", f"```\n{T}\n{NAME}\n{E}\n```", [("A", {})]),
        ("P20 by D21", f"<think>{T}{NAME}{E}</think>{T}tool_name:「始」B「末」{E}", [("B", {})]),
        ("P21 by D21", f"<think>{T}{NAME}{E}", []),
        ("P25 by D21", f"{T}{NAME} valet:「始」V「末」{E}", [("A", {"valet": "V", "maid": "V"})]),
        (
            "P26 by D21",
            f"{T}{NAME}x:「始ESCAPE」a「始」b「末」{E}c「末ESCAPE」,y:「始」2「末」 {E}",
            [("A", {"x": f"a「始」b「末」{E}c", "y": "2"})],
        ),
        (
            "P27 by D21",
            f"{T}{NAME}x:「始ESCAPE」<<<[TOOL_REQUEST_ESCAPE]>>>「始ESCAPE」q「末ESCAPE」,y:「始」2「末」{E}",
            [("A", {"x": f"{T}「始」q", "y": "2"})],
        ),
        ("P28", f"{T}{NAME}x:「始」「始exp」v「末exp」「末」{E}", [("A", {"x": "「始exp」v「末exp」"})]),
        ("P29", f"{T}{NAME}x:「始」「末」{E}", [("A", {"x": ""})]),
        ("P30", f"{T}tool_name:「始」 「末」{E}", []),
        (
            "P31",
            f"{T}{NAME}river:「始」full「末」,vref:「始」3「末」,ink:「始」mark_history「末」{E}",
            [("A", {"river": "full", "vref": "3", "ink": "mark_history"})],
        ),
        (
            "P32",
            f"{T}//tool_name:「始」A「末」 # note\n- x:「始」1「末」;y:「始」2「末」{E}",
            [("A", {"x": "1", "y": "2"})],
        ),
        ("P33", f"{T}{NAME}__proto__:「始」1「末」,constructor:「始」2「末」{E}", [("A", {"constructor": "2"})]),
        ("P34", f"{T}tool_name:「始]A「末」{E}", []),
        (
            "P35",
            f"{T}{NAME}command1:「始」ReadFile「末」,filePath1:「始」/a「末」,"
            f"command2:「始」ListDirectory「末」,directoryPath2:「始」/b「末」{E}",
            [
                (
                    "A",
                    {
                        "command1": "ReadFile",
                        "filePath1": "/a",
                        "command2": "ListDirectory",
                        "directoryPath2": "/b",
                    },
                )
            ],
        ),
        ("P37", f"{T.lower()}{NAME}{E.lower()}", []),
        ("P37 start only", f"{T}{NAME}{E.lower()}", []),
        ("P38", f"{T}{NAME}<<< [END_TOOL_REQUEST]>>>", []),
    ],
    ids=lambda value: value if isinstance(value, str) and value.startswith("P") else "",
)
def test_the_printed_vectors_give_their_calls(
    vector: str, text: str, expected: list[tuple[str, dict[str, str]]]
) -> None:
    assert calls(text) == expected


@pytest.mark.parametrize(
    ("text", "archery", "as_written"),
    [
        ("archery:「始」true「末」", True, "true"),  # P22
        ("archery:「始」no_reply「末」", True, "no_reply"),  # P23
        ("archery:「始」True「末」", False, "True"),  # P24
        ("archery:「始」「末」", False, ""),
        ("Archery:「始」true「末」", True, "true"),
        ("archery:「始」false「末」, ARCHERY:「始」true「末」", False, "false"),
        ("", False, None),
    ],
)
def test_archery_is_recognised_by_its_exact_value_and_never_an_argument(
    text: str, archery: bool, as_written: str | None
) -> None:
    found = block(f"{T}{NAME},{text}{E}")
    assert (found.archery, found.archery_text, found.arguments) == (archery, as_written, {})


@pytest.mark.parametrize("key", ["tool_password", "Tool_Password", "toolpassword", "tool-password"])
def test_a_password_leaves_the_arguments_and_keeps_its_key(key: str) -> None:
    found = block(f"{T}{NAME},{key}:「始」123456「末」,x:「始」1「末」{E}")  # P36; the router puts it back
    assert (found.password, found.password_key, found.arguments) == ("123456", key, {"x": "1"})


def test_without_a_password_there_is_no_password_key() -> None:
    found = block(f"{T}{NAME}{E}")
    assert (found.password, found.password_key) == (None, None)


@pytest.mark.parametrize(
    ("fields", "maid", "arguments"),
    [
        ("maid:「始」Nova「末」", "Nova", {"maid": "Nova"}),
        ("Maid:「始」Nova「末」", "Nova", {"Maid": "Nova"}),
        ("Maid:「始」B「末」,maid:「始」A「末」", "A", {"Maid": "B", "maid": "A"}),
        ("MAID:「始」B「末」,Maid:「始」A「末」", "A", {"MAID": "B", "Maid": "A"}),
        ("valet:「始」V「末」", "V", {"valet": "V", "maid": "V"}),
        ("Valet:「始」V「末」", "V", {"Valet": "V", "maid": "V"}),
        ("valet:「始」V「末」,maid:「始」M「末」", "M", {"valet": "V", "maid": "M"}),
        ("valet:「始」V「末」,Maid:「始」M「末」", "M", {"valet": "V", "Maid": "M"}),
        ("maid:「始」「末」", None, {"maid": ""}),
        ("valet:「始」 「末」", None, {"valet": ""}),
        ("x:「始」1「末」", None, {"x": "1"}),
    ],
)
def test_the_caller_is_the_maid_else_the_valet_and_stays_an_argument(
    fields: str, maid: str | None, arguments: dict[str, str]
) -> None:
    found = block(f"{T}{NAME},{fields}{E}")
    assert (found.maid, found.arguments) == (maid, arguments)


@pytest.mark.parametrize("key", ["TOOL_NAME", "tool-name", "ToolName", "toolname", "Tool-Name", "-tool_name"])
def test_the_tool_is_found_under_every_spelling_of_its_key(key: str) -> None:
    assert calls(f"{T}{key}:「始」A「末」,x:「始」1「末」{E}") == [("A", {"x": "1"})]


def test_an_empty_exact_tool_name_beats_a_folded_one() -> None:
    assert calls(f"{T}Tool_Name:「始」B「末」,tool_name:「始」「末」{E}") == []


@pytest.mark.parametrize(
    ("written", "key"),
    [
        ("- x", "x"),
        ("-x", "x"),
        ("--a-b", "a-b"),
        ("a-", "a-"),
        ("_x", "_x"),
        ("1.x", "x"),
        ("**x", "x"),
        ("é_é-y", "-y".lstrip("-")),
        ("x\u3000\ufeff\n", "x"),
    ],
)
def test_a_key_is_the_longest_run_without_leading_hyphens(written: str, key: str) -> None:
    assert calls(f"{T}{NAME}\n{written}:「始」1「末」{E}") == [("A", {key: "1"})]


@pytest.mark.parametrize("written", ["x**", "-", "键", "x：", "x;", "x\u0085", "x\x1f"])
def test_what_is_not_a_key_makes_no_field(written: str) -> None:
    assert calls(f"{T}{NAME}\n{written}:「始」1「末」,y:「始」2「末」{E}") == [("A", {"y": "2"})]


def test_values_are_trimmed_like_javascript_does() -> None:
    [(_, arguments)] = calls(f"{T}{NAME} x:「始」\u3000\ufeff\u00a0\v v\u0085\x1c \u2028「末」{E}")
    assert arguments == {"x": "v\u0085\x1c"}


def test_line_ends_inside_a_value_are_kept() -> None:
    assert calls(f"{T}{NAME} x:「始」a\r\nb\rc\nd「末」{E}") == [("A", {"x": "a\r\nb\rc\nd"})]


def test_arguments_keep_their_order_and_a_repeated_one_its_first_place() -> None:
    [(_, arguments)] = calls(f"{T}b:「始」1「末」{NAME}a:「始」2「末」c:「始」3「末」b:「始」4「末」{E}")
    assert list(arguments.items()) == [("b", "4"), ("a", "2"), ("c", "3")]


@pytest.mark.parametrize(("text", "expected"), PITFALLS)
def test_pitfalls_of_tool_requests_end_well(text: str, expected: list[tuple[str, dict[str, str]]]) -> None:
    assert calls(text) == expected


THINK_PARTS = [
    "<think>{}</think>",
    "<thinking>{}</thinking>",
    "<THINK>{}</Think>",
    '<think type="deep" n=1>{}</think >',
    "<thinking\nclass='a'>{}</thinking>",
    "<think>a<think>b</think>{}</think>",
    "<think>{}</thinking>",
    "<think>a</think><think>{}</think>",
    "</think><think>{}</think>",
    "<think/><think>{}</think>",
    "<think>{}",
    "<think><think></think>{}",
]


@pytest.mark.parametrize("part", THINK_PARTS)
def test_a_block_inside_a_think_part_is_reported_but_not_run(part: str) -> None:
    text = "before " + part.format(f"{T}{NAME}{E}")
    [found] = scan(text)
    assert (found.tool, found.skipped_why) == ("A", SKIPPED_THINK)
    assert text[found.start : found.end] == f"{T}{NAME}{E}"


@pytest.mark.parametrize(
    "part", [part for part in THINK_PARTS if part not in ("<think>{}", "<think><think></think>{}")]
)
def test_a_block_after_a_closed_think_part_is_run(part: str) -> None:
    assert calls(part.format("thought") + f"{T}{NAME}{E}") == [("A", {})]


@pytest.mark.parametrize(
    "text",
    ["</think>", "</thinking> x", "<think/>", "<thinker>", "<thinks>", "< think>", "think>", "<think", "<think <"],
)
def test_what_opens_no_think_part_hides_nothing(text: str) -> None:
    assert calls(f"{text}{T}{NAME}{E}") == [("A", {})]


def test_a_think_tag_longer_than_the_limit_is_text() -> None:
    assert calls(f"<think {'a' * 300}>{T}{NAME}{E}") == [("A", {})]
    assert calls(f"<think {'a' * 250}>{T}{NAME}{E}") == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # inside a value think tags are text, also in one that never ends
        (f"{T}{NAME},x:「始」<think>a「末」{E}", [("A", {"x": "<think>a"})]),
        (f"{T}{NAME},x:「始」<think>a{E}", [("A", {})]),
        (f"{T}{NAME},x:「始ESCAPE」</think><think>「末ESCAPE」{E}", [("A", {"x": "</think><think>"})]),
        # between fields a part is taken out with all that is in it
        (f"{T}{NAME},<think>x:「始」1「末」 {E}</think>y:「始」2「末」{E}", [("A", {"y": "2"})]),
        (f"{T}{NAME},x<think>thought</think>:「始」1「末」{E}", [("A", {"x": "1"})]),
        (f"{T}{NAME},<think>x:「始」</think>1「末」{E}", [("A", {})]),
        # an unclosed part hides the end marker too, so the start marker is text
        (f"{T}{NAME},<think>x:「始」1「末」{E}", []),
        # a closing tag has no effect
        (f"{T}{NAME},x:</think>「始」1「末」,y:「始」2「末」</think>{E}", [("A", {"y": "2"})]),
        # a start marker inside a think part begins no block
        (f"<think>{T}</think>{NAME}{E}", []),
        (f"<think>{T}{NAME},x:「始」</think>{T}tool_name:「始」B「末」{E}", [("B", {})]),
    ],
)
def test_think_tags_and_blocks_around_each_other(text: str, expected: list[tuple[str, dict[str, str]]]) -> None:
    assert calls(text) == expected


def test_a_block_inside_a_think_part_of_another_block_is_reported_too() -> None:
    found = scan(f"{T}{NAME}<think>{T}tool_name:「始」B「末」{E}</think>{E}")
    assert [(block.tool, block.skipped_why) for block in found] == [("B", SKIPPED_THINK), ("A", "")]


def test_an_escaped_value_without_a_key_still_hides_what_it_quotes() -> None:
    text = f"{T}{NAME},内容：「始ESCAPE」{T}tool_name:「始」B「末」{E}「末ESCAPE」,y:「始」1「末」{E}"
    assert calls(text) == [("A", {"y": "1"})]


def test_an_escaped_value_left_open_runs_nothing_behind_it() -> None:
    text = f"{T}{NAME},x:「始ESCAPE」quoted {T}tool_name:「始」B「末」{E} and cut off"
    [found] = scan(text)
    assert (found.tool, found.skipped_why, found.start, found.end) == ("A", SKIPPED_UNCLOSED, 0, len(text))


def test_escaped_forms_are_put_back_once() -> None:
    raw = "<<<[END_TOOL_REQUEST_ESCAPE]>>>「始ESCAPE」「末」"
    assert calls(f"{T}{NAME},x:「始ESCAPE」 {raw} 「末ESCAPE」{E}") == [("A", {"x": f"{E}「始」「末」"})]
    assert calls(f"{T}{NAME},x:「始」<<<[TOOL_REQUEST_ESCAPE]>>>「末」{E}") == [
        ("A", {"x": "<<<[TOOL_REQUEST_ESCAPE]>>>"})
    ]


def test_parse_block_reads_a_body() -> None:
    found = parse_block("maid:「始」Nova「末」,tool_name:「始」A「末」,x:「始」1「末」")
    assert found == ToolBlock("A", {"maid": "Nova", "x": "1"}, maid="Nova")
    assert parse_block("x:「始」1「末」") is None
    assert parse_block("") is None
    assert parse_block(f"{NAME} <think> x:「始」1「末」") == ToolBlock("A", {})
    assert parse_block(f"{NAME},x:「始ESCAPE」1") == ToolBlock("A", {}, end=0, skipped_why=SKIPPED_UNCLOSED)
    assert parse_block(f"x:「始」1「末」{E}{T}{NAME}<think>") is None
    assert parse_block(f"x:「始」1「末」{E}{T}{NAME}") is None


def test_a_request_may_stand_in_talk_with_any_line_ends() -> None:
    found = parse_request(
        f"please run\r\n{T}\r\n{NAME},\r\narchery:「始」true「末」,x:「始」<think>「末」\r\n{E}\r\nthanks"
    )
    assert (found.tool, found.arguments, found.archery_text) == ("A", {"x": "<think>"}, "true")  # pitfall P74, R6
    assert parse_request(f"<think>{T}{NAME}<think>{E}").tool == "A"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (NAME, markers.HUMAN_TOOL_NO_MARKERS),
        (f"{E}{T}{NAME}", markers.HUMAN_TOOL_NO_MARKERS),
        (f"{T}{NAME}", markers.HUMAN_TOOL_NO_MARKERS),
        (f"{T}x:「始」1「末」{E}", markers.HUMAN_TOOL_NO_NAME),
        (f"{T}x:「始」1「末」{E}{T}{NAME}{E}", markers.HUMAN_TOOL_NO_NAME),
        (f"{T}{NAME},x:「始ESCAPE」{E}", markers.HUMAN_TOOL_NO_MARKERS),
    ],
)
def test_a_malformed_request_is_refused_with_the_literal(text: str, message: str) -> None:
    with pytest.raises(BadRequestError) as raised:
        parse_request(text)
    assert raised.value.message == message


ESCAPED_FORMS = ("<<<[TOOL_REQUEST_ESCAPE]>>>", "<<<[END_TOOL_REQUEST_ESCAPE]>>>", "「始ESCAPE」", "「末ESCAPE」")
SPECIAL = [T, E, "「始」", "「末」", "「", "」", "末", "ESCAPE", "<", "<think>", "</think>", "a", " ", "\n", ":", "，"]
VALUES = (
    st.lists(st.sampled_from(SPECIAL) | st.text(max_size=3), max_size=8)
    .map(lambda pieces: trimmed("".join(pieces)))
    .filter(lambda value: not any(form in value for form in ESCAPED_FORMS))
)
KEYS = st.text(alphabet=KEY_CHARACTERS, min_size=1, max_size=6).filter(
    lambda key: key[0] != "-" and fold(key) not in ("toolname", "archery", "toolpassword", "valet", "proto")
)


@given(
    tool=st.sampled_from(["A", "Plugin.command", "node#tool", "工具", "server-1__x"]),
    arguments=st.dictionaries(KEYS | st.just("maid"), VALUES, max_size=4),
    archery=st.sampled_from([None, "true", "no_reply", "no"]),
    password=st.none() | st.just("123456"),
)
def test_parsing_a_formatted_call_gives_the_call(
    tool: str, arguments: dict[str, str], archery: str | None, password: str | None
) -> None:
    text = "prose " + format_call(tool, arguments, archery=archery, password=password) + " prose"
    found = block(text)
    assert found.tool == tool
    assert list(found.arguments.items()) == list(arguments.items())
    assert (found.archery_text, found.password) == (archery, password)
    assert text[found.start : found.end] == text[6:-6]


def test_a_formatted_call_uses_escaped_values_only_where_it_must() -> None:
    assert format_call("A", {"maid": "Nova", "x": "1"}) == f"{T}\n{NAME},\nmaid:「始」Nova「末」,\nx:「始」1「末」\n{E}"
    assert "x:「始ESCAPE」「始ESCAPE」1「末」「末ESCAPE」" in format_call("A", {"x": "「始」1「末」"})
    assert "<<<[END_TOOL_REQUEST_ESCAPE]>>>" in format_call("A", {"x": E})
    assert block(format_call("A", {"x": "see 「始ESCAPE」"})).arguments == {"x": "see 「始ESCAPE」"}


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        (" ", {}),
        ("A", {"a b": "1"}),
        ("A", {"-a": "1"}),
        ("A", {"": "1"}),
        ("A", {"键": "1"}),
        ("A", {"__proto__": "1"}),
        ("A", {"Tool-Name": "1"}),
        ("A", {"archery": "true"}),
        ("A", {"tool_password": "1"}),
        ("A", {"x": "「末」「末ESCAPE」"}),
    ],
)
def test_what_the_grammar_cannot_say_is_not_formatted(tool: str, arguments: dict[str, str]) -> None:
    with pytest.raises(ValueError):
        format_call(tool, arguments)
