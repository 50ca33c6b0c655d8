"""The scanner over torn, hostile and long text: same result however it is cut, in linear time and bounded memory."""

from __future__ import annotations

import codecs
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.protocol.tool_blocks import MAX_TAG_CHARS, SKIPPED_TOO_LONG, BlockScanner, ToolBlock, scan

T = "<<<[TOOL_REQUEST]>>>"
E = "<<<[END_TOOL_REQUEST]>>>"
CALL = f"{T}tool_name:「始」A「末」,x:「始」汉😀「末」{E}"

FRAGMENTS = st.sampled_from(
    [
        *(
            T,
            E,
            "「始」",
            "「末」",
            "「始ESCAPE」",
            "「末ESCAPE」",
            "<think>",
            "</think>",
            '<Thinking a="b">',
            "</THINKING >",
        ),
        *("<think/>", "<think ", "<", "<<<[", "「", "「始", "ESCAPE」", "<<<[TOOL_REQUEST_ESCAPE]>>>", ">", "/", "thi"),
        *(
            "tool_name:「始」A「末」",
            "x:「始」",
            "y : 「始」1「末」,",
            "key:",
            "-",
            " ",
            "\n",
            "\r\n",
            "text",
            "，",
            CALL,
        ),
        *(T + "tool_name:「始」B「末」", "a" * (MAX_TAG_CHARS - 1)),
    ]
)
TEXTS = st.lists(FRAGMENTS, max_size=25).map("".join)


def in_pieces(text: str, cuts: list[int], limit: int | None = None) -> list[ToolBlock]:
    scanner = BlockScanner() if limit is None else BlockScanner(max_block_chars=limit)
    found: list[ToolBlock] = []
    edges = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    for start, end in itertools.pairwise(edges):
        found += scanner.feed(text[start:end])
    return found + scanner.finish()


@given(text=TEXTS, cuts=st.lists(st.integers(0, 600), max_size=12))
def test_how_a_text_is_cut_makes_no_difference(text: str, cuts: list[int]) -> None:
    whole = scan(text)
    assert in_pieces(text, cuts) == whole
    assert in_pieces(text, list(range(len(text)))) == whole


@given(text=TEXTS, cuts=st.lists(st.integers(0, 600), max_size=12), limit=st.integers(40, 150))
def test_how_a_text_is_cut_makes_no_difference_at_the_limit(text: str, cuts: list[int], limit: int) -> None:
    whole = in_pieces(text, [], limit)
    assert in_pieces(text, cuts, limit) == whole
    assert in_pieces(text, list(range(len(text))), limit) == whole


@given(text=TEXTS)
def test_offsets_point_at_whole_blocks_and_no_two_run_blocks_overlap(text: str) -> None:
    end = 0
    for found in scan(text):
        if found.skipped_why == "unclosed value":
            assert text.startswith(T, found.start) and found.end == len(text)
            continue
        assert text.startswith(T, found.start) and text.endswith(E, found.start, found.end)
        assert found.tool
        if not found.skipped_why:
            assert found.start >= end
            end = found.end


@given(text=st.text(alphabet=st.characters(exclude_characters="<")))
def test_text_without_a_bracket_leaves_the_scanner_neutral(text: str) -> None:
    scanner = BlockScanner()
    assert scanner.feed(text) == []
    assert scanner.neutral
    assert scanner.finish() == []


@pytest.mark.parametrize("cut", range(1, len(CALL)))
def test_a_call_cut_anywhere_is_found_when_its_last_character_arrives(cut: int) -> None:
    scanner = BlockScanner()
    assert scanner.neutral
    assert scanner.feed(CALL[:cut]) == []
    assert not scanner.neutral
    [found] = scanner.feed(CALL[cut:])
    assert (found.tool, found.arguments, found.start, found.end) == ("A", {"x": "汉😀"}, 0, len(CALL))
    assert scanner.neutral


def test_a_call_torn_into_bytes_is_found_once_it_is_decoded() -> None:
    decoder = codecs.getincrementaldecoder("utf-8")()
    scanner = BlockScanner()
    found = [block for byte in CALL.encode() for block in scanner.feed(decoder.decode(bytes([byte])))]  # pitfall P24
    assert [block.arguments for block in found] == [{"x": "汉😀"}]


@pytest.mark.parametrize(
    ("text", "neutral"),
    [
        ("plain", True),
        ("a < b", True),
        ("a <", False),
        ("<<<[TOOL", False),
        ("<thi", False),
        ("<think a", False),
        ("<think>", False),
        ("<think></think>", True),
        ("<think/>", True),
        ("</think>", True),
        (T, False),
        (CALL, True),
        ("「始", True),
    ],
)
def test_the_scanner_says_whether_something_is_pending(text: str, neutral: bool) -> None:
    scanner = BlockScanner()
    scanner.feed(text)
    assert scanner.neutral is neutral
    scanner.finish()
    assert scanner.neutral


def test_offsets_count_from_the_beginning_of_the_whole_text() -> None:
    text = f"abc{CALL}def<think>{CALL}</think>{CALL}"
    found = in_pieces(text, [5, 50, 90])
    assert [text[block.start : block.end] for block in found] == [CALL] * 3
    assert [block.skipped_why for block in found] == ["", "think", ""]


def test_a_block_over_the_limit_is_passed_over_and_the_next_one_found() -> None:
    inner = f"{T}tool_name:「始」B「末」{E}"
    text = f"{T}tool_name:「始」A「末」,x:「始ESCAPE」{'a' * 200}{inner}「末ESCAPE」,y:「始」1「末」{E}{inner}"
    found = in_pieces(text, [30, 100, 200], limit=150)
    assert [(block.tool, block.arguments, block.skipped_why) for block in found] == [
        ("A", {}, SKIPPED_TOO_LONG),
        ("B", {}, ""),
    ]


def test_a_block_of_exactly_the_limit_is_read() -> None:
    assert [block.skipped_why for block in in_pieces(CALL, [], limit=len(CALL))] == [""]
    assert [block.skipped_why for block in in_pieces(CALL, [], limit=len(CALL) - 1)] == [SKIPPED_TOO_LONG]


HOSTILE = {
    "starts": T,
    "ends": E,
    "brackets": "<",
    "tags that open": "<think>",
    "tags that close": "</think>",
    "tags without end": "<think ",
    "long tags without end": "<think " + "a" * (MAX_TAG_CHARS + 1),
    "thoughts in thoughts": f"<think>{T}",
    "values without key": f"{T}「始」",
    "values without end": f"{T}x:「始」",
    "escaped values without end": f"{T}x:「始ESCAPE」",
    "blank before a value": f"{T}" + " " * 500 + "「始」",
    "keys without value": "a:" * 10,
    "torn values": "「始",
    "calls": CALL,
}


@pytest.mark.parametrize("head", ["", T, T + "x:「始」", "<think>" + T])
@pytest.mark.parametrize("piece", HOSTILE.values(), ids=HOSTILE)
def test_hostile_text_is_scanned_in_linear_time(piece: str, head: str) -> None:
    text = head + piece * (60_000 // len(piece)) + E
    whole = BlockScanner()
    whole.feed(text)
    assert whole.scanned <= 2 * len(text)
    torn = BlockScanner()
    feeds = range(0, len(text), 40)
    for start in feeds:
        torn.feed(text[start : start + 40])
    # A feed looks again at what is torn: a marker's length, or a think tag's.
    assert torn.scanned <= 2 * len(text) + len(feeds) * (MAX_TAG_CHARS + 20)


def test_ten_megabytes_of_open_block_do_not_stall() -> None:
    scanner = BlockScanner()
    scanner.feed(T + "tool_name:「始」A「末」,x:「始」")
    piece = "「始」<think>" * 1000
    for _ in range(1000):
        assert scanner.feed(piece) == []
    [found] = scanner.feed("「末」" + E)
    assert len(found.arguments["x"]) == 1000 * len(piece)
    assert scanner.scanned <= 2 * found.end


def test_thoughts_inside_thoughts_are_reported_without_recursion() -> None:
    text = "<think>" + f"{T}tool_name:「始」A「末」<think>" * 2000 + E
    assert [(block.tool, block.skipped_why) for block in scan(text)] == [("A", "think")]


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("a<think>b</think>c", ["<think>b</think>"]),
        (
            "a<think>b<think>c</think>d</think>e<THINKING x=1>f",
            ["<think>b<think>c</think>d</think>", "<THINKING x=1>f"],
        ),
        ("a<<<[TOOL_REQUEST]>>>x<<<[END_TOOL_REQUEST]>>>b", ["<<<[TOOL_REQUEST]>>>x<<<[END_TOOL_REQUEST]>>>"]),
        ("a<<<[TOOL_REQUEST]>>>x", []),
        ("a</think>b", []),
    ],
)
def test_ranges_of_think_parts_and_blocks_are_known(text: str, hidden: list[str]) -> None:
    for size in (1, 3, len(text)):
        scanner = BlockScanner()
        for start in range(0, len(text), size):
            scanner.feed(text[start : start + size])
        scanner.finish()
        assert [text[start:end] for start, end in scanner.hidden] == hidden
