"""What a conversation asks memory for, and how much it gets (memory.md 2.3, 2.4, 2.8; 10.3, M7; 11.18)."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.protocol import markers
from app.protocol.recall_query import (
    MAX_K,
    MAX_QUERY_CHARS,
    QueryTexts,
    clean_query,
    distinct_tokens,
    dynamic_k,
    is_follow_up,
    query_texts,
    reference_tokens,
    search_depth,
    utf16_length,
)
from tests.growth import grows_in_proportion


def tokens(number: int) -> str:
    return " ".join(f"w{index}" for index in range(number))


@pytest.mark.parametrize(
    ("number", "user", "assistant", "k", "multiplier", "then"),
    [
        ("K1", 10, 0, 3, 1.5, 5),
        ("K2", 31, 0, 5, 0.5, 3),
        ("K3", 101, 0, 7, 1.2, 8),
        ("K4", 1, 3, 3, 0, 1),
        ("K5", 101, 3, 5, 2, 10),
        ("K6", 40, 101, 6, 1, 6),
        ("K7", 10, 41, 4, 0.1, 1),
    ],
)
def test_vectors_k1_to_k7(number: str, user: int, assistant: int, k: int, multiplier: float, then: int) -> None:
    assert dynamic_k("x" * user, tokens(assistant)) == k, number
    assert dynamic_k("x" * user, tokens(assistant), multiplier) == then, number


def test_lengths_are_counted_in_utf16_units_and_tokens_once() -> None:
    assert utf16_length("a𝄞中") == 4
    assert dynamic_k("𝄞" * 16, "") == 5
    assert distinct_tokens("中文 中文 abc ABC 1é") == 5


@given(st.text(max_size=20), st.text(max_size=20), st.floats())
def test_k_is_between_one_and_its_limit_whatever_the_multiplier(user: str, assistant: str, multiplier: float) -> None:
    assert 1 <= dynamic_k(user, assistant, multiplier) <= MAX_K
    assert 1 <= search_depth(5, multiplier) <= MAX_K


def test_rerank_searches_twice_as_deep() -> None:
    assert search_depth(5) == 10
    assert search_depth(5, 1.5) == 8
    assert search_depth(5, math.nan) == 1


def test_m7_tokens_are_estimated_as_the_budgets_count_them() -> None:
    assert reference_tokens("你好world") == 5
    assert reference_tokens("") == 0
    assert reference_tokens("你") == 2


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("  你好  ", "你好"),
        ("<p>你好</p><br/>\n\n\n世界<b>x</b>", "你好\n世界x"),
        ("a &lt; b &amp; c &#20013;", "a < b & c 中"),
        ("1 < 2 and 3 > 2", "1 < 2 and 3 > 2"),
        ("好👍🏽❤️的👨‍👩‍👧", "好的"),
        ("见图 data:image/png;base64,iVBORw0KGgo= 对吗", "见图   对吗"),
        ("x" * 300 + " 对吗", "对吗"),
        (f"前{markers.TOOL_REQUEST_START}\ntool_name:「始」X「末」\n{markers.TOOL_REQUEST_END}后", "前后"),
        (f"前{markers.TOOL_REQUEST_START} 没有关上", f"前{markers.TOOL_REQUEST_START} 没有关上"),
        ("<think>想</think>答", "答"),
        (markers.show_vcp_block("T", "x", ok=True) + "答", "答"),
        ("<script>alert(1)</script>答<!-- y -->", "答"),
        ("a\r\n\r\nb", "a\nb"),
        ("x\ud800y", "xy"),
        ("&#99999999;", "&#99999999;"),
        ("", ""),
    ],
)
def test_queries_are_cleaned_of_what_machines_wrote(text: str, cleaned: str) -> None:
    assert clean_query(text) == cleaned


def test_long_texts_keep_their_beginning_and_end() -> None:
    cleaned = clean_query("头" + "字" * 100_000 + "尾")
    assert len(cleaned) == MAX_QUERY_CHARS
    assert (cleaned[0], cleaned[-1]) == ("头", "尾")


@given(st.text())
def test_cleaning_never_raises_and_is_bounded(text: str) -> None:
    cleaned = clean_query(text)
    assert len(cleaned) <= MAX_QUERY_CHARS
    cleaned.encode()  # no halves of characters


@pytest.mark.parametrize(
    "piece",
    [
        "<a",
        "<",
        "data:a/b;",
        "&#",
        "<!--",
        "<think>",
        "A",
        "\n \n",
        "<<<[TOOL_REQUEST]>>>",
        "<p ",
        "[[VCP调用结果信息汇总:",
    ],
)
def test_cleaning_hostile_text_takes_time_in_proportion(piece: str) -> None:
    assert grows_in_proportion(lambda size: clean_query(piece * (size // len(piece))), 40_000)


def message(role: str, content: Any) -> dict[str, Any]:
    return {"role": role, "content": content}


def test_the_last_text_of_the_user_and_the_last_answer_are_chosen() -> None:
    messages = [message("system", "s"), message("user", "一"), message("assistant", "二"), message("user", "三")]
    assert query_texts(messages) == QueryTexts("三", "二", "一")


def test_notes_of_the_system_and_results_of_tools_are_passed_over() -> None:
    messages = [
        message("user", "真的"),
        message("assistant", "答"),
        message("assistant", None),
        message("user", "[系统邀请指令:] x"),
        message("user", "[系统提示:] y"),
        message("user", f"{markers.HEAD_PAYLOAD_MARK}\nz"),
        message("user", "👍"),
    ]
    assert query_texts(messages) == QueryTexts("真的", "答", "")


def test_of_content_parts_the_first_text_counts() -> None:
    parts = [{"type": "image_url", "image_url": {"url": "data:,"}}, {"type": "text", "text": "图里是谁"}, {"text": "x"}]
    assert query_texts([message("user", parts)]).user == "图里是谁"
    assert query_texts([message("user", ["文", 1]), message("assistant", 5)]) == QueryTexts("文")
    assert query_texts([]) == QueryTexts()


@pytest.mark.parametrize(
    "text",
    [
        "那后来呢？", "然后呢", "后来怎么样了？", "为什么？", "还有呢？",
        "继续", "继续说", "他是谁？", "这是什么意思", "那她呢",
        "结果呢？？", "再详细一点", "怎么会这样", "And then?", "and then what happened?",
        "Why?", "what about her?", "tell me more", "Go on, continue.", "what's next?",
        "那 then 呢",
    ],
)  # fmt: skip
def test_texts_that_only_point_back_are_follow_ups_11_18(text: str) -> None:
    assert is_follow_up(text)


@pytest.mark.parametrize(
    "text",
    [
        "", "？", "你好吗", "那后来小克怎么样了？", "上周聊了什么", "what is Python?", "and then Bob left", "你是谁",
        "那家店的名字", "继续写代码", "那后来呢" * 20, "ok",
    ],
)  # fmt: skip
def test_texts_with_a_subject_of_their_own_are_not(text: str) -> None:
    assert not is_follow_up(text)


@given(st.text())
def test_no_text_makes_the_follow_up_test_raise(text: str) -> None:
    is_follow_up(text)
